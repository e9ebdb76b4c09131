//! The path of a match: literal segments and `{named}` ones.
//!
//! It is compared with a path that is normalized as SEMANTICS 7 says (`onefold_core::path`), and is brought into the
//! same form when it is read, so that a pattern which could never match is an error and not a hole in the protection.

use std::fmt;

use onefold_core::path::normal_segment;

use crate::kind::Wrong;

/// A path whose segments are literal or `{named}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathPattern {
    segments: Vec<Segment>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Segment {
    Literal(String),
    Named(String),
}

impl PathPattern {
    /// The named segments' values, in order, if the whole normalized path matches. Values are as they stand in the
    /// path; a named segment is never empty.
    pub fn matches<'p, 'a>(&'p self, normalized_path: &'a str) -> Option<Vec<(&'p str, &'a str)>> {
        let path = normalized_path.strip_prefix('/')?;
        let mut parts = path.split('/').filter(|_| !path.is_empty());
        let mut values = Vec::new();
        for segment in &self.segments {
            match (segment, parts.next()?) {
                (Segment::Literal(literal), part) if literal == part => {}
                (Segment::Named(name), part) if !part.is_empty() => values.push((name.as_str(), part)),
                _ => return None,
            }
        }
        parts.next().is_none().then_some(values)
    }

    /// The names of the named segments, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.segments.iter().filter_map(|segment| match segment {
            Segment::Named(name) => Some(name.as_str()),
            Segment::Literal(_) => None,
        })
    }

    /// Whether this pattern matches every path that the other one matches.
    pub(crate) fn covers(&self, other: &PathPattern) -> bool {
        self.segments.len() == other.segments.len()
            && self.segments.iter().zip(&other.segments).all(|pair| match pair {
                (Segment::Named(_), _) => true,
                (mine, theirs) => mine == theirs,
            })
    }

    /// Whether some path that this pattern matches is this literal path or lies beneath it.
    pub(crate) fn reaches(&self, literal_path: &str) -> bool {
        let wanted: Vec<&str> = literal_path.split('/').skip(1).collect();
        self.segments.len() >= wanted.len()
            && self.segments.iter().zip(wanted).all(|(segment, part)| match segment {
                Segment::Literal(literal) => literal == part,
                Segment::Named(_) => false,
            })
    }

    /// A pattern, or what is wrong with the text.
    pub(crate) fn parse(text: &str) -> Result<PathPattern, Wrong> {
        let path = text.strip_prefix('/').ok_or(Wrong::Kind)?;
        if text.contains(['?', '#', ';']) {
            return Err(Wrong::Because(
                "a match sees only the path: leave out what follows ?, # or ;".into(),
            ));
        }
        let mut pattern = PathPattern { segments: Vec::new() };
        if path.is_empty() {
            return Ok(pattern);
        }
        for part in path.strip_suffix('/').unwrap_or(path).split('/') {
            let segment = segment(part)?;
            if let Segment::Named(name) = &segment
                && pattern.names().any(|other| other == name)
            {
                return Err(Wrong::Because(format!("two segments are named {{{name}}}")));
            }
            pattern.segments.push(segment);
        }
        Ok(pattern)
    }
}

impl fmt::Display for PathPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.segments.is_empty() {
            return f.write_str("/");
        }
        for segment in &self.segments {
            match segment {
                Segment::Literal(literal) => write!(f, "/{literal}")?,
                Segment::Named(name) => write!(f, "/{{{name}}}")?,
            }
        }
        Ok(())
    }
}

fn segment(part: &str) -> Result<Segment, Wrong> {
    if let Some(name) = part.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
        return match is_name(name) {
            true => Ok(Segment::Named(name.to_owned())),
            false => {
                Err(Wrong::Because("a name between braces has letters, digits and _, such as {id}".into()))
            }
        };
    }
    if part.contains(['{', '}']) {
        return Err(Wrong::Because("a segment is literal or named as a whole, such as /orders/{id}".into()));
    }
    if !escapes_are_whole(part) {
        return Err(Wrong::Because("% must be followed by two hex digits".into()));
    }
    let literal = normal_segment(part);
    match literal.as_str() {
        "" => Err(Wrong::Because("a doubled slash never matches: paths are normalized first".into())),
        "." | ".." => Err(Wrong::Because("a dot segment never matches: paths are normalized first".into())),
        _ => Ok(Segment::Literal(literal)),
    }
}

/// Whether this is the name of a segment: a letter or `_`, then letters, digits and `_`.
pub(crate) fn is_name(text: &str) -> bool {
    let letter = |b: u8| b.is_ascii_alphabetic() || b == b'_';
    text.bytes().next().is_some_and(letter) && text.bytes().all(|b| letter(b) || b.is_ascii_digit())
}

/// Whether every `%` begins an escape.
fn escapes_are_whole(part: &str) -> bool {
    let mut pieces = part.split('%').skip(1);
    pieces.all(|rest| rest.as_bytes().get(..2).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)))
}

#[cfg(test)]
mod tests;
