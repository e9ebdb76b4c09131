//! The grammar of a JSON number (RFC 8259, section 6), in chunks of any size. It only finds where a number ends and
//! whether it is one; what it is worth is the business of `number`.

use super::NotCanonical;
use super::string::Progress;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum State {
    #[default]
    Start,
    Minus,
    Zero,
    Integer,
    Point,
    Fraction,
    ExponentMark,
    ExponentSign,
    Exponent,
}

/// The state inside one number.
#[derive(Debug, Default)]
pub(crate) struct NumberGrammar {
    state: State,
}

impl NumberGrammar {
    /// Whether the number may end here.
    pub(crate) fn is_complete(&self) -> bool {
        matches!(self.state, State::Zero | State::Integer | State::Fraction | State::Exponent)
    }

    /// Takes bytes until one that does not belong to the number, which is not used. `offset` is that of the first.
    pub(crate) fn feed(&mut self, bytes: &[u8], offset: u64) -> Result<Progress, NotCanonical> {
        for (at, byte) in bytes.iter().enumerate() {
            self.state = match (self.state, byte) {
                (State::Start, b'-') => State::Minus,
                (State::Start | State::Minus, b'0') => State::Zero,
                (State::Start | State::Minus, b'1'..=b'9') => State::Integer,
                (State::Integer, b'0'..=b'9') => State::Integer,
                (State::Zero | State::Integer, b'.') => State::Point,
                (State::Point | State::Fraction, b'0'..=b'9') => State::Fraction,
                (State::Zero | State::Integer | State::Fraction, b'e' | b'E') => State::ExponentMark,
                (State::ExponentMark, b'+' | b'-') => State::ExponentSign,
                (State::ExponentMark | State::ExponentSign | State::Exponent, b'0'..=b'9') => State::Exponent,
                _ if self.is_complete() => return Ok(Progress { used: at, complete: true }),
                _ => return Err(NotCanonical::Syntax { offset: offset + at as u64 }),
            };
        }
        Ok(Progress { used: bytes.len(), complete: false })
    }
}
