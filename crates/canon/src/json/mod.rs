//! JSON (RFC 8259) as this crate compares it: RFC 8785 order and escapes, numbers as exact decimals of any size.
//!
//! One push parser (`parse`) stands below everything: the digest of a streaming body, and the three functions here,
//! which take a whole text. It accepts exactly the grammar of RFC 8259 in UTF-8 without a byte order mark, minus
//! lone surrogates (they have no UTF-8) and nesting beyond [`DEPTH_MAX`](crate::limits::DEPTH_MAX). Nothing here
//! recurses. Time is linear in the text, times the logarithm of the members of an object where they are sorted.

mod at;
mod digest;
mod edit;
mod error;
mod layout;
mod number;
mod number_grammar;
mod order;
mod parse;
mod string;
mod text;

pub use at::{Found, at};
pub(crate) use digest::JsonBody;
pub use edit::without;
pub use error::NotCanonical;
pub use text::canonical_text;
