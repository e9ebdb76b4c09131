//! Recorded bodies of providers, signed as each provider does, with secrets of the test.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use http::{HeaderMap, HeaderValue};
use onefold_testkit::recordings;
use onefold_webhooks::{Encoding, HmacRule, KeyForm, Place, Refusal, Scheme, Secret, Source};
use sha2::Sha256;

const SECRET: &str = "whsec_of_the_test";

fn mac(parts: &[&[u8]]) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(SECRET.as_bytes()).unwrap();
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn source(scheme: Scheme) -> Source {
    let secret = Secret::new(SECRET, scheme.key_form()).unwrap();
    Source::new(scheme, [secret])
}

fn pointer(text: &str) -> Option<Place> {
    Some(Place::Pointer(text.into()))
}

/// The body with one bit of its middle turned.
fn forged(body: &[u8]) -> Vec<u8> {
    let mut body = body.to_vec();
    let middle = body.len() / 2;
    body[middle] ^= 1;
    body
}

#[test]
fn stripes_events_are_verified_and_say_id_entity_and_version() {
    let mut source = source(Scheme::Stripe);
    (source.entity, source.version) = (pointer("/data/object/id"), pointer("/created"));
    let bodies = recordings::all("provider-webhooks/stripe", "json");
    for (file, object) in &bodies {
        let data = std::str::from_utf8(object).unwrap();
        // The recordings are the data of events, and one is an event.
        let body = match data.contains("\"evt_00000000000000\"") {
            true => data.to_owned(),
            false if data.trim_start().starts_with("{\n  \"object\": {") => {
                format!("{{\"id\":\"evt_1\",\"created\":1546497808,\"data\":{data}}}")
            }
            false => format!("{{\"id\":\"evt_1\",\"created\":1546497808,\"data\":{{\"object\":{data}}}}}"),
        };
        let signature = hex(&mac(&[b"1700000000.", body.as_bytes()]));
        let line = format!("t=1700000000,v1={},v1={signature},v0=00", "0".repeat(64));
        let headers = HeaderMap::from_iter([(
            http::HeaderName::from_static("stripe-signature"),
            HeaderValue::try_from(line).unwrap(),
        )]);
        let delivery = source.read(&headers, body.as_bytes(), 1_700_000_010).unwrap();
        assert!(delivery.id.as_str().starts_with("evt_"), "{file}");
        assert!(delivery.version.is_some(), "{file}");
        assert_eq!(delivery.entity.is_none(), file.ends_with("invoice.upcoming.json"), "{file}");
        assert_eq!(source.read(&headers, &forged(body.as_bytes()), 1_700_000_010), Err(Refusal::Mismatch));
        let late = source.read(&headers, body.as_bytes(), 1_700_000_400);
        assert_eq!(late, Err(Refusal::Stale { off_s: 400, tolerance_s: 300 }));
    }
}

#[test]
fn githubs_deliveries_are_verified_byte_for_byte() {
    let source = source(Scheme::GitHub);
    for (file, body) in recordings::all("github-webhooks", "json") {
        let mut headers = HeaderMap::new();
        let signature = format!("sha256={}", hex(&mac(&[&body])));
        headers.insert("x-hub-signature-256", HeaderValue::try_from(signature).unwrap());
        headers.insert("x-github-delivery", HeaderValue::from_static("72d3162e-cc78-11e3"));
        assert_eq!(source.read(&headers, &body, 0).unwrap().id.as_str(), "72d3162e-cc78-11e3", "{file}");
        assert_eq!(source.read(&headers, &forged(&body), 0), Err(Refusal::Mismatch), "{file}");
    }
}

#[test]
fn shopifys_events_are_known_by_topic_and_event_id() {
    let source = source(Scheme::Shopify);
    let body = br#"{"id":820982911946154508}"#;
    let mut headers = HeaderMap::new();
    let signature = STANDARD.encode(mac(&[body]));
    headers.insert("x-shopify-hmac-sha256", HeaderValue::try_from(signature).unwrap());
    let id =
        |headers: &HeaderMap| source.read(headers, body, 0).map(|delivery| delivery.id.as_str().to_owned());
    assert!(matches!(id(&headers), Err(Refusal::Unreadable { .. })));
    headers.insert("x-shopify-webhook-id", HeaderValue::from_static("webhook-1"));
    assert_eq!(id(&headers).as_deref(), Ok("webhook-1"));
    headers.insert("x-shopify-event-id", HeaderValue::from_static("event-1"));
    headers.insert("x-shopify-topic", HeaderValue::from_static("orders/create"));
    assert_eq!(id(&headers).as_deref(), Ok("orders/create event-1"));
    headers.insert("x-shopify-webhook-id", HeaderValue::from_static("webhook-2"));
    assert_eq!(id(&headers).as_deref(), Ok("orders/create event-1"));
}

#[test]
fn lemon_squeezys_events_are_verified_by_a_plain_hmac() {
    let rule = HmacRule {
        header: "X-Signature".into(),
        encoding: Encoding::Hex,
        prefix: String::new(),
        key: KeyForm::Text,
        before_body: String::new(),
    };
    let source = Source { id: pointer("/data/id"), ..source(Scheme::Hmac(rule)) };
    for (file, body) in recordings::all("provider-webhooks/lemon_squeezy", "json") {
        let mut headers = HeaderMap::new();
        headers.insert("x-signature", HeaderValue::try_from(hex(&mac(&[&body]))).unwrap());
        assert!(source.read(&headers, &body, 0).is_ok(), "{file}");
        assert_eq!(source.read(&headers, &forged(&body), 0), Err(Refusal::Mismatch), "{file}");
        headers.remove("x-signature");
        assert_eq!(source.read(&headers, &body, 0), Err(Refusal::Missing("X-Signature".into())), "{file}");
    }
}

/// Neither of Paddle's own signatures is among the schemes, so whoever takes these in verifies them in front.
#[test]
fn paddles_ids_are_read_where_the_settings_say() {
    for (folder, id) in
        [("provider-webhooks/paddle_billing", "/event_id"), ("provider-webhooks/paddle_classic", "/alert_id")]
    {
        let source = Source { id: pointer(id), ..source(Scheme::None) };
        for (file, body) in recordings::all(folder, "json") {
            assert!(source.read(&HeaderMap::new(), &body, 0).is_ok(), "{file}");
        }
    }
}

#[test]
fn versions_are_whole_numbers_or_times_and_nothing_is_guessed() {
    let source = Source { id: pointer("/id"), version: pointer("/v"), ..source(Scheme::None) };
    let version = |v: &str| {
        let body = format!("{{\"id\":1,\"v\":{v}}}");
        source.read(&HeaderMap::new(), body.as_bytes(), 0).map(|delivery| delivery.version)
    };
    assert_eq!(version("9007199254740993"), Ok(Some(9_007_199_254_740_993)));
    assert_eq!(version("\"12\""), Ok(Some(12)));
    assert_eq!(version("null"), Ok(None));
    let later = version("\"2022-11-03T21:26:10.344523+01:00\"").unwrap();
    assert!(later > version("\"2022-11-03T20:26:10.344522Z\"").unwrap());
    for bad in ["1.5", "1e3", "true", "{}", "\"soon\"", "99999999999999999999"] {
        let refused = version(bad).unwrap_err();
        assert!(!refused.is_of_the_signature(), "{bad}: {refused}");
        assert!(!refused.to_string().contains("soon"), "{refused}");
    }
}
