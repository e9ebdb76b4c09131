//! `[[destination]]`: what it means, and what is told of it.

use std::time::Duration;

use onefold_webhooks::{KeyForm, Secret};

use super::super::read;
use crate::{Destination, Flags, LostAnswers, Settings, To};

fn parse(text: &str) -> Result<Settings, String> {
    let environment = |name: &str| match name {
        "WHSEC" => Some("whsec_c2VjcmV0IG9mIDI0IGJ5dGVzIGF0IGxlYXN0".to_owned()),
        "AMQP" => Some("amqp://shop:pass@broker/\n".to_owned()),
        _ => None,
    };
    read(text, "onefold.toml", &Flags::default(), &environment).map_err(|error| error.to_string())
}

fn one(body: &str) -> Destination {
    let text = format!("[[destination]]\nname = \"events\"\n{body}");
    parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}")).destinations.remove(0)
}

fn mistake(body: &str) -> String {
    let text = format!("[[destination]]\nname = \"events\"\n{body}");
    parse(&text).unwrap_err().replace("onefold.toml:", "").replace("destination[0].", "")
}

#[test]
fn each_kind_is_read_with_what_is_its_own() {
    let http = one(
        "kind = \"http\"\nurl = \"https://h/hooks\"\nsecrets = [\"env:WHSEC\"]\ntimeout = \"3s\"\nattempts = 4\nconcurrency = 2\n",
    );
    let secrets = vec![Secret::new("c2VjcmV0IG9mIDI0IGJ5dGVzIGF0IGxlYXN0", KeyForm::Whsec).unwrap()];
    let to = To::Http { url: "https://h/hooks".into(), secrets, lost_answers: LostAnswers::SendAgain };
    let (timeout, attempts, concurrency) = (Some(Duration::from_secs(3)), Some(4), Some(2));
    assert_eq!(http, Destination { name: "events".into(), to, timeout, attempts, concurrency });
    let smtp = one("kind = \"smtp\"\nurl = \"smtp://h\"\nsender = \"Shop <s@h>\"\n");
    let sender = Some("Shop <s@h>".into());
    assert_eq!(smtp.to, To::Smtp { url: "smtp://h".into(), sender, lost_answers: LostAnswers::Hold });
    assert_eq!((smtp.timeout, smtp.attempts, smtp.concurrency), (None, None, None));
    let rabbit = one("kind = \"rabbitmq\"\nurl = \"env:AMQP\"\n");
    assert_eq!(rabbit.to, To::RabbitMq { url: "amqp://shop:pass@broker/".into(), exchange: String::new() });
    let kafka = one("kind = \"kafka\"\nurl = \"a:9092,b:9092\"\n");
    assert_eq!(kafka.to, To::Kafka { servers: "a:9092,b:9092".into() });
}

#[test]
fn a_file_of_destinations_needs_no_upstream() {
    let text = "[[destination]]\nname = \"events\"\nkind = \"nats\"\nurl = \"nats://h\"\n";
    assert_eq!(parse(text).unwrap().upstream, None);
    assert!(parse("").unwrap_err().contains("upstream.url"));
}

#[test]
fn what_is_wrong_is_told_without_the_address() {
    for (body, told) in [
        ("", "1: kind: required; write kind = \"http\""),
        (
            "kind = \"nats\"\n",
            "1: url: required; write the address, or env:NAME or file:PATH where it holds a password",
        ),
        (
            "kind = \"nats\"\nurl = \"http://u:secret@h\"\n",
            "4: url: the address of this kind begins with nats:// or tls://",
        ),
        (
            "kind = \"kafka\"\nurl = \"kafka://h\"\n",
            "4: url: the address has no scheme; write \"host:9092\", several with commas between",
        ),
        (
            "kind = \"rabbitmq\"\nurl = \"env:NONE\"\n",
            "4: url: the environment has no NONE, or it is not text",
        ),
        (
            "kind = \"http\"\nurl = \"http://h\"\n",
            "1: secrets: required; write secrets = [\"env:NAME\"] or [\"file:PATH\"]",
        ),
        (
            "kind = \"http\"\nurl = \"http://h\"\nsecrets = [\"plain\"]\n",
            "5: secrets[0]: a secret stays out of the file; write env:NAME or file:PATH",
        ),
        (
            "kind = \"nats\"\nurl = \"nats://h\"\nexchange = \"x\"\n",
            "5: exchange: this kind of destination has no such setting; leave it out",
        ),
        (
            "kind = \"nats\"\nurl = \"nats://h\"\nattempts = 0\n",
            "5: attempts: 0 is not a number that is allowed; write one from 1 to 1000 without quotes",
        ),
    ] {
        assert_eq!(mistake(body), told, "{body}");
    }
    let one = "[[destination]]\nname = \"events\"\nkind = \"nats\"\nurl = \"nats://h\"\n";
    let twice = parse(&format!("{one}{one}")).unwrap_err();
    assert_eq!(
        twice,
        "onefold.toml:6: destination[1].name: another [[destination]] has this name; write another"
    );
}
