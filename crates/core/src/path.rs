//! One form for paths and queries that mean the same, for matching and fingerprints alone (SEMANTICS 7).
//!
//! It errs on the side of protection: two spellings of one resource must not be two operations, or one of them
//! unprotected. What servers decode alike agrees here: every character that may stand in a segment as it is does, and
//! every other byte is percent-encoded. The upstream always gets the path as it came. Letter case counts.

/// The path with everything decoded that may stand plain in a segment and everything else encoded, dot segments and
/// doubled slashes resolved, a trailing slash and `;parameters` left out. Always starts with `/`.
pub fn normal_path(path: &str) -> String {
    let mut segments: Vec<String> = Vec::new();
    for segment in path.split('/') {
        let plain = normal_segment(segment.split(';').next().unwrap_or_default());
        match plain.as_str() {
            "" | "." => {}
            ".." => {
                segments.pop();
            }
            _ => segments.push(plain),
        }
    }
    if segments.is_empty() { "/".to_owned() } else { format!("/{}", segments.join("/")) }
}

/// One segment in its normal form. A `%` that begins no escape stands for itself.
pub fn normal_segment(segment: &str) -> String {
    let mut out = String::with_capacity(segment.len());
    let bytes = segment.as_bytes();
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        match escaped(bytes, at) {
            Some(decoded) => {
                push(&mut out, decoded);
                at += 3;
            }
            None => {
                push(&mut out, *byte);
                at += 1;
            }
        }
    }
    out
}

/// The query with its parameters in the order of their names; repeated ones keep theirs.
pub fn normal_query(query: &str) -> String {
    let mut parameters: Vec<String> =
        query.split('&').filter(|p| !p.is_empty()).map(decode_unreserved).collect();
    parameters.sort_by(|one, other| one.split('=').next().cmp(&other.split('=').next()));
    parameters.join("&")
}

fn push(out: &mut String, byte: u8) {
    if stands_plain(byte) {
        out.push(char::from(byte));
    } else {
        out.push_str(&format!("%{byte:02X}"));
    }
}

/// RFC 3986 `pchar` without `;`, which begins parameters: unreserved characters, the other sub-delimiters, `:`, `@`.
fn stands_plain(byte: u8) -> bool {
    is_unreserved(byte) || b"!$&'()*+,=:@".contains(&byte)
}

fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)
}

/// The byte that an escape at this place stands for.
fn escaped(bytes: &[u8], at: usize) -> Option<u8> {
    let digits = bytes.get(at..at + 3).filter(|escape| escape[0] == b'%')?;
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    Some(digit(digits[1])? << 4 | digit(digits[2])?)
}

fn decode_unreserved(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        match escaped(bytes, at) {
            Some(decoded) if is_unreserved(decoded) => out.push(decoded),
            Some(decoded) => out.extend_from_slice(format!("%{decoded:02X}").as_bytes()),
            None => {
                out.push(*byte);
                at += 1;
                continue;
            }
        }
        at += 3;
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_path_agree() {
        for path in [
            "/orders/17",
            "/orders/17/",
            "//orders//17",
            "/orders/./17",
            "/orders/x/../17",
            "/%6frders/1%37",
            "/orders;v=1/17;a=b",
            "/orders/%2e/17",
            "/orders/x/%2E%2e/17",
            "/../orders/17",
        ] {
            assert_eq!(normal_path(path), "/orders/17", "{path}");
        }
    }

    #[test]
    fn characters_that_servers_decode_alike_agree() {
        for (plain, encoded) in [
            ("/orders:create", "/orders%3Acreate"),
            ("/a@b", "/a%40b"),
            ("/a,b'c", "/a%2cb%27c"),
            ("/größe", "/gr%C3%B6%c3%9fe"),
            ("/a|b\"c{d}", "/a%7Cb%22c%7bd%7D"),
        ] {
            assert_eq!(normal_path(plain), normal_path(encoded), "{plain}");
        }
    }

    #[test]
    fn what_differs_stays_different() {
        assert_eq!(normal_path("/a%2fb"), "/a%2Fb");
        assert_ne!(normal_path("/a%2Fb"), normal_path("/a/b"));
        assert_ne!(normal_path("/a%3Bb"), normal_path("/a;b"));
        assert_ne!(normal_path("/A"), normal_path("/a"));
        assert_eq!(normal_path("/50%"), "/50%25");
        assert_eq!(normal_path("/%zz"), "/%25zz");
        assert_eq!(normal_path("/%é"), "/%25%C3%A9");
        assert_eq!(normal_path("/a%00"), "/a%00");
        assert_eq!(normal_path(""), "/");
    }

    #[test]
    fn parameters_are_ordered_by_name_and_repeated_ones_keep_their_order() {
        assert_eq!(normal_query("b=2&a=1"), "a=1&b=2");
        assert_eq!(normal_query("a=2&b=&a=1"), "a=2&a=1&b=");
        assert_ne!(normal_query("a=1&a=2"), normal_query("a=2&a=1"));
        assert_ne!(normal_query("dry=1"), normal_query(""));
        assert_eq!(normal_query("%61=1"), "a=1");
    }
}
