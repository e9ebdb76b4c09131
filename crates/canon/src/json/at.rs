//! Finds the value at one pointer, for keys that a body carries. The whole text is checked, also after the value. A
//! name on the way that comes twice is refused: which of the two the receiver reads is anyone's guess. Only names of
//! objects on the way and the value found are held.

use super::NotCanonical;
use super::parse::{Kind, Step, Visit, parse};
use crate::Pointer;

/// What stands at a pointer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// A string, unescaped.
    String(String),
    /// Something else; the name of its kind: `object`, `array`, `number`, `true`, `false` or `null`.
    Other(&'static str),
}

/// The value at a pointer; `None` if there is none. The empty pointer is the whole document.
///
/// # Errors
///
/// The text is not valid JSON, holds a lone surrogate, is [too deep](crate::limits::DEPTH_MAX), or has a duplicate
/// name on the way to the value (other duplicates do not matter here); never [`NotCanonical::TooLarge`].
pub fn at(input: &[u8], pointer: &Pointer) -> Result<Option<Found>, NotCanonical> {
    let mut search = Search { tokens: pointer.tokens(), containers: Vec::new(), target: Target::NotFound };
    parse(input, &mut search)?;
    match search.target {
        Target::Found(found) => Ok(Some(found)),
        _ => Ok(None),
    }
}

struct Search<'a> {
    tokens: &'a [String],
    containers: Vec<Container>,
    target: Target,
}

enum Target {
    NotFound,
    /// A string that is not complete.
    Reading {
        text: Vec<u8>,
    },
    Found(Found),
}

struct Container {
    kind: Kind,
    path: Path,
    elements: u64,
    name: Vec<u8>,
    /// Of the member being read.
    child: Path,
    /// Whether a child on the way has come.
    passed: bool,
}

/// Whether a value is on the way to the one looked for, or is it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Path {
    On,
    Off,
}

impl Search<'_> {
    fn value_path(&mut self) -> Path {
        let depth = self.containers.len();
        let Some(parent) = self.containers.last_mut() else { return Path::On };
        if parent.kind == Kind::Object {
            return parent.child;
        }
        let index = parent.elements;
        parent.elements += 1;
        match parent.path == Path::On && self.tokens[depth - 1] == index.to_string() {
            true => Path::On,
            false => Path::Off,
        }
    }
}

impl Visit for Search<'_> {
    fn name_start(&mut self, _: u64) -> Step {
        self.containers.last_mut().expect("a name is in an object").name.clear();
        Ok(())
    }

    fn name_text(&mut self, part: &[u8]) -> Step {
        let object = self.containers.last_mut().expect("a name is in an object");
        if object.path == Path::On {
            object.name.extend_from_slice(part);
        }
        Ok(())
    }

    fn name_end(&mut self) -> Step {
        let depth = self.containers.len();
        let object = self.containers.last_mut().expect("a name is in an object");
        object.child = Path::Off;
        if object.path == Path::On && self.tokens[depth - 1].as_bytes() == object.name {
            if object.passed {
                return Err(NotCanonical::DuplicateName);
            }
            object.passed = true;
            object.child = Path::On;
        }
        Ok(())
    }

    fn value_start(&mut self, kind: Kind, _: u64) -> Step {
        let mut path = self.value_path();
        if path == Path::On && self.containers.len() == self.tokens.len() {
            path = Path::Off;
            self.target = match kind {
                Kind::String => Target::Reading { text: Vec::new() },
                other => Target::Found(Found::Other(name(other))),
            };
        }
        if matches!(kind, Kind::Object | Kind::Array) {
            let (name, child) = (Vec::new(), Path::Off);
            self.containers.push(Container { kind, path, elements: 0, name, child, passed: false });
        }
        Ok(())
    }

    fn value_text(&mut self, part: &[u8]) -> Step {
        if let Target::Reading { text } = &mut self.target {
            text.extend_from_slice(part);
        }
        Ok(())
    }

    fn value_end(&mut self, kind: Kind, _: u64) -> Step {
        if matches!(kind, Kind::Object | Kind::Array) {
            self.containers.pop();
        } else if let Target::Reading { text } = &mut self.target {
            let text = String::from_utf8(std::mem::take(text)).expect("the parser checks strings");
            self.target = Target::Found(Found::String(text));
        }
        Ok(())
    }
}

fn name(kind: Kind) -> &'static str {
    match kind {
        Kind::Object => "object",
        Kind::Array => "array",
        Kind::String => "string",
        Kind::Number => "number",
        Kind::True => "true",
        Kind::False => "false",
        Kind::Null => "null",
    }
}
