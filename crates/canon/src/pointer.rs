//! JSON pointers (RFC 6901): parsed once, when a contract is read, so that nothing can be wrong with them later.
//! A [`Pointer`] keeps its unescaped tokens and displays as the text it was parsed from. The fragment form (`#/a`)
//! is not a pointer here. In forms and multipart bodies a pointer of one token, `/name`, names fields and parts.

use std::fmt;
use std::str::FromStr;

/// A parsed RFC 6901 pointer.
///
/// The empty pointer names the whole document. It is no member and no element, so it ignores and removes nothing;
/// [`json::at`](crate::json::at) takes it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Pointer {
    tokens: Vec<String>,
}

/// What is wrong with the text of a pointer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PointerError {
    /// Neither empty nor beginning with `/`.
    #[error("a JSON pointer is empty or begins with `/` (RFC 6901)")]
    NoLeadingSlash,
    /// A `~` that is not part of `~0` (for `~`) or `~1` (for `/`).
    #[error("`~` at byte {offset} of a JSON pointer must be followed by `0` or `1` (RFC 6901)")]
    BadEscape {
        /// Where the `~` is, in bytes from the beginning of the pointer.
        offset: usize,
    },
}

impl Pointer {
    /// The unescaped tokens, outermost first.
    pub(crate) fn tokens(&self) -> &[String] {
        &self.tokens
    }
}

impl FromStr for Pointer {
    type Err = PointerError;

    /// Parses the text form of RFC 6901, section 3.
    fn from_str(text: &str) -> Result<Self, PointerError> {
        if let Some(offset) = bad_escape(text) {
            return Err(PointerError::BadEscape { offset });
        }
        let tokens = match text.strip_prefix('/') {
            Some(rest) => rest.split('/').map(|token| token.replace("~1", "/").replace("~0", "~")).collect(),
            None if text.is_empty() => Vec::new(),
            None => return Err(PointerError::NoLeadingSlash),
        };
        Ok(Self { tokens })
    }
}

fn bad_escape(text: &str) -> Option<usize> {
    text.match_indices('~')
        .map(|(offset, _)| offset)
        .find(|offset| !matches!(text.as_bytes().get(offset + 1), Some(b'0' | b'1')))
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for token in &self.tokens {
            write!(f, "/{}", token.replace('~', "~0").replace('/', "~1"))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_unescaped_in_the_order_of_the_rfc() {
        let pointer: Pointer = "/a~1b/m~0n/~01//0".parse().unwrap();
        assert_eq!(pointer.tokens(), ["a/b", "m~n", "~1", "", "0"]);
    }

    #[test]
    fn a_pointer_displays_as_it_was_written() {
        for text in ["", "/", "/a", "/a~1b/m~0n/~01//0", "/é"] {
            assert_eq!(text.parse::<Pointer>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_is_no_pointer_says_why() {
        assert_eq!("a/b".parse::<Pointer>(), Err(PointerError::NoLeadingSlash));
        assert_eq!("#/a".parse::<Pointer>(), Err(PointerError::NoLeadingSlash));
        assert_eq!("/a~".parse::<Pointer>(), Err(PointerError::BadEscape { offset: 2 }));
        assert_eq!("/~0/~2".parse::<Pointer>(), Err(PointerError::BadEscape { offset: 4 }));
    }
}
