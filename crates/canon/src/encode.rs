//! The encoding that digests are made of, and the buffer where it waits.
//!
//! Every value is encoded as one self-delimiting item, so that concatenation is unambiguous:
//!
//! * a literal is its tag, one byte;
//! * a value whose content has at most [`INLINE_BYTES_MAX`] bytes is `tag, length (one byte), content`;
//! * a longer one is `tag | 0x80, SHA-256(domain "value", tag, content)`, 32 bytes.
//!
//! The content of a string is its text, of a number see `json::number`, of an array the items of its elements, of
//! an object or form its members in order, each `length of name, name, item`. Which of the two forms a value takes
//! depends only on the value, hence equal values have equal items, and different values different ones (as far as
//! SHA-256 has no collisions). Items wait in one buffer that serves as a stack; whatever grows beyond
//! [`SPILL_BYTES`] without need for sorting moves on into a hasher. Nothing here is public: a change of the
//! encoding is a new `CANON_VERSION`.

use sha2::{Digest, Sha256};
use std::cmp::Ordering;

use crate::CANON_VERSION;

/// The longest content that stands in its parent as it is. It must fit the one byte of its length.
const INLINE_BYTES_MAX: usize = 254;
/// How much content waits before it is fed to a hasher. Only speed depends on it, no digest does.
const SPILL_BYTES: usize = 4096;
/// What is reserved at once, so that buffers need not grow for a usual body.
const SMALL_BODY_BYTES: usize = 512;
const _: () = assert!(INLINE_BYTES_MAX < SPILL_BYTES && INLINE_BYTES_MAX <= u8::MAX as usize);

/// What an item is. The numbers are part of the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Tag {
    Null = 1,
    False = 2,
    True = 3,
    String = 4,
    Number = 5,
    Array = 6,
    Object = 7,
    /// The value of a form field.
    Field = 8,
    /// A form field without `=`, which has no value.
    NoValue = 9,
    /// All fields of a form.
    Form = 10,
}

/// A hasher that has been told the crate, the version and what it is going to hash.
pub(crate) fn domain(label: &str) -> Sha256 {
    let mut hasher = Sha256::new();
    hasher.update(b"onefold-canon");
    hasher.update(CANON_VERSION.to_be_bytes());
    hasher.update([u8::try_from(label.len()).expect("labels are short")]);
    hasher.update(label);
    hasher
}

/// Writes the length of something whose bytes follow: one byte below 255, else 255 and eight bytes.
pub(crate) fn put_length(out: &mut Vec<u8>, length: usize) {
    match u8::try_from(length) {
        Ok(short) if short < u8::MAX => out.push(short),
        _ => {
            out.push(u8::MAX);
            out.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
}

/// A value whose content is being written.
#[derive(Debug)]
pub(crate) struct Open {
    start: usize,
    hasher: Option<Box<Sha256>>,
}

impl Open {
    /// Where the value's item begins in the buffer.
    pub(crate) fn start(&self) -> usize {
        self.start
    }

    fn content(&self) -> usize {
        self.start + ITEM_HEAD
    }
}

/// Tag and length, reserved in front of content that may turn out to be short.
const ITEM_HEAD: usize = 2;

/// A finished member (of an object or form) that waits to be sorted: its name and item stand in the buffer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Member {
    pub(crate) start: usize,
    pub(crate) name_end: usize,
    pub(crate) end: usize,
    pub(crate) fate: Fate,
}

/// Whether a member becomes part of the digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Kept,
    Ignored,
}

/// Two members of one object have the same name.
pub(crate) struct Duplicate;

/// The items that wait.
#[derive(Debug)]
pub(crate) struct Pending {
    bytes: Vec<u8>,
    scratch: Vec<u8>,
}

impl Pending {
    pub(crate) fn new() -> Self {
        Self { bytes: Vec::with_capacity(SMALL_BODY_BYTES), scratch: Vec::with_capacity(SMALL_BODY_BYTES) }
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn extend(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    pub(crate) fn truncate(&mut self, length: usize) {
        self.bytes.truncate(length);
    }

    /// The item of a value that has no content.
    pub(crate) fn put_literal(&mut self, tag: Tag) {
        self.bytes.push(tag as u8);
    }

    pub(crate) fn open(&mut self) -> Open {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[0; ITEM_HEAD]);
        Open { start, hasher: None }
    }

    /// Adds content to the innermost open value.
    pub(crate) fn push(&mut self, open: &mut Open, tag: Tag, part: &[u8]) {
        if self.bytes.len() - open.content() + part.len() <= SPILL_BYTES {
            self.bytes.extend_from_slice(part);
        } else {
            self.spill(open, tag).update(part);
        }
    }

    /// Moves the content on when enough of it has gathered; for content that was written item by item.
    pub(crate) fn settle(&mut self, open: &mut Open, tag: Tag) {
        if self.bytes.len() - open.content() > SPILL_BYTES {
            self.spill(open, tag);
        }
    }

    fn spill<'a>(&mut self, open: &'a mut Open, tag: Tag) -> &'a mut Sha256 {
        let content = open.content();
        let hasher = open.hasher.get_or_insert_with(|| Box::new(value_hasher(tag)));
        hasher.update(&self.bytes[content..]);
        self.bytes.truncate(content);
        hasher
    }

    /// Ends the innermost open value: its content is replaced by its item.
    pub(crate) fn seal(&mut self, mut open: Open, tag: Tag) {
        let length = self.bytes.len() - open.content();
        if open.hasher.is_none() && length <= INLINE_BYTES_MAX {
            self.bytes[open.start] = tag as u8;
            self.bytes[open.start + 1] = length as u8;
            return;
        }
        self.spill(&mut open, tag);
        let hasher = open.hasher.expect("spill made it");
        self.seal_long(open.start, tag, *hasher);
    }

    fn seal_long(&mut self, start: usize, tag: Tag, hasher: Sha256) {
        self.bytes.truncate(start);
        self.bytes.push(tag as u8 | 0x80);
        self.bytes.extend_from_slice(&hasher.finalize());
    }

    /// Ends an object: its members are sorted by `order` of their names, those with equal names are refused.
    pub(crate) fn seal_unique(
        &mut self,
        open: Open,
        tag: Tag,
        members: &mut [Member],
        order: fn(&[u8], &[u8]) -> Ordering,
    ) -> Result<(), Duplicate> {
        let bytes = &self.bytes;
        let name = |member: &Member| &bytes[member.start..member.name_end];
        if !members.is_sorted_by(|one, other| order(name(one), name(other)).is_lt()) {
            members.sort_unstable_by(|one, other| order(name(one), name(other)));
            if members.windows(2).any(|pair| name(&pair[0]) == name(&pair[1])) {
                return Err(Duplicate);
            }
        }
        self.seal_members(open, tag, members);
        Ok(())
    }

    /// Ends a form: members are sorted by the bytes of their names, those with equal names keep their order.
    pub(crate) fn seal_repeatable(&mut self, open: Open, tag: Tag, members: &mut [Member]) {
        let bytes = &self.bytes;
        members.sort_by(|one, other| bytes[one.start..one.name_end].cmp(&bytes[other.start..other.name_end]));
        self.seal_members(open, tag, members);
    }

    fn seal_members(&mut self, open: Open, tag: Tag, members: &[Member]) {
        let mut hasher: Option<Sha256> = None;
        self.scratch.clear();
        for member in members.iter().filter(|member| member.fate == Fate::Kept) {
            put_length(&mut self.scratch, member.name_end - member.start);
            self.scratch.extend_from_slice(&self.bytes[member.start..member.end]);
            if self.scratch.len() > SPILL_BYTES {
                hasher.get_or_insert_with(|| value_hasher(tag)).update(&self.scratch);
                self.scratch.clear();
            }
        }
        self.bytes.truncate(open.content());
        let pending = &self.scratch;
        match hasher {
            None if pending.len() <= INLINE_BYTES_MAX => {
                self.bytes[open.start] = tag as u8;
                self.bytes[open.start + 1] = pending.len() as u8;
                self.bytes.extend_from_slice(pending);
            }
            hasher => {
                let mut hasher = hasher.unwrap_or_else(|| value_hasher(tag));
                hasher.update(pending);
                self.seal_long(open.start, tag, hasher);
            }
        }
    }
}

fn value_hasher(tag: Tag) -> Sha256 {
    let mut hasher = domain("value");
    hasher.update([tag as u8]);
    hasher
}
