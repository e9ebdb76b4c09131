//! Finds the next delimiter (CRLF, two hyphens, boundary) in chunks of any size, and passes on what is not part of
//! one. A boundary holds no CR, so a delimiter can only begin at one: after a mismatch nothing matched before can be
//! the beginning of another, and each byte is looked at once.

/// The search for one boundary.
#[derive(Debug)]
pub(crate) struct Delimiter {
    /// CRLF, two hyphens, boundary.
    pattern: Vec<u8>,
    /// How much of it has matched so far.
    matched: usize,
    /// How much of that was never part of the text: the line end before its first line.
    unseen: usize,
}

/// What a chunk had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Piece {
    /// No delimiter; all of it is used.
    Text,
    /// A delimiter that ends after so many bytes.
    Delimiter { used: usize },
}

const LINE_END: usize = 2;

impl Delimiter {
    pub(crate) fn new(boundary: &str) -> Self {
        Self { pattern: format!("\r\n--{boundary}").into_bytes(), matched: LINE_END, unseen: LINE_END }
    }

    /// The next byte begins a line; the line end before it belongs to something else.
    pub(crate) fn at_line_start(&mut self) {
        self.matched = LINE_END;
        self.unseen = LINE_END;
    }

    /// Takes bytes until a delimiter ends or they do, and emits those before it.
    pub(crate) fn feed(&mut self, bytes: &[u8], mut emit: impl FnMut(&[u8])) -> Piece {
        let mut at = 0;
        while at < bytes.len() {
            if self.matched == 0 {
                let run = bytes[at..].iter().position(|byte| *byte == b'\r').unwrap_or(bytes.len() - at);
                if run > 0 {
                    emit(&bytes[at..at + run]);
                    at += run;
                    continue;
                }
            }
            if bytes[at] == self.pattern[self.matched] {
                self.matched += 1;
                at += 1;
                if self.matched == self.pattern.len() {
                    (self.matched, self.unseen) = (0, 0);
                    return Piece::Delimiter { used: at };
                }
            } else {
                emit(&self.pattern[self.unseen..self.matched]);
                (self.matched, self.unseen) = (0, 0);
            }
        }
        Piece::Text
    }
}
