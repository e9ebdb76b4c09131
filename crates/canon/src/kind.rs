//! Which rules a body is compared by, as its `Content-Type` says. A type that is absent, unknown or malformed means
//! bytes, the strictest rules. Charset and other parameters do not change the kind: JSON in another encoding than
//! UTF-8 is not canonical and ends as bytes by itself.

use crate::limits::BOUNDARY_BYTES_MAX;
use crate::media::{essence, is_token, parameters};

/// How a body is to be compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BodyKind {
    /// As JSON values (RFC 8259): order of members, white space, escapes and notation of numbers do not count.
    Json,
    /// As fields of `application/x-www-form-urlencoded` (WHATWG URL, section 5).
    Form,
    /// As parts of `multipart/form-data` (RFC 7578).
    Multipart {
        /// What separates the parts. With a boundary that RFC 2046 does not allow, bodies are compared as bytes.
        boundary: String,
    },
    /// Byte for byte.
    Bytes,
}

impl BodyKind {
    /// The kind that the value of a `Content-Type` header asks for: `application/json` and `+json` types are
    /// [`Json`](Self::Json), `application/x-www-form-urlencoded` is [`Form`](Self::Form), `multipart/form-data` with
    /// one valid boundary (RFC 2046, section 5.1.1; quotes are optional) is [`Multipart`](Self::Multipart), and
    /// everything else or nothing is [`Bytes`](Self::Bytes). Letter case and parameters do not matter otherwise.
    pub fn from_content_type(value: Option<&str>) -> Self {
        let Some(value) = value else { return Self::Bytes };
        let essence = essence(value.as_bytes()).to_ascii_lowercase();
        match essence.as_slice() {
            b"application/json" => Self::Json,
            b"application/x-www-form-urlencoded" => Self::Form,
            b"multipart/form-data" => match boundary(value) {
                Some(boundary) => Self::Multipart { boundary },
                None => Self::Bytes,
            },
            other if has_json_suffix(other) => Self::Json,
            _ => Self::Bytes,
        }
    }
}

/// RFC 6839, section 3.1.
fn has_json_suffix(essence: &[u8]) -> bool {
    let Some(slash) = essence.iter().position(|byte| *byte == b'/') else { return false };
    let (main, sub) = (&essence[..slash], &essence[slash + 1..]);
    is_token(main) && is_token(sub) && sub.len() > b"+json".len() && sub.ends_with(b"+json")
}

fn boundary(value: &str) -> Option<String> {
    let parameters = parameters(value.as_bytes())?;
    let mut boundaries = parameters.iter().filter(|(name, _)| name.eq_ignore_ascii_case(b"boundary"));
    let (_, boundary) = boundaries.next()?;
    let one = boundaries.next().is_none();
    (one && is_boundary(boundary)).then(|| String::from_utf8_lossy(boundary).into_owned())
}

/// RFC 2046, section 5.1.1: 1 to 70 characters of a small set, the last of them no blank.
pub(crate) fn is_boundary(text: &[u8]) -> bool {
    let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"'()+_,-./:=? ".contains(byte);
    (1..=BOUNDARY_BYTES_MAX).contains(&text.len()) && text.iter().all(allowed) && !text.ends_with(b" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(value: &str) -> BodyKind {
        BodyKind::from_content_type(Some(value))
    }

    #[test]
    fn json_types_and_suffixes_are_json() {
        for value in [
            "application/json",
            "Application/JSON; charset=utf-8",
            " application/json ;",
            "a/b+json",
            "application/problem+json;x",
        ] {
            assert_eq!(kind(value), BodyKind::Json, "{value}");
        }
    }

    #[test]
    fn forms_are_forms() {
        assert_eq!(kind("application/x-www-form-urlencoded;charset=UTF-8"), BodyKind::Form);
    }

    #[test]
    fn multipart_takes_its_boundary_quoted_or_bare() {
        let expected = BodyKind::Multipart { boundary: "a=b:1".to_owned() };
        assert_eq!(kind("multipart/form-data; boundary=a=b:1"), expected);
        assert_eq!(kind("Multipart/Form-Data; charset=x; BOUNDARY=\"a=b:1\""), expected);
        let blank = BodyKind::Multipart { boundary: "a b".to_owned() };
        assert_eq!(kind("multipart/form-data; boundary=\"a b\""), blank);
    }

    #[test]
    fn what_is_unknown_or_malformed_is_bytes() {
        assert_eq!(BodyKind::from_content_type(None), BodyKind::Bytes);
        let long = format!("multipart/form-data; boundary={}", "x".repeat(71));
        for value in [
            "",
            "text/plain",
            "application/json, text/plain",
            "application/jsonx",
            "application/+json",
            "multipart/form-data",
            "multipart/form-data; boundary=",
            "multipart/form-data; boundary=\"a",
            "multipart/form-data; boundary=\"a \"",
            "multipart/form-data; boundary=a; boundary=b",
            "multipart/form-data; boundary=a\u{e9}",
            "multipart/mixed; boundary=a",
            long.as_str(),
        ] {
            assert_eq!(kind(value), BodyKind::Bytes, "{value}");
        }
    }
}
