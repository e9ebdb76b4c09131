//! `[[inbox]]`: what it means, and what is told of it.

use onefold_webhooks::{Encoding, HmacRule, KeyForm, Place, Scheme, Secret};

use super::*;
use crate::{Forward, Inbox, Reply};

const FORWARD: &str = "forward = { url = \"http://127.0.0.1:3000/hooks\" }\n";

fn parse(text: &str) -> Result<Settings, String> {
    let environment = |name: &str| match name {
        "WORDS" => Some("hunter2 is a password\n".into()),
        "WHSEC" => Some("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n".into()),
        "EMPTY" => Some(" \n".into()),
        _ => None,
    };
    read(&format!("{UPSTREAM}{text}"), "onefold.toml", &Flags::default(), &environment)
        .map_err(|error| error.to_string())
}

/// What is told of one source of this body, which begins in line 5; `forward` is there.
fn mistakes(body: &str) -> Vec<String> {
    let text = format!("[[inbox]]\n{FORWARD}{body}");
    let error = parse(&text).expect_err(body);
    assert!(!error.contains("hunter2"), "{error}");
    error.lines().map(|line| line.trim_start_matches("onefold.toml:").to_owned()).collect()
}

#[test]
fn a_source_means_what_it_says() {
    let text = "[[inbox]]\nsource = \"stripe\"\nscheme = \"stripe\"\nsecrets = [\"env:WORDS\", \"env:WHSEC\"]\n\
                tolerance = \"1m\"\nid = \"/id\"\nentity = \"/data/object/id\"\nversion = \"header:X-Version\"\n\
                forward = { url = \"http://127.0.0.1:3000/hooks\", timeout = \"3s\", attempts = 4 }\n\
                max_waiting = 7\nreply = \"forwarded\"\n";
    let settings = parse(text).unwrap();
    assert!(!format!("{settings:?}").contains("hunter2"));
    let [inbox] = &settings.inbox[..] else { panic!("one source") };
    let pointer = |text: &str| Some(Place::Pointer(text.into()));
    let secret = |text| Secret::new(text, KeyForm::Text).unwrap();
    assert_eq!((inbox.source.as_str(), &inbox.verify.scheme), ("stripe", &Scheme::Stripe));
    // Stripe's secrets begin with whsec_ and are taken as they stand.
    let secrets = vec![secret("hunter2 is a password"), secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")];
    assert_eq!((&inbox.verify.secrets, inbox.verify.tolerance), (&secrets, Duration::from_secs(60)));
    assert_eq!((&inbox.verify.id, &inbox.verify.entity), (&pointer("/id"), &pointer("/data/object/id")));
    assert_eq!(inbox.verify.version, Some(Place::Header("X-Version".into())));
    let url = "http://127.0.0.1:3000/hooks".to_owned();
    assert_eq!(inbox.forward, Forward { url, timeout: Duration::from_secs(3), attempts: 4 });
    assert_eq!((inbox.reply, inbox.max_waiting), (Reply::Forwarded, 7));
}

#[test]
fn what_is_not_written_has_its_default() {
    let text =
        format!("[[inbox]]\nsource = \"gh/app1\"\nscheme = \"github\"\nsecrets = [\"env:WORDS\"]\n{FORWARD}");
    let settings = parse(&text).unwrap();
    let inbox = &settings.inbox[0];
    assert_eq!((inbox.verify.tolerance, inbox.reply), (Inbox::TOLERANCE, Reply::Accepted));
    assert_eq!(inbox.max_waiting, 100_000);
    assert_eq!((&inbox.verify.id, &inbox.verify.entity, &inbox.verify.version), (&None, &None, &None));
    assert_eq!((inbox.forward.timeout, inbox.forward.attempts), (Forward::TIMEOUT, Forward::ATTEMPTS));
}

#[test]
fn what_a_source_ignores_is_what_is_written_or_else_what_its_scheme_knows() {
    let ignored = |scheme: &str, line: &str| {
        let text = format!(
            "[[inbox]]\nsource = \"s\"\nscheme = \"{scheme}\"\nsecrets = [\"env:WORDS\"]\n{line}{FORWARD}"
        );
        parse(&text).unwrap().inbox[0].verify.ignore.clone()
    };
    let pointers = |texts: &[&str]| -> Vec<onefold_canon::Pointer> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    };
    assert_eq!(ignored("github", "ignore = [\"/attempt\", \"/a/b\"]\n"), pointers(&["/attempt", "/a/b"]));
    assert_eq!(ignored("github", ""), []);
    assert_eq!(ignored("stripe", ""), pointers(&["/pending_webhooks", "/request"]));
    assert_eq!(ignored("stripe", "ignore = [\"/attempt\"]\n"), pointers(&["/attempt"]));
    assert_eq!(ignored("stripe", "ignore = []\n"), []);
}

#[test]
fn a_generic_signature_is_described() {
    let text = format!(
        "[[inbox]]\nsource = \"s\"\nscheme = \"hmac\"\nsecrets = [\"env:WORDS\"]\nid = \"header:X-Id\"\n\
         signature = {{ header = \"X-Sign\", encoding = \"base64\", prefix = \"v1=\", before_body = \"https://h/\" }}\n{FORWARD}"
    );
    let rule = HmacRule {
        header: "X-Sign".into(),
        encoding: Encoding::Base64,
        prefix: "v1=".into(),
        key: KeyForm::Text,
        before_body: "https://h/".into(),
    };
    assert_eq!(parse(&text).unwrap().inbox[0].verify.scheme, Scheme::Hmac(rule));
}

#[test]
fn a_source_that_signs_nothing_is_worth_a_warning() {
    let text = format!("[[inbox]]\nsource = \"s\"\nscheme = \"none\"\nid = \"/id\"\n{FORWARD}");
    let warning =
        "onefold.toml:5: inbox[0].scheme: nothing is signed: whoever reaches the listener is believed";
    assert!(parse(&text).unwrap().warnings.iter().any(|told| told == warning));
}

#[test]
fn a_handler_that_callers_reach_through_the_upstream_is_worth_a_warning() {
    let warnings = |url: &str| {
        let text = format!(
            "[[inbox]]\nsource = \"s\"\nscheme = \"github\"\nsecrets = [\"env:WORDS\"]\nforward = {{ url = \"{url}\" }}\n"
        );
        parse(&text).unwrap().warnings
    };
    let [warning] = &warnings("http://127.0.0.1:3000/hooks")[..] else { panic!("one warning") };
    assert!(
        warning.starts_with("onefold.toml:7: inbox[0].forward: the handler is on the upstream"),
        "{warning}"
    );
    for elsewhere in
        ["http://127.0.0.1:3001/hooks", "http://hooks.internal:3000/hooks", "https://127.0.0.1/hooks"]
    {
        assert_eq!(warnings(elsewhere), [""; 0], "{elsewhere}");
    }
}

#[test]
fn what_is_missing_is_told() {
    assert_eq!(
        parse("[[inbox]]\n").unwrap_err().lines().collect::<Vec<_>>(),
        [
            "onefold.toml:3: inbox[0].forward: required; write forward = { url = \"http://127.0.0.1:3000/hooks\" }",
            "onefold.toml:3: inbox[0].scheme: required; write scheme = \"standard\"",
            "onefold.toml:3: inbox[0].source: required; write source = \"stripe\"",
        ]
    );
    assert_eq!(
        mistakes("source = \"s\"\nscheme = \"hmac\"\nsecrets = [\"env:WORDS\"]\n"),
        ["3: inbox[0].signature: required; write signature = { header = \"X-Signature\" }"]
    );
    assert_eq!(
        mistakes("source = \"s\"\nscheme = \"stripe\"\n"),
        ["3: inbox[0].secrets: required; write secrets = [\"env:NAME\"] or [\"file:PATH\"]"]
    );
    assert_eq!(
        mistakes("source = \"s\"\nscheme = \"none\"\n"),
        ["3: inbox[0].id: required by this scheme; write id = \"/id\" or \"header:X-Id\""]
    );
}

#[test]
fn what_cannot_be_is_told_without_the_secret() {
    let of = |scheme: &str, secret: &str, more: &str| {
        mistakes(&format!("source = \"s\"\nscheme = \"{scheme}\"\nsecrets = [{secret}]\n{more}"))
    };
    assert_eq!(
        of("standard", "\"env:WORDS\"", ""),
        ["7: inbox[0].secrets[0]: env:WORDS: the secret is not base64"]
    );
    assert_eq!(of("stripe", "\"env:EMPTY\"", ""), ["7: inbox[0].secrets[0]: env:EMPTY: the secret is empty"]);
    assert_eq!(
        of("stripe", "\"hunter2\"", ""),
        ["7: inbox[0].secrets[0]: a secret stays out of the file; write env:NAME or file:PATH"]
    );
    assert_eq!(
        of("stripe", "", ""),
        [
            "7: inbox[0].secrets: without a secret nothing is accepted; write [\"env:NAME\"] or [\"file:PATH\"]"
        ]
    );
    assert_eq!(
        of("github", "\"env:WORDS\"", "tolerance = \"1m\"\n"),
        ["8: inbox[0].tolerance: this scheme signs no time; leave it out"]
    );
    assert_eq!(
        of("github", "\"env:WORDS\"", "version = \"/v\"\n"),
        ["8: inbox[0].version: a version is one of an entity; name that in entity"]
    );
    assert_eq!(
        of("github", "\"env:WORDS\"", "signature = { header = \"X\" }\n"),
        ["8: inbox[0].signature: only the scheme \"hmac\" has it"]
    );
    for (id, wrong) in [
        ("id", "\"id\" is not a place; write a JSON pointer such as /id, or header:NAME"),
        ("header:", "\"header:\": the colon is followed by the name of a header"),
    ] {
        let told = of("github", "\"env:WORDS\"", &format!("id = \"{id}\"\n"));
        assert_eq!(told, [format!("8: inbox[0].id: {wrong}")]);
    }
}

#[test]
fn a_source_is_a_path_and_is_there_once() {
    for bad in ["", "/a", "a/", "a//b", "..", "a b", "ä"] {
        let told = mistakes(&format!("source = \"{bad}\"\nscheme = \"none\"\nid = \"/id\"\n"));
        let wanted =
            "is not a source; write one such as stripe, github/app1: segments of letters, digits, -, _ and .";
        assert_eq!(told, [format!("5: inbox[0].source: \"{bad}\" {wanted}")]);
    }
    let one = format!("[[inbox]]\nsource = \"s\"\nscheme = \"none\"\nid = \"/id\"\n{FORWARD}");
    let told = parse(&format!("{one}{one}")).unwrap_err();
    assert_eq!(told, "onefold.toml:9: inbox[1].source: another [[inbox]] has this source; write another");
}
