//! A set of pointers as a tree, so that a visitor finds out with one step for each member whether it is selected,
//! however many pointers there are. A position is a node of that tree; no position means that nothing below can be
//! selected. The empty pointer selects nothing.

use std::collections::BTreeMap;

use crate::Pointer;

/// A place in the tree of selected pointers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Position(usize);

/// The pointers, merged.
#[derive(Debug, Default)]
pub(crate) struct Selection {
    nodes: Vec<Node>,
}

#[derive(Debug, Default)]
struct Node {
    children: BTreeMap<Box<[u8]>, Position>,
    selected: bool,
}

impl Selection {
    pub(crate) fn new(pointers: &[Pointer]) -> Self {
        let mut selection = Self::default();
        for pointer in pointers.iter().filter(|pointer| !pointer.tokens().is_empty()) {
            selection.add(pointer);
        }
        selection
    }

    fn add(&mut self, pointer: &Pointer) {
        if self.nodes.is_empty() {
            self.nodes.push(Node::default());
        }
        let mut at = 0;
        for token in pointer.tokens() {
            let next = Position(self.nodes.len());
            let Position(child) = *self.nodes[at].children.entry(token.as_bytes().into()).or_insert(next);
            if child == next.0 {
                self.nodes.push(Node::default());
            }
            at = child;
        }
        self.nodes[at].selected = true;
    }

    /// The position of a whole document; none if nothing is selected at all.
    pub(crate) fn root(&self) -> Option<Position> {
        (!self.nodes.is_empty()).then_some(Position(0))
    }

    /// The position of the member `name` of the object at `parent`.
    pub(crate) fn member(&self, parent: Option<Position>, name: &[u8]) -> Option<Position> {
        self.nodes[parent?.0].children.get(name).copied()
    }

    /// The position of an element of the array at `parent`. An index is written without leading zeros (RFC 6901,
    /// section 4), and `-` names no element.
    pub(crate) fn element(&self, parent: Option<Position>, index: u64) -> Option<Position> {
        self.member(Some(parent?), index.to_string().as_bytes())
    }

    pub(crate) fn is_selected(&self, position: Option<Position>) -> bool {
        position.is_some_and(|Position(at)| self.nodes[at].selected)
    }

    /// Whether a field or part of this name is selected.
    pub(crate) fn selects_name(&self, name: &[u8]) -> bool {
        self.is_selected(self.member(self.root(), name))
    }
}
