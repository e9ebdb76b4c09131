//! What of an answer is kept, and how it is given again (SEMANTICS 8).
//!
//! Bytes, not text: each header line keeps its value and its place. What belongs to one hop or one exchange, the
//! markers of the layer, and what the contract drops are left out as whole lines, never altered.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};
use onefold_canon::{Pointer, json};
use onefold_core::contract::{StoreMode, StoreResponse};
use onefold_core::{Answer, Kept, NotKept, Resource};

use crate::fields::{is_hop_by_hop, is_of_one_exchange};
use crate::{OPERATION, REPLAYED};

/// The body of an answer as it was recorded.
#[derive(Clone, Debug)]
pub enum Recorded {
    /// The whole body.
    Whole(Vec<u8>),
    /// It was longer than is kept.
    TooBig,
    /// It was cut on its way.
    Cut,
}

/// What is kept of an answer under this rule.
pub fn keep(
    rule: &StoreResponse,
    redact: &[Pointer],
    status: StatusCode,
    headers: &HeaderMap,
    body: Recorded,
    trailers: Option<&HeaderMap>,
) -> Kept {
    let not_kept = |why| Kept::NotKept { status: Some(status.as_u16()), why };
    if rule.mode == StoreMode::None {
        return not_kept(NotKept::ByContract);
    }
    let dropped = |name: &HeaderName| rule.drop_headers.iter().any(|d| d.eq_ignore_ascii_case(name.as_str()));
    let lines = |headers: &HeaderMap| -> Vec<(String, Vec<u8>)> {
        headers
            .iter()
            .filter(|(name, _)| is_replayed(name) && !dropped(name))
            .map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec()))
            .collect()
    };
    let mut answer = Answer { status: status.as_u16(), headers: lines(headers), ..Answer::default() };
    if rule.mode == StoreMode::Reference {
        answer.headers.retain(|(name, _)| !name.starts_with("content-") || name == "content-location");
        return Kept::Reference(answer);
    }
    let body = match body {
        Recorded::Whole(body) => body,
        Recorded::TooBig => return not_kept(NotKept::TooBig),
        Recorded::Cut => return not_kept(NotKept::Cut),
    };
    answer.body = match redacted(redact, body) {
        Some(body) => body,
        None => return not_kept(NotKept::ByContract),
    };
    // A pointer cannot redact a trailer.
    answer.trailers = trailers.filter(|_| redact.is_empty()).map(lines).unwrap_or_default();
    Kept::Full(answer)
}

/// The body without the redacted members. `None` when it cannot be redacted: what cannot be read is not kept.
fn redacted(redact: &[Pointer], body: Vec<u8>) -> Option<Vec<u8>> {
    if redact.is_empty() || body.is_empty() { Some(body) } else { json::without(&body, redact).ok() }
}

fn is_replayed(name: &HeaderName) -> bool {
    !is_hop_by_hop(name) && !is_of_one_exchange(name) && !is_marker(name) && name != header::CONTENT_LENGTH
}

/// The lines of an answer that a person gives: names and values that HTTP allows, none that frames a message or
/// belongs to one exchange. The error says which line is wrong.
pub fn given_lines(lines: Vec<(String, String)>) -> Result<Vec<(String, Vec<u8>)>, String> {
    let mut checked = Vec::with_capacity(lines.len());
    for (name, value) in lines {
        let parsed =
            HeaderName::try_from(name.as_str()).map_err(|_| format!("{name:?} is no header name"))?;
        HeaderValue::try_from(value.as_str())
            .map_err(|_| format!("the value of {name} cannot stand in a header"))?;
        if !is_replayed(&parsed) {
            return Err(format!("{name} cannot be given: it belongs to one message, not to a result"));
        }
        checked.push((parsed.as_str().to_owned(), value.into_bytes()));
    }
    Ok(checked)
}

/// Whether the field is one of the layer's own, which an upstream cannot set.
pub fn is_marker(name: &HeaderName) -> bool {
    *name == REPLAYED || *name == OPERATION
}

/// The resource that an answer names: its `Location`.
pub fn resource(headers: &HeaderMap) -> Option<Resource> {
    let location = headers.get(header::LOCATION)?.to_str().ok()?;
    Some(Resource { kind: "location".into(), id: location.to_owned() })
}

/// A kept answer given again: marked as a replay, with the same status, lines and bytes. Trailers come beside it.
pub fn replay(answer: &Answer) -> (Response<Bytes>, Option<HeaderMap>) {
    let mut response = Response::new(Bytes::copy_from_slice(&answer.body));
    *response.status_mut() = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::OK);
    *response.headers_mut() = map(&answer.headers);
    response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    let trailers = (!answer.trailers.is_empty()).then(|| map(&answer.trailers));
    (response, trailers)
}

fn map(lines: &[(String, Vec<u8>)]) -> HeaderMap {
    let mut map = HeaderMap::with_capacity(lines.len() + 2);
    for (name, value) in lines {
        if let (Ok(name), Ok(value)) =
            (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_bytes(value))
        {
            map.append(name, value);
        }
    }
    map
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[(&'static str, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in lines {
            map.append(*name, value.parse().unwrap());
        }
        map
    }

    fn kept(rule: &StoreResponse, redact: &[&str], body: &[u8]) -> Kept {
        let redact: Vec<Pointer> = redact.iter().map(|p| p.parse().unwrap()).collect();
        let headers = headers(&[
            ("location", "/orders/1"),
            ("set-cookie", "s=1"),
            ("link", "<a>"),
            ("link", "<b>"),
            ("idempotent-replayed", "true"),
            ("content-length", "9"),
            ("content-type", "application/json"),
            ("x-trace", "t"),
        ]);
        keep(rule, &redact, StatusCode::CREATED, &headers, Recorded::Whole(body.to_vec()), None)
    }

    #[test]
    fn a_replay_has_the_lines_and_bytes_of_the_answer_and_the_mark() {
        let rule = StoreResponse { drop_headers: vec!["X-Trace".into()], ..StoreResponse::default() };
        let Kept::Full(answer) = kept(&rule, &[], b"{\"n\":1}\xff") else { panic!("kept") };
        let (response, _) = replay(&answer);
        assert_eq!(response.status(), 201);
        assert_eq!(response.body().as_ref(), b"{\"n\":1}\xff");
        let lines: Vec<_> =
            response.headers().iter().map(|(n, v)| format!("{n}: {}", v.to_str().unwrap())).collect();
        assert_eq!(
            lines,
            [
                "location: /orders/1",
                "link: <a>",
                "link: <b>",
                "content-type: application/json",
                "idempotent-replayed: true"
            ]
        );
    }

    #[test]
    fn redacted_members_are_not_kept_and_what_cannot_be_read_is_not_kept_at_all() {
        let rule = StoreResponse::default();
        let Kept::Full(answer) = kept(&rule, &["/_auth"], br#"{"ok":true,"_auth":"tok-1"}"#) else {
            panic!("kept")
        };
        assert_eq!(answer.body, br#"{"ok":true}"#);
        assert!(matches!(kept(&rule, &["/_auth"], b"tok-1"), Kept::NotKept { why: NotKept::ByContract, .. }));
    }

    #[test]
    fn a_reference_keeps_the_way_to_the_resource_and_no_body() {
        let rule = StoreResponse { mode: StoreMode::Reference, ..StoreResponse::default() };
        let Kept::Reference(answer) = kept(&rule, &[], b"secret") else { panic!("reference") };
        assert_eq!(answer.body, b"");
        assert!(answer.headers.iter().any(|(n, _)| n == "location"));
        assert!(!answer.headers.iter().any(|(n, _)| n == "content-type"));
        let none = StoreResponse { mode: StoreMode::None, ..StoreResponse::default() };
        assert_eq!(kept(&none, &[], b"x"), Kept::NotKept { status: Some(201), why: NotKept::ByContract });
    }
}
