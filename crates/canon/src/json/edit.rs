//! Takes members and elements out of a JSON text and leaves every other byte as it is, white space and order too.
//! A comma goes with what is removed: the one before it if something kept stands before it in the container, else
//! the one after it. What is left is valid JSON with the value that the text had without those places. Only the
//! places to cut are held, beside the text and its copy.

use super::NotCanonical;
use super::parse::{Kind, Step, Visit, parse};
use crate::Pointer;
use crate::select::{Position, Selection};

/// The text without the members and elements at the pointers; everything else stays byte for byte.
///
/// Pointers are of the text as it is: with `/0` and `/1` the first two elements go. A pointer to nothing removes
/// nothing, nor does the empty one. Of a name that comes twice, every member goes: this also serves to redact.
///
/// # Errors
///
/// The text is not valid JSON, holds a lone surrogate, or is [too deep](crate::limits::DEPTH_MAX). Duplicate names are
/// no error here, and neither is any size.
pub fn without(input: &[u8], pointers: &[Pointer]) -> Result<Vec<u8>, NotCanonical> {
    let mut cutter = Cutter { selection: Selection::new(pointers), containers: Vec::new(), cuts: Vec::new() };
    parse(input, &mut cutter)?;
    let mut out = Vec::with_capacity(input.len());
    let mut copied = 0;
    for (start, end) in cutter.cuts {
        out.extend_from_slice(&input[copied..start as usize]);
        copied = end as usize;
    }
    out.extend_from_slice(&input[copied..]);
    Ok(out)
}

struct Cutter {
    selection: Selection,
    containers: Vec<Container>,
    /// From, to; in order, without overlap.
    cuts: Vec<(u64, u64)>,
}

struct Container {
    kind: Kind,
    position: Option<Position>,
    elements: u64,
    child: Child,
    /// Where the last child ended.
    last_end: u64,
    before: Before,
}

/// The member or element being read.
struct Child {
    start: u64,
    name: Vec<u8>,
    position: Option<Position>,
}

/// What stands before the present child in its container.
enum Before {
    Nothing,
    /// Only removed children, from here.
    Removed(u64),
    Kept,
}

impl Cutter {
    /// The position of the innermost child is known: if it stays, what was removed before it goes with its comma.
    fn enter_child(&mut self, position: Option<Position>) {
        let Some(container) = self.containers.last_mut() else { return };
        container.child.position = position;
        if self.selection.is_selected(position) {
            return;
        }
        if let Before::Removed(from) = container.before {
            self.cuts.push((from, container.child.start));
        }
        container.before = Before::Kept;
    }
}

impl Visit for Cutter {
    fn name_start(&mut self, offset: u64) -> Step {
        let object = self.containers.last_mut().expect("a name is in an object");
        object.child.start = offset;
        object.child.name.clear();
        Ok(())
    }

    fn name_text(&mut self, part: &[u8]) -> Step {
        let object = self.containers.last_mut().expect("a name is in an object");
        if object.position.is_some() {
            object.child.name.extend_from_slice(part);
        }
        Ok(())
    }

    fn name_end(&mut self) -> Step {
        let object = self.containers.last().expect("a name is in an object");
        self.enter_child(self.selection.member(object.position, &object.child.name));
        Ok(())
    }

    fn value_start(&mut self, kind: Kind, offset: u64) -> Step {
        let position = match self.containers.last_mut() {
            None => self.selection.root(),
            Some(object) if object.kind == Kind::Object => object.child.position,
            Some(array) => {
                array.child.start = offset;
                let position = self.selection.element(array.position, array.elements);
                array.elements += 1;
                self.enter_child(position);
                position
            }
        };
        if matches!(kind, Kind::Object | Kind::Array) {
            // Inside of what is removed nothing is left to remove.
            let position = position.filter(|_| !self.selection.is_selected(position));
            let child = Child { start: offset, name: Vec::new(), position: None };
            let before = Before::Nothing;
            self.containers.push(Container { kind, position, elements: 0, child, last_end: offset, before });
        }
        Ok(())
    }

    fn value_text(&mut self, _: &[u8]) -> Step {
        Ok(())
    }

    fn value_end(&mut self, kind: Kind, end: u64) -> Step {
        if matches!(kind, Kind::Object | Kind::Array) {
            let container = self.containers.pop().expect("a container is open");
            if let Before::Removed(from) = container.before {
                self.cuts.push((from, container.last_end));
            }
        }
        let Some(parent) = self.containers.last_mut() else { return Ok(()) };
        if self.selection.is_selected(parent.child.position) {
            match parent.before {
                Before::Kept => self.cuts.push((parent.last_end, end)),
                Before::Nothing => parent.before = Before::Removed(parent.child.start),
                Before::Removed(_) => {}
            }
        }
        parent.last_end = end;
        Ok(())
    }
}
