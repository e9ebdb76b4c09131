//! Tables of tokens that are believed and tokens that are not. Those of `tests/fixtures/tokens` were signed by another
//! implementation; tokens of a secret are made here.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::json;

use super::*;

const NOW: i64 = 1_800_000_000;
const SECRET: &[u8] = b"a secret of the tests, long enough";

macro_rules! fixture {
    ($name:literal) => {
        include_str!(concat!("../../tests/fixtures/tokens/", $name))
    };
}

/// Every asymmetric token with its key.
const SIGNED: [(&str, &str, &str); 9] = [
    ("RS256", fixture!("RS256.jwt"), fixture!("rsa.pem")),
    ("RS384", fixture!("RS384.jwt"), fixture!("rsa.pem")),
    ("RS512", fixture!("RS512.jwt"), fixture!("rsa.pem")),
    ("PS256", fixture!("PS256.jwt"), fixture!("rsa.pem")),
    ("PS384", fixture!("PS384.jwt"), fixture!("rsa.pem")),
    ("PS512", fixture!("PS512.jwt"), fixture!("rsa.pem")),
    ("ES256", fixture!("ES256.jwt"), fixture!("p256.pem")),
    ("ES384", fixture!("ES384.jwt"), fixture!("p384.pem")),
    ("EdDSA", fixture!("EdDSA.jwt"), fixture!("ed25519.pem")),
];

fn pem(pem: &str) -> TokenKey {
    TokenKey::pem(pem).unwrap()
}

fn rule(keys: Vec<TokenKey>) -> TokenRule {
    TokenRule::new(keys, None, None)
}

fn of_secret() -> TokenRule {
    rule(vec![TokenKey::secret(SECRET).unwrap()])
}

/// A token whose header is whatever it says, with an HMAC under this secret.
fn token(header: &Value, claims: &Value, digest: ring::hmac::Algorithm, secret: &[u8]) -> String {
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let head = format!("{}.{}", part(header), part(claims));
    let mac = ring::hmac::sign(&ring::hmac::Key::new(digest, secret), head.as_bytes());
    format!("{head}.{}", URL_SAFE_NO_PAD.encode(mac))
}

fn hs256(claims: &Value) -> String {
    token(&json!({"alg": "HS256"}), claims, ring::hmac::HMAC_SHA256, SECRET)
}

fn judged(claims: &Value) -> Result<Claims, Disbelieved> {
    of_secret().claims(&hs256(claims), NOW)
}

#[test]
fn every_algorithm_is_verified_with_a_key_of_its_kind() {
    for (name, token, key) in SIGNED {
        let claims = rule(vec![pem(key)]).claims(token.trim(), NOW);
        assert_eq!(claims.map(|claims| claims["sub"].clone()), Ok(json!("user-17")), "{name}");
    }
    let digests = [ring::hmac::HMAC_SHA256, ring::hmac::HMAC_SHA384, ring::hmac::HMAC_SHA512];
    for (name, digest) in ["HS256", "HS384", "HS512"].into_iter().zip(digests) {
        let token = token(&json!({"alg": name}), &json!({"sub": "a"}), digest, SECRET);
        assert!(of_secret().claims(&token, NOW).is_ok(), "{name}");
    }
}

#[test]
fn any_of_several_keys_may_verify_and_a_certificate_is_its_public_key() {
    let certificates = [
        (fixture!("RS256.jwt"), fixture!("rsa-certificate.pem")),
        (fixture!("ES256.jwt"), fixture!("p256-certificate.pem")),
        (fixture!("ES384.jwt"), fixture!("p384-certificate.pem")),
    ];
    let mut keys = vec![TokenKey::secret(SECRET).unwrap(), pem(fixture!("other-rsa.pem"))];
    keys.extend(certificates.map(|(_, certificate)| pem(certificate)));
    let rule = rule(keys);
    for (token, _) in certificates {
        assert!(rule.claims(token.trim(), NOW).is_ok());
    }
    assert!(rule.claims(&hs256(&json!({})), NOW).is_ok());
}

#[test]
fn a_key_verifies_no_algorithm_of_another_kind() {
    let keys = [fixture!("rsa.pem"), fixture!("p256.pem"), fixture!("p384.pem"), fixture!("ed25519.pem")];
    for key in keys {
        for (name, token, own) in SIGNED.iter().filter(|(_, _, own)| *own != key) {
            let claims = rule(vec![pem(key)]).claims(token.trim(), NOW);
            assert_eq!(claims, Err(Disbelieved::Algorithm), "{name} {own}");
        }
        // A public key is no secret: not as its text, not as its bytes.
        for secret in [key.as_bytes(), key.trim().as_bytes(), pem(key).decoding.try_get_as_bytes().unwrap()] {
            let forged =
                token(&json!({"alg": "HS256"}), &json!({"sub": "victim"}), ring::hmac::HMAC_SHA256, secret);
            assert_eq!(rule(vec![pem(key)]).claims(&forged, NOW), Err(Disbelieved::Algorithm));
        }
    }
    for (name, token, _) in SIGNED {
        assert_eq!(of_secret().claims(token.trim(), NOW), Err(Disbelieved::Algorithm), "{name}");
    }
}

#[test]
fn a_signature_of_somebody_else_is_none() {
    let other = rule(vec![pem(fixture!("other-rsa.pem"))]);
    for (name, token, _) in &SIGNED[..6] {
        assert_eq!(other.claims(token.trim(), NOW), Err(Disbelieved::Signature), "{name}");
    }
    let header = json!({"alg": "HS256"});
    let forged = token(&header, &json!({"sub": "a"}), ring::hmac::HMAC_SHA256, b"somebody else's");
    assert_eq!(of_secret().claims(&forged, NOW), Err(Disbelieved::Signature));
    let short = token(&header, &json!({"sub": "a"}), ring::hmac::HMAC_SHA384, SECRET);
    assert_eq!(of_secret().claims(&short, NOW), Err(Disbelieved::Signature));
}

#[test]
fn a_token_that_was_changed_anywhere_is_not_believed() {
    for (good, rule) in [
        (hs256(&json!({"sub": "user-17"})), of_secret()),
        (fixture!("ES256.jwt").trim().to_owned(), rule(vec![pem(fixture!("p256.pem"))])),
        (fixture!("EdDSA.jwt").trim().to_owned(), rule(vec![pem(fixture!("ed25519.pem"))])),
    ] {
        assert!(rule.claims(&good, NOW).is_ok());
        for at in 0..good.len() {
            let other = if good.as_bytes()[at] == b'A' { "B" } else { "A" };
            let mut changed = good.clone();
            changed.replace_range(at..=at, other);
            assert!(rule.claims(&changed, NOW).is_err(), "{at}: {changed}");
        }
    }
}

#[test]
fn what_is_not_signed_is_not_believed() {
    let (head, _) =
        hs256(&json!({"sub": "a"})).rsplit_once('.').map(|(h, s)| (h.to_owned(), s.len())).unwrap();
    let unsigned = |alg: &str| {
        let header = URL_SAFE_NO_PAD.encode(json!({"alg": alg}).to_string());
        format!("{header}.{}.", URL_SAFE_NO_PAD.encode(r#"{"sub":"a"}"#))
    };
    let mut rules = vec![of_secret(), rule(Vec::new())];
    rules.extend(SIGNED.map(|(_, _, key)| rule(vec![pem(key)])));
    for rule in rules {
        for alg in ["none", "None", "NONE", ""] {
            assert_eq!(rule.claims(&unsigned(alg), NOW), Err(Disbelieved::NotSigned), "{alg}");
        }
        for alg in ["HS256", "RS256", "PS256", "ES256", "ES384", "EdDSA"] {
            assert!(rule.claims(&unsigned(alg), NOW).is_err(), "{alg}");
        }
        for text in ["", ".", "..", "a.b.c", "opaque", &head, &format!("{head}."), "a.b.c.d.e"] {
            assert!(rule.claims(text, NOW).is_err(), "{text}");
        }
    }
    let of_list = token(&json!({"alg": "HS256"}), &json!(["sub"]), ring::hmac::HMAC_SHA256, SECRET);
    assert_eq!(of_secret().claims(&of_list, NOW), Err(Disbelieved::Claims));
    let critical = json!({"alg": "HS256", "crit": ["x"], "x": 1});
    let critical = token(&critical, &json!({"sub": "a"}), ring::hmac::HMAC_SHA256, SECRET);
    assert_eq!(of_secret().claims(&critical, NOW), Err(Disbelieved::NotSigned));
}

#[test]
fn a_token_counts_within_its_time_and_a_minute_around_it() {
    for (claims, judgement) in [
        (json!({}), None),
        (json!({"exp": NOW + 1}), None),
        (json!({"exp": NOW - 59}), None),
        (json!({"exp": NOW - 60}), Some(Disbelieved::Expired)),
        (json!({"exp": NOW as f64 - 59.5}), None),
        (json!({"exp": 0}), Some(Disbelieved::Expired)),
        (json!({"exp": -1e300}), Some(Disbelieved::Expired)),
        (json!({"exp": 1e300}), None),
        (json!({"nbf": NOW + 60}), None),
        (json!({"nbf": NOW + 61}), Some(Disbelieved::NotYet)),
        (json!({"nbf": NOW - 10, "exp": NOW + 10}), None),
        (json!({"exp": "2100-01-01"}), Some(Disbelieved::Time("exp"))),
        (json!({"exp": null}), Some(Disbelieved::Time("exp"))),
        (json!({"nbf": true}), Some(Disbelieved::Time("nbf"))),
        (json!({"nbf": [NOW]}), Some(Disbelieved::Claims)),
    ] {
        assert_eq!(judged(&claims).err(), judgement, "{claims}");
    }
    assert!(of_secret().claims(&hs256(&json!({"exp": NOW, "nbf": NOW})), i64::MAX).is_err());
    assert!(of_secret().claims(&hs256(&json!({"exp": NOW, "nbf": NOW})), i64::MIN).is_err());
}

#[test]
fn issuer_and_audience_must_be_the_configured_ones() {
    let rule = TokenRule::new(
        vec![TokenKey::secret(SECRET).unwrap()],
        Some("https://id.example".into()),
        Some("orders".into()),
    );
    let (iss, aud) = ("https://id.example", "orders");
    for (claims, judgement) in [
        (json!({"iss": iss, "aud": aud}), None),
        (json!({"iss": iss, "aud": ["stock", "orders"]}), None),
        (json!({"aud": aud}), Some(Disbelieved::Issuer)),
        (json!({"iss": "https://id.example/", "aud": aud}), Some(Disbelieved::Issuer)),
        (json!({"iss": [iss], "aud": aud}), Some(Disbelieved::Issuer)),
        (json!({"iss": iss}), Some(Disbelieved::Audience)),
        (json!({"iss": iss, "aud": "order"}), Some(Disbelieved::Audience)),
        (json!({"iss": iss, "aud": []}), Some(Disbelieved::Audience)),
        (json!({"iss": iss, "aud": {"orders": 1}}), Some(Disbelieved::Audience)),
    ] {
        assert_eq!(rule.claims(&hs256(&claims), NOW).err(), judgement, "{claims}");
    }
    assert!(judged(&json!({"iss": "anybody", "aud": "anything"})).is_ok(), "nobody asks");
}

#[test]
fn what_is_no_key_for_tokens_is_refused() {
    let private = "-----BEGIN PRIVATE KEY-----\nMC4=\n-----END PRIVATE KEY-----\n";
    let garbage = "-----BEGIN PUBLIC KEY-----\nMC4=\n-----END PUBLIC KEY-----\n";
    let no_certificate = "-----BEGIN CERTIFICATE-----\nMC4=\n-----END CERTIFICATE-----\n";
    for (pem, why) in [
        ("", KeyRefused::NotPem),
        (private, KeyRefused::NotPem),
        (garbage, KeyRefused::PublicKey),
        (no_certificate, KeyRefused::Certificate),
        (fixture!("refused-rsa-1024.pem"), KeyRefused::Kind),
        (fixture!("refused-p521.pem"), KeyRefused::Kind),
        (fixture!("refused-secp256k1.pem"), KeyRefused::Kind),
        (fixture!("refused-ed448.pem"), KeyRefused::Kind),
    ] {
        assert_eq!(TokenKey::pem(pem).err(), Some(why), "{pem}");
    }
    assert_eq!(TokenKey::secret(&SECRET[..31]).err(), Some(KeyRefused::ShortSecret));
    assert_eq!(format!("{:?}", TokenKey::secret(SECRET).unwrap()), "TokenKey([HS256, HS384, HS512])");
}
