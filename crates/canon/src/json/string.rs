//! The inside of a JSON string, from after its opening quote through its closing one, in chunks of any size:
//! unescapes, checks UTF-8 (no overlong forms, no surrogates, nothing above U+10FFFF), and refuses control
//! characters and lone surrogates. Parts may end inside a character; all parts of a string together are UTF-8.

use super::NotCanonical;
use super::parse::Step;

/// How far a chunk was used, and whether the token ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Progress {
    pub(crate) used: usize,
    pub(crate) complete: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum State {
    #[default]
    Plain,
    /// Inside a character: so many bytes are missing, the next of them in this range.
    Character { missing: u8, low: u8, high: u8 },
    /// After a backslash.
    Escape,
    /// Inside the four digits of `\u`.
    Unicode { digits: u8, unit: u16 },
}

/// The state inside one string; ready for another one when a string is complete.
#[derive(Debug, Default)]
pub(crate) struct StringLexer {
    state: State,
    /// The first half of a surrogate pair, until the other one has come.
    high_half: Option<u16>,
}

impl StringLexer {
    /// Takes bytes until the string ends or they do. `offset` is that of the first byte.
    pub(crate) fn feed(
        &mut self,
        bytes: &[u8],
        offset: u64,
        mut emit: impl FnMut(&[u8]) -> Step,
    ) -> Result<Progress, NotCanonical> {
        // Most strings are plain and in one chunk.
        if self.state == State::Plain && self.high_half.is_none() {
            let plain = plain_prefix(bytes);
            if bytes.get(plain) == Some(&b'"') {
                emit(&bytes[..plain])?;
                return Ok(Progress { used: plain + 1, complete: true });
            }
        }
        let mut at = 0;
        while at < bytes.len() {
            let here = offset + at as u64;
            match self.state {
                State::Plain | State::Character { .. } => {
                    let run = self.run(&bytes[at..], here)?;
                    if self.high_half.is_some() && (run > 0 || bytes[at] != b'\\') {
                        return Err(NotCanonical::LoneSurrogate { offset: here });
                    }
                    if run > 0 {
                        emit(&bytes[at..at + run])?;
                    }
                    at += run;
                    match bytes.get(at) {
                        Some(b'"') => return Ok(Progress { used: at + 1, complete: true }),
                        Some(_) => self.state = State::Escape,
                        None => break,
                    }
                }
                State::Escape => self.escape(bytes[at], here, &mut emit)?,
                State::Unicode { digits, unit } => self.unicode(bytes[at], digits, unit, here, &mut emit)?,
            }
            at += 1;
        }
        Ok(Progress { used: at, complete: false })
    }

    /// How many bytes stand for themselves: up to a quote, a backslash or the end of the chunk.
    fn run(&mut self, bytes: &[u8], offset: u64) -> Result<usize, NotCanonical> {
        let mut at = 0;
        while at < bytes.len() {
            let byte = bytes[at];
            if let State::Character { missing, low, high } = self.state {
                if !(low..=high).contains(&byte) {
                    return Err(NotCanonical::Utf8 { offset: offset + at as u64 });
                }
                self.state = match missing {
                    1 => State::Plain,
                    _ => State::Character { missing: missing - 1, low: 0x80, high: 0xBF },
                };
                at += 1;
                continue;
            }
            at += plain_prefix(&bytes[at..]);
            match bytes.get(at) {
                None | Some(b'"' | b'\\') => break,
                Some(0x00..0x20) => return Err(NotCanonical::Syntax { offset: offset + at as u64 }),
                Some(lead) => {
                    self.state = character(*lead).ok_or(NotCanonical::Utf8 { offset: offset + at as u64 })?;
                    at += 1;
                }
            }
        }
        Ok(at)
    }

    fn escape(&mut self, byte: u8, offset: u64, emit: &mut impl FnMut(&[u8]) -> Step) -> Step {
        if byte == b'u' {
            self.state = State::Unicode { digits: 0, unit: 0 };
            return Ok(());
        }
        if self.high_half.is_some() {
            return Err(NotCanonical::LoneSurrogate { offset: offset - 1 });
        }
        let plain: &[u8] = match byte {
            b'"' => b"\"",
            b'\\' => b"\\",
            b'/' => b"/",
            b'b' => b"\x08",
            b'f' => b"\x0C",
            b'n' => b"\n",
            b'r' => b"\r",
            b't' => b"\t",
            _ => return Err(NotCanonical::Syntax { offset }),
        };
        self.state = State::Plain;
        emit(plain)
    }

    fn unicode(
        &mut self,
        byte: u8,
        digits: u8,
        unit: u16,
        offset: u64,
        emit: &mut impl FnMut(&[u8]) -> Step,
    ) -> Step {
        let digit = char::from(byte).to_digit(16).ok_or(NotCanonical::Syntax { offset })?;
        let unit = unit << 4 | digit as u16;
        if digits < 3 {
            self.state = State::Unicode { digits: digits + 1, unit };
            return Ok(());
        }
        self.state = State::Plain;
        let lone = NotCanonical::LoneSurrogate { offset: offset + 1 };
        let character = match (self.high_half.take(), unit) {
            (None, 0xD800..=0xDBFF) => {
                self.high_half = Some(unit);
                return Ok(());
            }
            (None, unit) => char::from_u32(u32::from(unit)).ok_or(lone)?,
            (Some(high), 0xDC00..=0xDFFF) => {
                let scalar = 0x10000 + (u32::from(high - 0xD800) << 10) + u32::from(unit - 0xDC00);
                char::from_u32(scalar).expect("two halves make a scalar value")
            }
            (Some(_), _) => return Err(lone),
        };
        emit(character.encode_utf8(&mut [0; 4]).as_bytes())
    }
}

/// What must follow the first byte of a character of several bytes (Unicode, table 3-7).
fn character(lead: u8) -> Option<State> {
    let (missing, low, high) = match lead {
        0xC2..=0xDF => (1, 0x80, 0xBF),
        0xE0 => (2, 0xA0, 0xBF),
        0xE1..=0xEC | 0xEE..=0xEF => (2, 0x80, 0xBF),
        0xED => (2, 0x80, 0x9F),
        0xF0 => (3, 0x90, 0xBF),
        0xF1..=0xF3 => (3, 0x80, 0xBF),
        0xF4 => (3, 0x80, 0x8F),
        _ => return None,
    };
    Some(State::Character { missing, low, high })
}

/// The length of the prefix of ASCII without quotes, backslashes and control characters; eight bytes at a time.
fn plain_prefix(bytes: &[u8]) -> usize {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    const TOPS: u64 = ONES << 7;
    let zero_bytes = |word: u64| word.wrapping_sub(ONES) & !word;
    let mut at = 0;
    while let Some(eight) = bytes[at..].first_chunk() {
        let word = u64::from_le_bytes(*eight);
        let control = word.wrapping_sub(ONES * 0x20);
        let quote = zero_bytes(word ^ (ONES * u64::from(b'"')));
        let backslash = zero_bytes(word ^ (ONES * u64::from(b'\\')));
        let special = (control | quote | backslash | word) & TOPS;
        // A borrow can only mark bytes after a real one, so the first mark is always right.
        if special != 0 {
            return at + special.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    let plain = |byte: &u8| matches!(byte, 0x20..0x80) && !matches!(byte, b'"' | b'\\');
    at + bytes[at..].iter().take_while(|byte| plain(byte)).count()
}
