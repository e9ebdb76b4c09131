//! The carriers of the key and what they must agree on (SEMANTICS 7).

use http::HeaderMap;
use onefold_canon::Pointer;
use onefold_canon::json::{self, Found};
use onefold_core::contract::KeyRule;
use onefold_core::{Key, KeyError};

/// The key that the headers carry. Several header names must agree.
pub fn header_key(rule: &KeyRule, headers: &HeaderMap) -> Result<Option<Key>, KeyError> {
    let mut found = None;
    for name in &rule.headers {
        let lines = headers.get_all(name.as_str()).iter().map(|value| value.as_bytes());
        found = agree(found, Key::from_header_lines(lines, rule.syntax)?)?;
    }
    Ok(found)
}

/// The key that the headers and the body carry together. `body` is the whole body.
pub fn body_key(from_headers: Option<Key>, pointer: &Pointer, body: &[u8]) -> Result<Option<Key>, KeyError> {
    let from_body = match json::at(body, pointer) {
        Ok(Some(Found::String(text))) => Some(Key::new(text)?),
        Ok(Some(Found::Other(_))) => return Err(KeyError::Malformed("the key in the body must be a string")),
        Ok(None) => None,
        Err(_) if from_headers.is_some() => None,
        Err(_) => return Err(KeyError::Malformed("the body that should carry the key is not valid JSON")),
    };
    agree(from_headers, from_body)
}

fn agree(one: Option<Key>, other: Option<Key>) -> Result<Option<Key>, KeyError> {
    match (one, other) {
        (Some(one), Some(other)) if one != other => {
            Err(KeyError::Ambiguous("the carriers of the key do not agree"))
        }
        (one, other) => Ok(one.or(other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(headers: &[&str]) -> KeyRule {
        KeyRule { headers: headers.iter().map(|h| h.to_string()).collect(), ..KeyRule::default() }
    }

    fn headers(lines: &[(&'static str, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in lines {
            map.append(*name, value.parse().unwrap());
        }
        map
    }

    #[test]
    fn carriers_must_agree() {
        let rule = rule(&["Idempotency-Key", "X-Idempotency-Key"]);
        let both = headers(&[("idempotency-key", "\"a\""), ("x-idempotency-key", "a")]);
        assert_eq!(header_key(&rule, &both), Ok(Some(Key::new("a").unwrap())));
        let two = headers(&[("idempotency-key", "a"), ("x-idempotency-key", "b")]);
        assert!(header_key(&rule, &two).unwrap_err().is_ambiguous());
    }

    #[test]
    fn the_body_may_carry_the_key_as_a_string_only() {
        let pointer: Pointer = "/idempotency_key".parse().unwrap();
        let key = |header: Option<&str>, body: &str| {
            body_key(header.map(|h| Key::new(h).unwrap()), &pointer, body.as_bytes())
                .map(|k| k.map(|k| k.as_str().to_owned()))
        };
        assert_eq!(key(None, r#"{"idempotency_key":"b1"}"#), Ok(Some("b1".into())));
        assert_eq!(key(Some("b1"), r#"{"idempotency_key":"b1"}"#), Ok(Some("b1".into())));
        assert_eq!(key(Some("h1"), "{}"), Ok(Some("h1".into())));
        assert_eq!(key(None, "{}"), Ok(None));
        assert!(key(Some("h1"), r#"{"idempotency_key":"b1"}"#).unwrap_err().is_ambiguous());
        for value in ["1", "null", "{}", "[]", "true", "\"\""] {
            assert!(key(None, &format!(r#"{{"idempotency_key":{value}}}"#)).is_err(), "{value}");
        }
    }
}
