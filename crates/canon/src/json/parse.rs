//! The push parser: takes a JSON text in chunks of any size and calls a visitor with what it finds.
//!
//! It promises that a visitor sees the same calls for the same text, except that text parts are cut where chunks
//! end; that each part of a string is unescaped, and all parts of one together are valid UTF-8; and that the calls
//! before an error are those of the valid text before it. It holds no text and needs no call stack: open containers
//! are bits. Duplicate names are the visitor's business.

use super::NotCanonical;
use super::number_grammar::NumberGrammar;
use super::string::StringLexer;
use crate::limits::DEPTH_MAX;

/// What a value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Object,
    Array,
    String,
    Number,
    True,
    False,
    Null,
}

pub(crate) type Step = Result<(), NotCanonical>;

/// What a feature does with a text. Offsets are of the text; an end is one past the last byte.
pub(crate) trait Visit {
    /// A member begins, with the quote of its name.
    fn name_start(&mut self, offset: u64) -> Step;
    /// Some of the name, unescaped.
    fn name_text(&mut self, part: &[u8]) -> Step;
    /// The name is complete.
    fn name_end(&mut self) -> Step;
    /// A value begins: the document, an element, or the value of the member just named.
    fn value_start(&mut self, kind: Kind, offset: u64) -> Step;
    /// Some of the innermost value: of a string, unescaped; of a number, as written.
    fn value_text(&mut self, part: &[u8]) -> Step;
    /// The innermost open value is complete.
    fn value_end(&mut self, kind: Kind, end: u64) -> Step;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Value,
    FirstElement,
    FirstName,
    Name,
    Colon,
    AfterValue,
    NameText,
    ValueText,
    Number,
    Literal(Kind, u8),
}

/// The open containers, outermost first, one bit each: set for an object.
#[derive(Debug)]
struct Nesting {
    depth: usize,
    objects: [u64; DEPTH_MAX.div_ceil(64)],
}

impl Nesting {
    fn push(&mut self, kind: Kind, offset: u64) -> Step {
        if self.depth == DEPTH_MAX {
            return Err(NotCanonical::TooDeep { offset });
        }
        let (word, bit) = (self.depth / 64, 1 << (self.depth % 64));
        match kind {
            Kind::Object => self.objects[word] |= bit,
            _ => self.objects[word] &= !bit,
        }
        self.depth += 1;
        Ok(())
    }

    fn innermost(&self) -> Option<Kind> {
        let at = self.depth.checked_sub(1)?;
        let object = self.objects[at / 64] >> (at % 64) & 1 == 1;
        Some(if object { Kind::Object } else { Kind::Array })
    }
}

/// The state of one text.
#[derive(Debug)]
pub(crate) struct Parser {
    state: State,
    nesting: Nesting,
    consumed: u64,
    string: StringLexer,
    number: NumberGrammar,
}

/// Visits a whole text.
pub(crate) fn parse(text: &[u8], visit: &mut impl Visit) -> Step {
    let mut parser = Parser::new();
    parser.feed(text, visit)?;
    parser.finish(visit)
}

impl Parser {
    pub(crate) fn new() -> Self {
        Self {
            state: State::Value,
            nesting: Nesting { depth: 0, objects: [0; DEPTH_MAX.div_ceil(64)] },
            consumed: 0,
            string: StringLexer::default(),
            number: NumberGrammar::default(),
        }
    }

    /// Takes the next bytes. After an error the parser must not be used again.
    pub(crate) fn feed<V: Visit>(&mut self, bytes: &[u8], visit: &mut V) -> Step {
        let mut at = 0;
        while at < bytes.len() {
            let (rest, offset) = (&bytes[at..], self.consumed + at as u64);
            at += match self.state {
                State::NameText => self.name_text(rest, offset, visit)?,
                State::ValueText => self.value_text(rest, offset, visit)?,
                State::Number => self.number(rest, offset, visit)?,
                State::Literal(kind, matched) => self.literal(rest[0], kind, matched, offset, visit)?,
                _ if matches!(rest[0], b' ' | b'\n' | b'\r' | b'\t') => 1,
                _ => self.structure(rest[0], offset, visit)?,
            };
        }
        self.consumed += bytes.len() as u64;
        Ok(())
    }

    /// Says that the text is complete.
    pub(crate) fn finish<V: Visit>(&mut self, visit: &mut V) -> Step {
        if self.state == State::Number && self.number.is_complete() {
            self.end_value(Kind::Number, self.consumed, visit)?;
        }
        match (self.state, self.nesting.depth) {
            (State::AfterValue, 0) => Ok(()),
            _ => Err(NotCanonical::Incomplete),
        }
    }

    fn end_value<V: Visit>(&mut self, kind: Kind, end: u64, visit: &mut V) -> Step {
        self.state = State::AfterValue;
        visit.value_end(kind, end)
    }

    /// Takes one byte outside of names, strings, numbers and literals; returns how many bytes it used.
    fn structure<V: Visit>(&mut self, byte: u8, offset: u64, visit: &mut V) -> Result<usize, NotCanonical> {
        match (self.state, byte, self.nesting.innermost()) {
            (State::FirstElement, b']', _) => self.close(offset, visit)?,
            (State::Value | State::FirstElement, ..) => return self.start_value(byte, offset, visit),
            (State::FirstName, b'}', _) => self.close(offset, visit)?,
            (State::FirstName | State::Name, b'"', _) => {
                self.state = State::NameText;
                visit.name_start(offset)?;
            }
            (State::Colon, b':', _) => self.state = State::Value,
            (State::AfterValue, b',', Some(Kind::Object)) => self.state = State::Name,
            (State::AfterValue, b',', Some(_)) => self.state = State::Value,
            (State::AfterValue, b'}', Some(Kind::Object)) => self.close(offset, visit)?,
            (State::AfterValue, b']', Some(Kind::Array)) => self.close(offset, visit)?,
            _ => return Err(NotCanonical::Syntax { offset }),
        }
        Ok(1)
    }

    fn close<V: Visit>(&mut self, offset: u64, visit: &mut V) -> Step {
        let kind = self.nesting.innermost().expect("the state says that a container is open");
        self.nesting.depth -= 1;
        self.end_value(kind, offset + 1, visit)
    }

    fn start_value<V: Visit>(&mut self, byte: u8, offset: u64, visit: &mut V) -> Result<usize, NotCanonical> {
        let (kind, state, used) = match byte {
            b'"' => (Kind::String, State::ValueText, 1),
            b'{' => (Kind::Object, State::FirstName, 1),
            b'[' => (Kind::Array, State::FirstElement, 1),
            b'-' | b'0'..=b'9' => (Kind::Number, State::Number, 0),
            b't' => (Kind::True, State::Literal(Kind::True, 1), 1),
            b'f' => (Kind::False, State::Literal(Kind::False, 1), 1),
            b'n' => (Kind::Null, State::Literal(Kind::Null, 1), 1),
            _ => return Err(NotCanonical::Syntax { offset }),
        };
        match kind {
            Kind::Object | Kind::Array => self.nesting.push(kind, offset)?,
            Kind::Number => self.number = NumberGrammar::default(),
            _ => {}
        }
        self.state = state;
        visit.value_start(kind, offset)?;
        Ok(used)
    }

    fn name_text<V: Visit>(
        &mut self,
        rest: &[u8],
        offset: u64,
        visit: &mut V,
    ) -> Result<usize, NotCanonical> {
        let progress = self.string.feed(rest, offset, |part| visit.name_text(part))?;
        if progress.complete {
            self.state = State::Colon;
            visit.name_end()?;
        }
        Ok(progress.used)
    }

    fn value_text<V: Visit>(
        &mut self,
        rest: &[u8],
        offset: u64,
        visit: &mut V,
    ) -> Result<usize, NotCanonical> {
        let progress = self.string.feed(rest, offset, |part| visit.value_text(part))?;
        if progress.complete {
            self.end_value(Kind::String, offset + progress.used as u64, visit)?;
        }
        Ok(progress.used)
    }

    fn number<V: Visit>(&mut self, rest: &[u8], offset: u64, visit: &mut V) -> Result<usize, NotCanonical> {
        let progress = self.number.feed(rest, offset)?;
        if progress.used > 0 {
            visit.value_text(&rest[..progress.used])?;
        }
        if progress.complete {
            self.end_value(Kind::Number, offset + progress.used as u64, visit)?;
        }
        Ok(progress.used)
    }

    fn literal<V: Visit>(
        &mut self,
        byte: u8,
        kind: Kind,
        matched: u8,
        offset: u64,
        visit: &mut V,
    ) -> Result<usize, NotCanonical> {
        let word: &[u8] = match kind {
            Kind::True => b"true",
            Kind::False => b"false",
            _ => b"null",
        };
        if word[usize::from(matched)] != byte {
            return Err(NotCanonical::Syntax { offset });
        }
        self.state = State::Literal(kind, matched + 1);
        if usize::from(matched) + 1 == word.len() {
            self.end_value(kind, offset + 1, visit)?;
        }
        Ok(1)
    }
}
