//! The digest of a JSON body as it streams. An object waits, member by member, until its end, where its members are
//! sorted and become one item; strings, digits and arrays stream on (see `encode`). What waits is counted in terms
//! of the body alone, at points that do not depend on chunks, so that reaching
//! [`PENDING_BYTES_MAX`](crate::limits::PENDING_BYTES_MAX) is a property of the body. Ignored values are checked like
//! all others and then dropped; a name may not come twice even if it is ignored.

use sha2::Digest;

use super::NotCanonical;
use super::number::{Decimal, Exponent, Magnitude};
use super::order;
use super::parse::{Kind, Parser, Step, Visit};
use crate::encode::{Fate, Member, Open, Pending, Tag, domain};
use crate::limits::{CONTAINER_COST_BYTES, MEMBER_COST_BYTES};
use crate::select::{Position, Selection};

/// A JSON body being hashed.
#[derive(Debug)]
pub(crate) struct JsonBody {
    parser: Parser,
    items: Items,
}

impl JsonBody {
    pub(crate) fn new(ignore: Selection, pending_bytes_max: usize) -> Self {
        Self { parser: Parser::new(), items: Items::new(ignore, pending_bytes_max) }
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) -> Step {
        self.parser.feed(bytes, &mut self.items)
    }

    pub(crate) fn finish(mut self) -> Result<[u8; 32], NotCanonical> {
        self.parser.finish(&mut self.items)?;
        Ok(domain("json").chain_update(self.items.pending.bytes()).finalize().into())
    }
}

/// An open array or object.
#[derive(Debug)]
struct Container {
    kind: Kind,
    open: Open,
    /// Where its own members begin among those of all open objects.
    first_member: usize,
    /// Where the ignored pointers are here.
    position: Option<Position>,
    elements: u64,
    child: Child,
}

/// The member or element being read. For a member, the name stands before the value.
#[derive(Debug, Clone, Copy)]
struct Child {
    start: usize,
    name_end: usize,
    position: Option<Position>,
}

#[derive(Debug)]
struct Items {
    pending: Pending,
    members: Vec<Member>,
    containers: Vec<Container>,
    ignore: Selection,
    /// The string or number being read.
    scalar: Option<Open>,
    scalar_tag: Tag,
    decimal: Decimal,
    pending_bytes_max: usize,
}

impl Items {
    fn new(ignore: Selection, pending_bytes_max: usize) -> Self {
        Self {
            pending: Pending::new(),
            members: Vec::with_capacity(16),
            containers: Vec::with_capacity(8),
            ignore,
            scalar: None,
            scalar_tag: Tag::String,
            decimal: Decimal::default(),
            pending_bytes_max,
        }
    }

    /// `waiting` is what waits in the buffer up to a point that no chunk decides.
    fn check(&self, waiting: usize) -> Step {
        let bookkeeping =
            self.members.len() * MEMBER_COST_BYTES + self.containers.len() * CONTAINER_COST_BYTES;
        match waiting + bookkeeping <= self.pending_bytes_max {
            true => Ok(()),
            false => Err(NotCanonical::TooLarge),
        }
    }

    fn seal_object(&mut self, container: Container) -> Step {
        let members = &mut self.members[container.first_member..];
        self.pending
            .seal_unique(container.open, Tag::Object, members, order::utf16)
            .map_err(|_| NotCanonical::DuplicateName)?;
        self.members.truncate(container.first_member);
        Ok(())
    }

    fn seal_number(&mut self, mut open: Open) {
        // Digits, then the sign of the value, then the exponent; zero has no digits.
        let sign = |negative| if negative { '-' } else { '+' };
        match self.decimal.finish() {
            Magnitude::Zero => self.pending.push(&mut open, Tag::Number, b"+0"),
            Magnitude::Other { negative, exponent: Exponent::Small(exponent @ 0..=9) } => {
                let text = [sign(negative) as u8, b'0' + exponent as u8];
                self.pending.push(&mut open, Tag::Number, &text);
            }
            Magnitude::Other { negative, exponent } => {
                let text = format!("{}{exponent}", sign(negative));
                self.pending.push(&mut open, Tag::Number, text.as_bytes());
            }
        }
        self.pending.seal(open, Tag::Number);
    }

    /// Hands the value that has just become an item over to its parent.
    fn adopt(&mut self) -> Step {
        let Some(parent) = self.containers.last_mut() else { return Ok(()) };
        let Child { start, name_end, position } = parent.child;
        let ignored = self.ignore.is_selected(position);
        if parent.kind == Kind::Object {
            let fate = if ignored { Fate::Ignored } else { Fate::Kept };
            if ignored {
                self.pending.truncate(name_end);
            }
            self.members.push(Member { start, name_end, end: self.pending.len(), fate });
        } else if ignored {
            self.pending.truncate(start);
        } else {
            self.pending.settle(&mut parent.open, Tag::Array);
        }
        self.check(self.pending.len())
    }
}

impl Visit for Items {
    fn name_start(&mut self, _: u64) -> Step {
        let start = self.pending.len();
        let object = self.containers.last_mut().expect("a name is in an object");
        object.child = Child { start, name_end: start, position: None };
        Ok(())
    }

    fn name_text(&mut self, part: &[u8]) -> Step {
        self.pending.extend(part);
        self.check(self.pending.len())
    }

    fn name_end(&mut self) -> Step {
        let object = self.containers.last_mut().expect("a name is in an object");
        let name = &self.pending.bytes()[object.child.start..];
        object.child.position = self.ignore.member(object.position, name);
        object.child.name_end = self.pending.len();
        Ok(())
    }

    fn value_start(&mut self, kind: Kind, _: u64) -> Step {
        let position = match self.containers.last_mut() {
            None => self.ignore.root(),
            Some(object) if object.kind == Kind::Object => object.child.position,
            Some(array) => {
                let start = self.pending.len();
                let position = self.ignore.element(array.position, array.elements);
                array.child = Child { start, name_end: start, position };
                array.elements += 1;
                position
            }
        };
        match kind {
            Kind::Null => self.pending.put_literal(Tag::Null),
            Kind::True => self.pending.put_literal(Tag::True),
            Kind::False => self.pending.put_literal(Tag::False),
            Kind::String => {
                self.scalar_tag = Tag::String;
                self.scalar = Some(self.pending.open());
            }
            Kind::Number => {
                self.scalar_tag = Tag::Number;
                self.scalar = Some(self.pending.open());
                self.decimal.clear();
            }
            Kind::Object | Kind::Array => {
                let first_member = self.members.len();
                let open = self.pending.open();
                let child = Child { start: open.start(), name_end: open.start(), position: None };
                self.containers.push(Container { kind, open, first_member, position, elements: 0, child });
                self.check(self.pending.len())?;
            }
        }
        Ok(())
    }

    fn value_text(&mut self, part: &[u8]) -> Step {
        let open = self.scalar.as_mut().expect("text is in a string or number");
        if self.scalar_tag == Tag::String {
            self.pending.push(open, Tag::String, part);
            return Ok(());
        }
        let start = open.start();
        let pending = &mut self.pending;
        self.decimal.push(part, |digits| pending.push(open, Tag::Number, digits));
        self.check(start + self.decimal.held())
    }

    fn value_end(&mut self, kind: Kind, _: u64) -> Step {
        match kind {
            Kind::Null | Kind::True | Kind::False => {}
            Kind::String => {
                let open = self.scalar.take().expect("a string is open");
                self.pending.seal(open, Tag::String);
            }
            Kind::Number => {
                let open = self.scalar.take().expect("a number is open");
                self.seal_number(open);
            }
            Kind::Object => {
                let container = self.containers.pop().expect("an object is open");
                self.seal_object(container)?;
            }
            Kind::Array => {
                let container = self.containers.pop().expect("an array is open");
                self.pending.seal(container.open, Tag::Array);
            }
        }
        self.adopt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(body: &[u8], chunk: usize, pending_bytes_max: usize) -> Result<[u8; 32], NotCanonical> {
        let mut json = JsonBody::new(Selection::default(), pending_bytes_max);
        for part in body.chunks(chunk) {
            json.update(part)?;
        }
        json.finish()
    }

    #[test]
    fn the_limit_is_met_by_the_same_bodies_however_they_are_cut() {
        let exponent = "8".repeat(400);
        let digits = "7".repeat(5000);
        let string = "x".repeat(600);
        let body = format!(
            r#"[{{"na\u006de":["{string}",[{{}}],{digits}e{exponent}],"o":{{"{string}":-1}}}},"{string}"]"#
        );
        let needed = (0..4000).find(|limit| digest(body.as_bytes(), body.len(), *limit).is_ok()).unwrap();
        for limit in (0..needed + 5000).filter(|limit| limit % 50 == 0 || limit.abs_diff(needed) < 10) {
            let whole = digest(body.as_bytes(), body.len(), limit);
            assert_eq!(whole.is_ok(), limit >= needed);
            for chunk in [1, 7, 300] {
                assert_eq!(digest(body.as_bytes(), chunk, limit), whole, "limit {limit}, chunks of {chunk}");
            }
        }
    }

    #[test]
    fn strings_digits_and_arrays_do_not_wait() {
        let long = "1".repeat(100_000);
        let array = vec!["[1,\"a\"]"; 10_000].join(",");
        for body in [format!("\"{long}\""), long, format!("[{array}]")] {
            assert!(digest(body.as_bytes(), 1000, 8192).is_ok());
        }
    }

    #[test]
    fn names_members_exponents_and_containers_wait_and_are_bounded() {
        let long = "1".repeat(10_000);
        let members: Vec<String> = (0..300).map(|at| format!("\"{at}\":0")).collect();
        for body in [
            format!("{{\"{long}\":0}}"),
            format!("{{\"{long}"),
            format!("1e{long}"),
            format!("{{{}}}", members.join(",")),
            "[".repeat(100),
        ] {
            assert_eq!(digest(body.as_bytes(), 1000, 8192), Err(NotCanonical::TooLarge));
        }
    }

    #[test]
    fn what_an_object_held_is_given_back_when_it_ends() {
        let object = format!("{{\"{}\":0}}", "x".repeat(5000));
        let body = format!("[{}]", vec![object.as_str(); 100].join(","));
        assert!(digest(body.as_bytes(), 1000, 16_384).is_ok());
    }
}
