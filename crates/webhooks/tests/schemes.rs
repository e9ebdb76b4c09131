//! Every scheme against published vectors, and what each refuses.

use http::{HeaderMap, HeaderName, HeaderValue};
use onefold_webhooks::{
    Encoding, HmacRule, KeyForm, NotASecret, Place, Refusal, Scheme, Secret, SignError, Source, sign,
};

/// The vector of the Standard Webhooks libraries.
const STANDARD_SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const STANDARD_ID: &str = "msg_p5jXN8AQM9LWM0D4loKWxJek";
const STANDARD_TIME: i64 = 1_614_265_330;
const STANDARD_BODY: &[u8] = br#"{"test": 2432232314}"#;
const STANDARD_SIGNATURE: &str = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";

/// The vector of GitHub's documentation.
const GITHUB_SECRET: &str = "It's a Secret to Everybody";
const GITHUB_SIGNATURE: &str = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";

fn source(scheme: Scheme, secrets: &[&str]) -> Source {
    let form = scheme.key_form();
    Source::new(scheme, secrets.iter().map(|text| Secret::new(text, form).unwrap()))
}

fn headers(lines: &[(&str, &str)]) -> HeaderMap {
    let line = |(name, value): &(&str, &str)| {
        (name.parse::<HeaderName>().unwrap(), HeaderValue::from_str(value).unwrap())
    };
    lines.iter().map(line).collect()
}

fn standard(signature: &str) -> HeaderMap {
    headers(&[
        ("webhook-id", STANDARD_ID),
        ("webhook-timestamp", "1614265330"),
        ("webhook-signature", signature),
    ])
}

fn read_standard(headers: &HeaderMap, now_s: i64) -> Result<String, Refusal> {
    let source = source(Scheme::Standard, &[STANDARD_SECRET]);
    source.read(headers, STANDARD_BODY, now_s).map(|delivery| delivery.id.as_str().to_owned())
}

#[test]
fn the_vector_of_standard_webhooks_is_signed_and_accepted() {
    let secret = Secret::new(STANDARD_SECRET, KeyForm::Whsec).unwrap();
    let signed = sign(STANDARD_ID, STANDARD_TIME, STANDARD_BODY, &[secret]).unwrap();
    assert_eq!(signed[1], ("webhook-signature", STANDARD_SIGNATURE.to_owned()));
    assert_eq!(read_standard(&standard(STANDARD_SIGNATURE), STANDARD_TIME).as_deref(), Ok(STANDARD_ID));
    let bare = source(Scheme::Standard, &[&STANDARD_SECRET["whsec_".len()..]]);
    assert!(bare.read(&standard(STANDARD_SIGNATURE), STANDARD_BODY, STANDARD_TIME).is_ok());
}

#[test]
fn one_good_signature_among_several_is_enough() {
    let other = "v1,Ceo5qEr07ixe2NLpvHk3FH9bwy/WavXrAFQ/9tdO6mc=";
    let several = format!("{other} v1a,AAAA {STANDARD_SIGNATURE} {other}");
    assert!(read_standard(&standard(&several), STANDARD_TIME).is_ok());
    assert_eq!(read_standard(&standard(other), STANDARD_TIME), Err(Refusal::Mismatch));
    // The same signature under a version that is not spoken says nothing.
    let v2 = STANDARD_SIGNATURE.replace("v1,", "v2,");
    assert!(matches!(read_standard(&standard(&v2), STANDARD_TIME), Err(Refusal::Malformed { .. })));
    let many = vec![STANDARD_SIGNATURE; 17].join(" ");
    assert!(matches!(read_standard(&standard(&many), STANDARD_TIME), Err(Refusal::Malformed { .. })));
}

#[test]
fn a_signed_time_counts_as_long_as_the_tolerance_says_in_both_directions() {
    let good = standard(STANDARD_SIGNATURE);
    for off in [-300, 0, 300] {
        assert!(read_standard(&good, STANDARD_TIME + off).is_ok(), "{off}");
    }
    for off in [-301, 301] {
        let stale = Err(Refusal::Stale { off_s: 301, tolerance_s: 300 });
        assert_eq!(read_standard(&good, STANDARD_TIME + off), stale, "{off}");
    }
}

#[test]
fn id_time_and_body_are_signed_together() {
    for (name, value) in [("webhook-id", "msg_other"), ("webhook-timestamp", "1614265331")] {
        let mut changed = standard(STANDARD_SIGNATURE);
        changed.insert(name, HeaderValue::from_static(value));
        assert_eq!(read_standard(&changed, STANDARD_TIME), Err(Refusal::Mismatch), "{name}");
    }
    let source = source(Scheme::Standard, &[STANDARD_SECRET]);
    // One blank less: another text of the same JSON.
    let body = br#"{"test":2432232314}"#;
    assert_eq!(source.read(&standard(STANDARD_SIGNATURE), body, STANDARD_TIME), Err(Refusal::Mismatch));
}

#[test]
fn what_is_missing_or_malformed_is_named() {
    for name in ["webhook-id", "webhook-timestamp", "webhook-signature"] {
        let mut without = standard(STANDARD_SIGNATURE);
        without.remove(name);
        assert_eq!(read_standard(&without, STANDARD_TIME), Err(Refusal::Missing(name.into())));
    }
    for signature in ["", "v1,", "v1,dawfeoifkpqwoekfpqoekf", "v1", &STANDARD_SIGNATURE[..8]] {
        let refused = read_standard(&standard(signature), STANDARD_TIME).unwrap_err();
        assert!(refused.is_of_the_signature(), "{signature}: {refused}");
    }
    let mut twice = standard(STANDARD_SIGNATURE);
    twice.append("webhook-signature", HeaderValue::from_static(STANDARD_SIGNATURE));
    assert!(matches!(read_standard(&twice, STANDARD_TIME), Err(Refusal::Malformed { .. })));
}

#[test]
fn an_id_with_a_dot_is_refused_since_the_signed_text_could_be_cut_elsewhere() {
    let mut dotted = standard(STANDARD_SIGNATURE);
    dotted.insert("webhook-id", HeaderValue::from_static("msg.1"));
    assert!(matches!(read_standard(&dotted, STANDARD_TIME), Err(Refusal::Malformed { .. })));
    let secret = Secret::new(STANDARD_SECRET, KeyForm::Whsec).unwrap();
    assert_eq!(sign("msg.1", 1, b"", &[secret]), Err(SignError::Id));
    assert_eq!(sign("msg", 1, b"", &[]), Err(SignError::NoSecret));
}

#[test]
fn old_and_new_secret_both_sign_and_both_are_accepted() {
    let (old, new) = ("b2xkLW9sZC1vbGQtb2xkLW9sZC1vbGQ=", "bmV3LW5ldy1uZXctbmV3LW5ldy1uZXc=");
    let secrets = [old, new].map(|text| Secret::new(text, KeyForm::Whsec).unwrap());
    let [id, signature, time] = sign("evt_1", 1000, b"{}", &secrets).unwrap();
    let sent = headers(&[(id.0, &id.1), (signature.0, &signature.1), (time.0, &time.1)]);
    for accepted in [&[old][..], &[new], &[new, old]] {
        assert!(source(Scheme::Standard, accepted).read(&sent, b"{}", 1000).is_ok(), "{accepted:?}");
    }
    let stranger = source(Scheme::Standard, &["c3RyYW5nZXI="]);
    assert_eq!(stranger.read(&sent, b"{}", 1000), Err(Refusal::Mismatch));
    let nobody = source(Scheme::Standard, &[]);
    assert_eq!(nobody.read(&sent, b"{}", 1000), Err(Refusal::Mismatch));
}

#[test]
fn the_vector_of_githubs_documentation_is_accepted() {
    let source = source(Scheme::GitHub, &["another", GITHUB_SECRET]);
    let sent = headers(&[("X-Hub-Signature-256", GITHUB_SIGNATURE), ("X-GitHub-Delivery", "72d3162e")]);
    assert_eq!(source.read(&sent, b"Hello, World!", 0).unwrap().id.as_str(), "72d3162e");
    assert_eq!(source.read(&sent, b"Hello, World?", 0), Err(Refusal::Mismatch));
    let bare = headers(&[("X-Hub-Signature-256", &GITHUB_SIGNATURE["sha256=".len()..])]);
    assert!(matches!(source.read(&bare, b"Hello, World!", 0), Err(Refusal::Malformed { .. })));
    let unsigned = headers(&[("X-GitHub-Delivery", "72d3162e")]);
    assert_eq!(
        source.read(&unsigned, b"Hello, World!", 0),
        Err(Refusal::Missing("X-Hub-Signature-256".into()))
    );
}

#[test]
fn a_generic_hmac_has_its_header_encoding_prefix_key_and_what_is_signed_before_the_body() {
    let rule = HmacRule {
        header: "X-Sign".into(),
        encoding: Encoding::Hex,
        prefix: "sha256=".into(),
        key: KeyForm::Hex,
        before_body: "Hello, ".into(),
    };
    let secret: String = GITHUB_SECRET.bytes().map(|byte| format!("{byte:02x}")).collect();
    let mut source = source(Scheme::Hmac(rule), &[&secret]);
    source.id = Some(Place::Header("X-Id".into()));
    let sent = headers(&[("X-Sign", GITHUB_SIGNATURE), ("X-Id", "7")]);
    assert_eq!(source.read(&sent, b"World!", 0).unwrap().id.as_str(), "7");
    assert_eq!(source.read(&sent, b"Hello, World!", 0), Err(Refusal::Mismatch));
}

#[test]
fn secrets_are_of_their_form_and_are_never_shown() {
    assert_eq!(Secret::new("", KeyForm::Text), Err(NotASecret::Empty));
    assert_eq!(Secret::new("whsec_", KeyForm::Whsec), Err(NotASecret::Empty));
    assert_eq!(Secret::new("abc", KeyForm::Hex), Err(NotASecret::NotHex));
    assert_eq!(Secret::new("a b", KeyForm::Base64), Err(NotASecret::NotBase64));
    let shown = format!("{:?}", source(Scheme::Stripe, &["hunter2"]));
    assert!(!shown.contains("hunter2") && !shown.contains("104, 117"), "{shown}");
}
