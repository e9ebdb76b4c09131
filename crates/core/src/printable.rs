//! Text of callers as people may see it.

/// The text with control characters, marks that turn the direction of writing, and backslashes escaped: it cannot
/// steer a terminal, and what it shows is what it is. Quotes stay as they are.
pub fn printable(text: &str) -> String {
    // A quote is always escaped here, and a backslash before it is escaped itself: no pair is taken for another.
    text.escape_debug().to_string().replace("\\'", "'").replace("\\\"", "\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_steers_a_terminal_is_escaped_and_quotes_are_not() {
        assert_eq!(printable("o'neill \"x\""), "o'neill \"x\"");
        assert_eq!(printable("\u{1b}[2J\r\n"), "\\u{1b}[2J\\r\\n");
        assert_eq!(printable("a\u{202e}b"), "a\\u{202e}b");
        assert_eq!(printable("\\'"), "\\\\'");
    }
}
