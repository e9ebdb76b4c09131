//! One form for paths and queries that mean the same, for matching and fingerprints alone (SEMANTICS 7).
//!
//! It errs on the side of protection: two spellings of one resource must not be two operations, or one of them
//! unprotected. The upstream always gets the path as it came.

/// The path with unreserved characters decoded, dot segments and doubled slashes resolved, a trailing slash and
/// `;parameters` left out. Always starts with `/`.
pub fn normal_path(path: &str) -> String {
    let decoded = decode_unreserved(path);
    let mut segments: Vec<&str> = Vec::new();
    for segment in decoded.split('/') {
        match segment.split(';').next().unwrap_or_default() {
            "" | "." => {}
            ".." => {
                segments.pop();
            }
            name => segments.push(name),
        }
    }
    let mut out = String::with_capacity(decoded.len() + 1);
    for segment in segments {
        out.push('/');
        out.push_str(segment);
    }
    if out.is_empty() { "/".to_owned() } else { out }
}

/// The query with its parameters in the order of their names; repeated ones keep theirs.
pub fn normal_query(query: &str) -> String {
    let decoded = decode_unreserved(query);
    let mut parameters: Vec<&str> = decoded.split('&').filter(|p| !p.is_empty()).collect();
    parameters.sort_by_key(|parameter| parameter.split('=').next());
    parameters.join("&")
}

fn decode_unreserved(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        let digits = rest.get(at + 1..at + 3).filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit()));
        match digits.and_then(|d| u8::from_str_radix(d, 16).ok()) {
            Some(byte) if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) => {
                out.push(char::from(byte))
            }
            Some(byte) => out.push_str(&format!("%{byte:02X}")),
            None => {
                out.push('%');
                rest = &rest[at + 1..];
                continue;
            }
        }
        rest = &rest[at + 3..];
    }
    out.push_str(rest);
    out
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
    fn what_differs_stays_different() {
        assert_eq!(normal_path("/a%2fb"), "/a%2Fb");
        assert_ne!(normal_path("/a%2Fb"), normal_path("/a/b"));
        assert_ne!(normal_path("/A"), normal_path("/a"));
        assert_eq!(normal_path("/50%"), "/50%");
        assert_eq!(normal_path("/%zz"), "/%zz");
        assert_eq!(normal_path("/%é"), "/%é");
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
