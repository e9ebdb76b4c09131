//! Bodies of `application/x-www-form-urlencoded` (WHATWG URL, section 5.1), as they stream. Names and values are
//! decoded to bytes, which need not be UTF-8. Fields are sorted by name, those of one name keep their order. A field
//! without `=` has no value and differs from one with an empty value, as some servers tell them apart; empty fields
//! (`&&`) are none. A percent sign without two hexadecimal digits is malformed. Values stream on beyond some
//! kilobytes; names and short values wait within [`PENDING_BYTES_MAX`](crate::limits::PENDING_BYTES_MAX).

use sha2::Digest;

use crate::encode::{Fate, Member, Open, Pending, Tag, domain};
use crate::limits::MEMBER_COST_BYTES;
use crate::select::Selection;

/// A form being hashed.
#[derive(Debug)]
pub(crate) struct FormBody {
    pending: Pending,
    form: Open,
    fields: Vec<Member>,
    place: Place,
    escape: Escape,
    ignore: Selection,
    pending_bytes_max: usize,
}

/// The body is malformed or beyond a limit.
#[derive(Debug)]
pub(crate) struct NotForm;

#[derive(Debug)]
enum Place {
    /// Before a field.
    Between,
    Name {
        start: usize,
    },
    Value {
        start: usize,
        name_end: usize,
        open: Open,
    },
}

/// Where in a percent escape the body is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Escape {
    None,
    Percent,
    Digit(u8),
}

impl FormBody {
    pub(crate) fn new(ignore: Selection, pending_bytes_max: usize) -> Self {
        let mut pending = Pending::new();
        let form = pending.open();
        let (fields, place, escape) = (Vec::new(), Place::Between, Escape::None);
        Self { pending, form, fields, place, escape, ignore, pending_bytes_max }
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) -> Result<(), NotForm> {
        let mut rest = bytes;
        while let Some((first, after)) = rest.split_first() {
            let in_name = !matches!(self.place, Place::Value { .. });
            match (self.escape, first) {
                (Escape::Percent, digit) => self.escape = Escape::Digit(hexadecimal(*digit)?),
                (Escape::Digit(high), digit) => {
                    self.escape = Escape::None;
                    self.text(&[high << 4 | hexadecimal(*digit)?])?;
                }
                (_, b'%') => self.escape = Escape::Percent,
                (_, b'+') => self.text(b" ")?,
                (_, b'&') => self.end_field()?,
                (_, b'=') if in_name => self.end_name(),
                _ => {
                    let special = |byte: &u8| matches!(byte, b'%' | b'+' | b'&') || in_name && *byte == b'=';
                    let run = rest.iter().position(special).unwrap_or(rest.len());
                    self.text(&rest[..run])?;
                    rest = &rest[run..];
                    continue;
                }
            }
            rest = after;
        }
        Ok(())
    }

    pub(crate) fn finish(mut self) -> Result<[u8; 32], NotForm> {
        self.end_field()?;
        self.pending.seal_repeatable(self.form, Tag::Form, &mut self.fields);
        Ok(domain("form").chain_update(self.pending.bytes()).finalize().into())
    }

    fn text(&mut self, part: &[u8]) -> Result<(), NotForm> {
        match &mut self.place {
            Place::Value { open, .. } => {
                self.pending.push(open, Tag::Field, part);
                return Ok(());
            }
            Place::Name { .. } => {}
            Place::Between => self.place = Place::Name { start: self.pending.len() },
        }
        self.pending.extend(part);
        self.check()
    }

    fn end_name(&mut self) {
        let name_end = self.pending.len();
        let start = match self.place {
            Place::Name { start } => start,
            _ => name_end,
        };
        self.place = Place::Value { start, name_end, open: self.pending.open() };
    }

    fn end_field(&mut self) -> Result<(), NotForm> {
        if self.escape != Escape::None {
            return Err(NotForm);
        }
        let (start, name_end) = match std::mem::replace(&mut self.place, Place::Between) {
            Place::Between => return Ok(()),
            Place::Name { start } => {
                let name_end = self.pending.len();
                self.pending.put_literal(Tag::NoValue);
                (start, name_end)
            }
            Place::Value { start, name_end, open } => {
                self.pending.seal(open, Tag::Field);
                (start, name_end)
            }
        };
        if self.ignore.selects_name(&self.pending.bytes()[start..name_end]) {
            self.pending.truncate(start);
            return Ok(());
        }
        self.fields.push(Member { start, name_end, end: self.pending.len(), fate: Fate::Kept });
        self.check()
    }

    /// Only called where the buffer does not depend on chunks.
    fn check(&self) -> Result<(), NotForm> {
        match self.pending.len() + self.fields.len() * MEMBER_COST_BYTES <= self.pending_bytes_max {
            true => Ok(()),
            false => Err(NotForm),
        }
    }
}

fn hexadecimal(digit: u8) -> Result<u8, NotForm> {
    let value = char::from(digit).to_digit(16).ok_or(NotForm)?;
    Ok(value as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(body: &[u8], chunk: usize, pending_bytes_max: usize) -> Option<[u8; 32]> {
        let mut form = FormBody::new(Selection::default(), pending_bytes_max);
        for part in body.chunks(chunk) {
            form.update(part).ok()?;
        }
        form.finish().ok()
    }

    #[test]
    fn the_limit_is_met_by_the_same_bodies_however_they_are_cut() {
        let body = b"name=value&other=%41%42+c&long=".iter().copied().chain([b'x'; 9000]).collect::<Vec<_>>();
        for limit in 0..300 {
            let whole = digest(&body, body.len(), limit);
            for chunk in [1, 2, 7, 4096] {
                assert_eq!(digest(&body, chunk, limit), whole, "limit {limit}, chunks of {chunk}");
            }
        }
        assert_eq!(digest(&body, 1, 100), None);
        assert!(digest(&body, 1, 299).is_some());
    }

    #[test]
    fn a_name_is_bounded_before_it_ends() {
        let mut form = FormBody::new(Selection::default(), 100);
        assert!(form.update(&[b'x'; 98]).is_ok());
        assert!(form.update(b"x").is_err());
    }
}
