//! What the fingerprint of an HTTP request is made of (SEMANTICS 6 and 7): method, path, query, media type, content
//! coding, chosen headers, and the canonical digest of the body.

use http::{HeaderMap, Method, header};
use onefold_canon::{BodyDigest, BodyKind};
use onefold_core::contract::{BodyRule, FingerprintRule};
use onefold_core::{Fingerprint, FingerprintBuilder, IdentityKey};

/// The significant parts of a request's head.
#[derive(Clone, Copy, Debug)]
pub struct RequestHead<'a> {
    /// The method.
    pub method: &'a Method,
    /// The path in its normal form.
    pub path: &'a str,
    /// The query in its normal form.
    pub query: &'a str,
    /// The headers.
    pub headers: &'a HeaderMap,
}

/// How the body of this request is compared.
pub fn body_kind(rule: &FingerprintRule, headers: &HeaderMap) -> BodyKind {
    let content_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    match rule.body {
        BodyRule::Auto => BodyKind::from_content_type(content_type),
        BodyRule::Json => BodyKind::Json,
        BodyRule::Form => BodyKind::Form,
        BodyRule::Bytes => BodyKind::Bytes,
        BodyRule::Multipart => match BodyKind::from_content_type(content_type) {
            multipart @ BodyKind::Multipart { .. } => multipart,
            _ => BodyKind::Bytes,
        },
    }
}

/// The fingerprint of a request whose body was digested.
pub fn fingerprint(
    rule: &FingerprintRule,
    head: &RequestHead<'_>,
    body: &BodyDigest,
    secret: &IdentityKey,
) -> Fingerprint {
    let mut builder = FingerprintBuilder::new(secret)
        .part("method", head.method.as_str().as_bytes())
        .part("path", head.path.as_bytes())
        .part("query", head.query.as_bytes())
        .part("media-type", media_type(head.headers).as_bytes());
    for value in head.headers.get_all(header::CONTENT_ENCODING) {
        builder = builder.part("content-encoding", value.as_bytes());
    }
    for name in &rule.headers {
        for value in head.headers.get_all(name.as_str()) {
            builder = builder.part(&name.to_ascii_lowercase(), value.as_bytes());
        }
    }
    builder.part("body", &body.digest).finish()
}

/// The media type without parameters, in lower case: the boundary of a multipart body does not count.
fn media_type(headers: &HeaderMap) -> String {
    let lines = headers.get_all(header::CONTENT_TYPE).iter();
    let types = lines.map(|line| {
        let line = String::from_utf8_lossy(line.as_bytes());
        line.split(';').next().unwrap_or("").trim().to_ascii_lowercase()
    });
    types.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use onefold_canon::BodyHasher;

    fn print(method: Method, path: &str, query: &str, content_type: &str, body: &str) -> Fingerprint {
        let rule = FingerprintRule { headers: vec!["X-Mode".into()], ..FingerprintRule::default() };
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, content_type.parse().unwrap());
        let mut hasher = BodyHasher::new(body_kind(&rule, &headers), &[]);
        hasher.update(body.as_bytes());
        let head = RequestHead { method: &method, path, query, headers: &headers };
        fingerprint(&rule, &head, &hasher.finish(), &IdentityKey::none())
    }

    #[test]
    fn every_significant_part_counts() {
        let json = "application/json";
        let one = print(Method::POST, "/a", "", json, "{}");
        assert_eq!(one, print(Method::POST, "/a", "", "Application/JSON; charset=utf-8", " { } "));
        for other in [
            print(Method::PUT, "/a", "", json, "{}"),
            print(Method::POST, "/b", "", json, "{}"),
            print(Method::POST, "/a", "dry=1", json, "{}"),
            print(Method::POST, "/a", "", "text/plain", "{}"),
            print(Method::POST, "/a", "", json, "[]"),
        ] {
            assert_ne!(one, other);
        }
    }
}
