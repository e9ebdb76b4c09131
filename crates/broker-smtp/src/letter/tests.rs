//! What becomes of bodies.

use onefold_core::Key;

use super::*;

fn message(media_type: &str, address: &str, body: &[u8]) -> Message {
    Message {
        id: Key::new("order-5001").unwrap(),
        destination: "mail".into(),
        address: address.into(),
        ordering_key: None,
        headers: vec![("Content-Type".into(), media_type.into())],
        body: body.to_vec(),
    }
}

fn json(body: &str) -> Message {
    message("application/json; charset=utf-8", "", body.as_bytes())
}

fn shop() -> Mailbox {
    "Shop <shop@example.org>".parse().unwrap()
}

fn to(letter: &Letter) -> Vec<String> {
    letter.envelope.to().iter().map(ToString::to_string).collect()
}

fn text(letter: &Letter) -> String {
    String::from_utf8(letter.bytes.clone()).unwrap()
}

const PLAIN: &str = r#"{"to":["Ann <ann@example.org>"],"subject":"Your order","text":"Thank you."}"#;

#[test]
fn mail_is_written_from_its_parts() {
    let all = r#"{"from":"Sales <sales@example.org>","to":["ann@example.org"],"cc":["bob@example.org"],
        "bcc":["eve@example.org"],"reply_to":"help@example.org","subject":"Gr\u00fc\u00dfe","text":"Hi","html":"<p>Hi</p>"}"#;
    let letter = letter(&json(all), Some(&shop())).unwrap();
    assert_eq!(letter.envelope.from().unwrap().to_string(), "sales@example.org");
    assert_eq!(to(&letter), ["ann@example.org", "bob@example.org", "eve@example.org"]);
    let text = text(&letter);
    for line in ["From: Sales <sales@example.org>", "Reply-To: help@example.org", "multipart/alternative"] {
        assert!(text.contains(line), "{text}");
    }
    assert!(!text.contains("eve@"), "a hidden recipient stays hidden: {text}");
    assert_eq!(raw::field(&letter.bytes, "Message-ID").unwrap(), "<order-5001@example.org>");
}

#[test]
fn message_id_is_the_same_in_every_sending_and_fits_for_any_id() {
    let ann: Address = "ann@example.org".parse().unwrap();
    let unfit = ["a b", "a@b", ".a", "a..b", "ü", "<x>"];
    for id in ["order-5001", "a.b_c", "a b", "a@b", ".a", "a..b", "ü", "<x>"] {
        let made = message_id(id, &ann);
        assert_eq!(made, message_id(id, &ann));
        assert_eq!(made != format!("<{id}@example.org>"), unfit.contains(&id), "{made}");
        let left = made.strip_prefix('<').unwrap().strip_suffix("@example.org>").unwrap();
        assert!(left.bytes().all(|byte| byte.is_ascii_graphic() && !b"<>@".contains(&byte)), "{made}");
    }
    assert_ne!(message_id("a b", &ann), message_id("a  b", &ann));
}

#[test]
fn address_is_the_recipient_where_the_mail_names_none() {
    let bare = r#"{"subject":"Your order","text":"Thank you."}"#;
    let with = message("application/json", "ann@example.org, Bob <bob@example.org>", bare.as_bytes());
    assert_eq!(to(&letter(&with, Some(&shop())).unwrap()), ["ann@example.org", "bob@example.org"]);
}

#[test]
fn what_is_no_mail_is_refused_without_a_word_of_it() {
    let secret = "hidden";
    let bad = [
        json("{\"subject\":\"hidden\"}"),
        json("{\"to\":[\"hidden at example.org\"],\"subject\":\"\",\"text\":\"\"}"),
        json("{\"to\":[\"ann@example.org\"],\"subject\":\"\",\"text\":\"\",\"attach\":\"hidden\"}"),
        json("{\"to\":[\"ann@example.org\"],\"subject\":\"hidden\"}"),
        json("hidden"),
        message("text/plain", "ann@example.org", b"hidden"),
        message("message/rfc822", "ann@example.org", b"hidden"),
        message(
            "message/rfc822",
            "",
            b"From: a@example.org\r\nTo: a@example.org\r\nBcc: hidden@example.org\r\n\r\n",
        ),
        message("message/rfc822", "", b"From: a@example.org\r\n\r\nhidden"),
    ];
    for message in bad {
        let refused = letter(&message, Some(&shop())).map(drop).unwrap_err();
        assert!(!refused.contains(secret), "{refused}");
    }
    assert!(letter(&json(PLAIN), None).is_err(), "nobody sends it");
}

#[test]
fn mail_that_was_written_elsewhere_goes_out_as_it_is_with_an_id() {
    let mail =
        b"From: Shop <shop@example.org>\nTo: ann@example.org,\n bob@example.org\nSubject: x\n\n.\nbody\n";
    let made = letter(&message("message/rfc822", "", mail), None).unwrap();
    assert_eq!(to(&made), ["ann@example.org", "bob@example.org"]);
    let expected = format!(
        "Message-ID: <order-5001@example.org>\r\n{}",
        String::from_utf8(raw::lines_ended(mail)).unwrap()
    );
    assert_eq!(text(&made), expected);
    let own = b"Message-ID: <own@example.org>\r\nFrom: shop@example.org\r\n\r\nbody\r\n";
    let made = letter(&message("message/rfc822", "ann@example.org", own), None).unwrap();
    assert_eq!(made.bytes, own);
}

#[test]
fn subject_cannot_bring_a_field_along() {
    let sly = r#"{"to":["ann@example.org"],"subject":"x\r\nBcc: eve@example.org","text":"Hi"}"#;
    if let Ok(made) = letter(&json(sly), Some(&shop())) {
        assert_eq!(raw::field(&made.bytes, "Bcc"), None, "{}", text(&made));
    }
}
