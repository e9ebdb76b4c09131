//! The key in a request, where the provider expects it. Nothing else of the request changes.

use http::{HeaderValue, header};
use reqwest::Request;

use super::ClientError;
use crate::key::OperationKey;
use crate::profile::{Carrier, Profile};

/// Puts the key where the provider expects it.
pub(super) fn carry(request: &mut Request, key: &OperationKey, profile: &Profile) -> Result<(), ClientError> {
    let text = match &profile.carrier {
        None => return Err(ClientError::TakesNoKey(profile.name.clone())),
        Some(_) => profile.fit(key)?,
    };
    match &profile.carrier {
        Some(Carrier::Header { name, .. }) => {
            if request.headers().contains_key(name) {
                return Err(ClientError::KeyTwice(name.clone()));
            }
            let mut value = HeaderValue::try_from(text).expect("what fits is visible ASCII");
            // Not shown by Debug and not indexed by HTTP/2.
            value.set_sensitive(true);
            request.headers_mut().insert(name, value);
        }
        Some(Carrier::Body { member }) => {
            let body = request.body().and_then(|body| body.as_bytes()).unwrap_or_default();
            let body = with_member(body, member, &text);
            let body = body.ok_or_else(|| ClientError::NoPlaceForKey(member.clone()))?;
            request.headers_mut().remove(header::CONTENT_LENGTH);
            *request.body_mut() = Some(body.into());
        }
        None => {}
    }
    Ok(())
}

/// The object with one more member, its other bytes unchanged: numbers keep their digits.
fn with_member(body: &[u8], member: &str, value: &str) -> Option<Vec<u8>> {
    let object: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(body).ok()?;
    match object.get(member) {
        Some(already) if already == value => return Some(body.to_vec()),
        Some(_) => return None,
        None => {}
    }
    let inside = body.iter().position(|b| *b == b'{')? + 1;
    let mut whole = body[..inside].to_vec();
    let comma = if object.is_empty() { "" } else { "," };
    let (member, value) = (serde_json::Value::from(member), serde_json::Value::from(value));
    whole.extend(format!("{member}:{value}{comma}").bytes());
    whole.extend(&body[inside..]);
    Some(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_is_added_and_every_other_byte_stays() {
        let with = |body: &str| with_member(body.as_bytes(), "idempotency_key", "k-1");
        let text = |body| with(body).map(|body| String::from_utf8(body).unwrap());
        assert_eq!(
            text(" {\"amount\": 9007199254740993.10}").as_deref(),
            Some(" {\"idempotency_key\":\"k-1\",\"amount\": 9007199254740993.10}")
        );
        assert_eq!(text("{ }").as_deref(), Some("{\"idempotency_key\":\"k-1\" }"));
        assert_eq!(text("{\"idempotency_key\":\"k-1\"}").as_deref(), Some("{\"idempotency_key\":\"k-1\"}"));
        assert_eq!(text("{\"idempotency_key\":\"other\"}"), None);
        for no_object in ["", "[]", "1", "{"] {
            assert_eq!(text(no_object), None, "{no_object}");
        }
    }
}
