//! The caller's key: its grammar in the header, its limits, and the time it may carry (SEMANTICS 7).
//!
//! A key is opaque: compared byte for byte, never folded, trimmed or cut. The header is an RFC 9651 Item of type
//! String; in the lenient syntax a bare value means the same key as its quoted form.

use std::fmt;

use sfv::{BareItem, Item, List, ListEntry, Parser};

use crate::StoreTime;

/// The longest key, in bytes after decoding.
pub const KEY_BYTES_MAX: usize = 255;

/// The caller's key: 1 to 255 bytes, not all blanks.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(String);

/// Why a key is refused; nothing runs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// Present but without a value.
    #[error("the key is empty")]
    Empty,
    /// Nothing but blanks.
    #[error("the key is all blanks")]
    Blank,
    /// Longer than [`KEY_BYTES_MAX`].
    #[error("the key is {bytes} bytes long; at most {KEY_BYTES_MAX} are allowed")]
    TooLong {
        /// Its length after decoding, in bytes.
        bytes: usize,
    },
    /// Neither a quoted string nor (in the lenient syntax) an allowed bare value.
    #[error("{0}")]
    Malformed(&'static str),
    /// Two header lines, a list, or carriers that disagree.
    #[error("{0}")]
    Ambiguous(&'static str),
}

impl KeyError {
    /// True for the answers of type `key-ambiguous`, false for `key-invalid`.
    pub fn is_ambiguous(&self) -> bool {
        matches!(self, KeyError::Ambiguous(_))
    }
}

/// How the header may be written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeySyntax {
    /// The quoted string of RFC 9651, or a bare value of visible ASCII without `"` `,` `;` `\`.
    #[default]
    Lenient,
    /// The quoted string of RFC 9651 only.
    Strict,
}

/// Which keys carry a time that is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyTime {
    /// UUID version 7, in its 36-character form.
    #[default]
    Uuidv7,
    /// ULID, 26 characters of Crockford's base 32. By choice only: any 26 letters look like one.
    Ulid,
    /// None.
    Off,
}

impl Key {
    /// A key from its decoded value.
    pub fn new(value: impl Into<String>) -> Result<Key, KeyError> {
        let value = value.into();
        if value.is_empty() {
            return Err(KeyError::Empty);
        }
        if value.len() > KEY_BYTES_MAX {
            return Err(KeyError::TooLong { bytes: value.len() });
        }
        if value.bytes().all(|b| b == b' ' || b == b'\t') {
            return Err(KeyError::Blank);
        }
        Ok(Key(value))
    }

    /// The key of a request's header lines of one name. No line at all: `Ok(None)`, absent is absent.
    pub fn from_header_lines<'a>(
        lines: impl IntoIterator<Item = &'a [u8]>,
        syntax: KeySyntax,
    ) -> Result<Option<Key>, KeyError> {
        let mut lines = lines.into_iter();
        let Some(line) = lines.next() else { return Ok(None) };
        if lines.next().is_some() {
            return Err(KeyError::Ambiguous("the key header is there more than once"));
        }
        Key::from_header(line, syntax).map(Some)
    }

    fn from_header(line: &[u8], syntax: KeySyntax) -> Result<Key, KeyError> {
        let value = line.trim_ascii();
        if value.is_empty() {
            return Err(KeyError::Empty);
        }
        if value[0] == b'"' {
            return quoted(value);
        }
        match syntax {
            KeySyntax::Lenient => bare(value),
            KeySyntax::Strict => match Parser::new(value).parse::<List>() {
                Ok(list) if list.len() > 1 => Err(KeyError::Ambiguous("the key header holds a list")),
                _ => Err(KeyError::Malformed("the key must be a quoted string (RFC 9651)")),
            },
        }
    }

    /// The key as the caller sent it, decoded.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The key as an RFC 9651 String, for the wire. `None` when it holds bytes that no such String can carry.
    pub fn to_header(&self) -> Option<String> {
        if !self.0.bytes().all(|b| (0x20..0x7f).contains(&b)) {
            return None;
        }
        let mut out = String::with_capacity(self.0.len() + 2);
        out.push('"');
        for c in self.0.chars() {
            if c == '"' || c == '\\' {
                out.push('\\');
            }
            out.push(c);
        }
        out.push('"');
        Some(out)
    }

    /// The time that the key itself carries, where `kind` says it is to be read.
    pub fn time(&self, kind: KeyTime) -> Option<StoreTime> {
        match kind {
            KeyTime::Uuidv7 => uuidv7_time(self.0.as_bytes()),
            KeyTime::Ulid => ulid_time(self.0.as_bytes()),
            KeyTime::Off => None,
        }
    }
}

impl fmt::Debug for Key {
    /// Never the key itself: keys can be mail addresses (SEMANTICS 13).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({} bytes)", self.0.len())
    }
}

fn quoted(value: &[u8]) -> Result<Key, KeyError> {
    if let Ok(Item { bare_item: BareItem::String(text), .. }) = Parser::new(value).parse::<Item>() {
        return Key::new(text.as_str());
    }
    match Parser::new(value).parse::<List>() {
        Ok(list) if list.len() > 1 && list.iter().all(|e| matches!(e, ListEntry::Item(_))) => {
            Err(KeyError::Ambiguous("the key header holds a list"))
        }
        _ => Err(KeyError::Malformed("the key starts with a quote and is not a valid string (RFC 9651)")),
    }
}

fn bare(value: &[u8]) -> Result<Key, KeyError> {
    if value.contains(&b',') {
        return Err(KeyError::Ambiguous("the key header holds a comma: two values may have been joined"));
    }
    if value.len() > KEY_BYTES_MAX {
        return Err(KeyError::TooLong { bytes: value.len() });
    }
    if !value.iter().all(|b| b.is_ascii_graphic() && !matches!(b, b'"' | b';' | b'\\')) {
        return Err(KeyError::Malformed(
            "a key without quotes may hold visible ASCII except the quote, comma, semicolon and backslash",
        ));
    }
    Key::new(String::from_utf8_lossy(value))
}

fn uuidv7_time(key: &[u8]) -> Option<StoreTime> {
    if key.len() != 36
        || key[14] != b'7'
        || !matches!(key[19].to_ascii_lowercase(), b'8' | b'9' | b'a' | b'b')
    {
        return None;
    }
    let mut time = 0i64;
    for (i, byte) in key.iter().enumerate() {
        match i {
            8 | 13 | 18 | 23 if *byte != b'-' => return None,
            8 | 13 | 18 | 23 => {}
            _ => {
                let digit = char::from(*byte).to_digit(16)?;
                if i < 13 {
                    time = time << 4 | i64::from(digit);
                }
            }
        }
    }
    Some(StoreTime(time))
}

fn ulid_time(key: &[u8]) -> Option<StoreTime> {
    const DIGITS: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
    if key.len() != 26 || !matches!(key[0], b'0'..=b'7') {
        return None;
    }
    let mut time = 0i64;
    for (i, byte) in key.iter().enumerate() {
        let digit = DIGITS.iter().position(|d| *d == byte.to_ascii_uppercase())?;
        if i < 10 {
            time = time << 5 | i64::try_from(digit).ok()?;
        }
    }
    Some(StoreTime(time))
}

#[cfg(test)]
mod tests;
