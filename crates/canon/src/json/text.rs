//! The canonical text of a JSON text: RFC 8785 order and escapes, numbers as exact decimals (see `layout`). For
//! reading and for tests; digests are not made of it. The whole text and a tree of it are in memory, about its length
//! plus some hundred bytes for each value; the tree is walked with an explicit stack.

use std::ops::Range;

use super::NotCanonical;
use super::layout::put_number;
use super::number::Decimal;
use super::order;
use super::parse::{Kind, Step, Visit, parse};

/// The canonical text of a JSON text.
///
/// Two texts have the same canonical text exactly if they have the same digest (as long as none of the
/// [limits](crate::limits) applies). Where every number is one that an IEEE 754 double holds exactly in its
/// shortest digits, it is the text of RFC 8785.
///
/// # Errors
///
/// The text is not valid JSON, or has no canonical form; never [`NotCanonical::TooLarge`].
pub fn canonical_text(input: &[u8]) -> Result<Vec<u8>, NotCanonical> {
    let mut tree = Tree::default();
    parse(input, &mut tree)?;
    Ok(tree.write())
}

/// One value. Its name and, of a scalar, its text are in the tree's buffer; its children among the tree's links.
#[derive(Debug, Clone)]
struct Node {
    kind: Kind,
    name: Range<usize>,
    text: Range<usize>,
    children: Range<usize>,
}

#[derive(Debug, Default)]
struct Tree {
    buffer: Vec<u8>,
    nodes: Vec<Node>,
    links: Vec<usize>,
    /// Finished children of open containers.
    waiting: Vec<usize>,
    /// Open containers: node, and where its children begin in `waiting`.
    open: Vec<(usize, usize)>,
    name: Range<usize>,
    decimal: Decimal,
}

impl Visit for Tree {
    fn name_start(&mut self, _: u64) -> Step {
        self.name = self.buffer.len()..self.buffer.len();
        Ok(())
    }

    fn name_text(&mut self, part: &[u8]) -> Step {
        self.buffer.extend_from_slice(part);
        Ok(())
    }

    fn name_end(&mut self) -> Step {
        self.name.end = self.buffer.len();
        Ok(())
    }

    fn value_start(&mut self, kind: Kind, _: u64) -> Step {
        let start = self.buffer.len();
        let name = std::mem::take(&mut self.name);
        match kind {
            Kind::Object | Kind::Array => self.open.push((self.nodes.len(), self.waiting.len())),
            _ => self.waiting.push(self.nodes.len()),
        }
        self.nodes.push(Node { kind, name, text: start..start, children: 0..0 });
        self.decimal.clear();
        Ok(())
    }

    fn value_text(&mut self, part: &[u8]) -> Step {
        let buffer = &mut self.buffer;
        match self.nodes.last().map(|node| node.kind) {
            Some(Kind::Number) => self.decimal.push(part, |digits| buffer.extend_from_slice(digits)),
            _ => buffer.extend_from_slice(part),
        }
        Ok(())
    }

    fn value_end(&mut self, kind: Kind, _: u64) -> Step {
        if matches!(kind, Kind::Object | Kind::Array) {
            return self.close(kind);
        }
        let node = self.nodes.last_mut().expect("the value began");
        if kind == Kind::Number {
            let digits = self.buffer.split_off(node.text.start);
            put_number(&mut self.buffer, &digits, self.decimal.finish());
        }
        node.text.end = self.buffer.len();
        Ok(())
    }
}

impl Tree {
    fn close(&mut self, kind: Kind) -> Step {
        let (node, first) = self.open.pop().expect("a container is open");
        let children = &mut self.waiting[first..];
        if kind == Kind::Object {
            let name = |child: &usize| &self.buffer[self.nodes[*child].name.clone()];
            children.sort_unstable_by(|one, other| order::utf16(name(one), name(other)));
            if children.windows(2).any(|pair| name(&pair[0]) == name(&pair[1])) {
                return Err(NotCanonical::DuplicateName);
            }
        }
        let from = self.links.len();
        self.links.extend_from_slice(children);
        self.nodes[node].children = from..self.links.len();
        self.waiting.truncate(first);
        self.waiting.push(node);
        Ok(())
    }

    fn write(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.buffer.len());
        let mut open: Vec<Level> = Vec::new();
        let mut next = self.waiting.first().copied();
        while let Some(node) = next {
            let Node { kind, text, children, .. } = &self.nodes[node];
            let text = &self.buffer[text.clone()];
            match kind {
                Kind::Object => out.push(b'{'),
                Kind::Array => out.push(b'['),
                Kind::String => put_string(&mut out, text),
                Kind::Number => out.extend_from_slice(text),
                Kind::True => out.extend_from_slice(b"true"),
                Kind::False => out.extend_from_slice(b"false"),
                Kind::Null => out.extend_from_slice(b"null"),
            }
            if matches!(kind, Kind::Object | Kind::Array) {
                open.push(Level { kind: *kind, first: children.start, left: children.clone() });
            }
            next = self.lead_to_next(&mut open, &mut out);
        }
        out
    }

    /// Writes what stands before the next value: the ends of containers, a comma, a name.
    fn lead_to_next(&self, open: &mut Vec<Level>, out: &mut Vec<u8>) -> Option<usize> {
        loop {
            let level = open.last_mut()?;
            let Some(link) = level.left.next() else {
                out.push(if level.kind == Kind::Object { b'}' } else { b']' });
                open.pop();
                continue;
            };
            if link != level.first {
                out.push(b',');
            }
            let child = self.links[link];
            if level.kind == Kind::Object {
                put_string(out, &self.buffer[self.nodes[child].name.clone()]);
                out.push(b':');
            }
            return Some(child);
        }
    }
}

/// A container being written: its links that are left.
struct Level {
    kind: Kind,
    first: usize,
    left: Range<usize>,
}

/// RFC 8785, section 3.2.2.2: only what must be escaped is, and with the shortest escape.
fn put_string(out: &mut Vec<u8>, text: &[u8]) {
    out.push(b'"');
    for byte in text {
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\x08' => out.extend_from_slice(b"\\b"),
            b'\x0C' => out.extend_from_slice(b"\\f"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0x00..0x20 => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
            _ => out.push(*byte),
        }
    }
    out.push(b'"');
}
