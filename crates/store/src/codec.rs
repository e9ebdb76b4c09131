//! The stored forms: versioned bytes, written and read by hand.
//!
//! Every form begins with the number of its version and is read for ever; a change of a form is a new version and
//! new fixtures beside the old ones. Reading is strict: a form that is cut, has bytes left over or says something
//! impossible is an error, never a panic and never a guess. Nothing here is sealed; that is [`Sealer`](crate::Sealer)'s
//! part.

mod bytes;
mod kept;
mod message;
mod scope;
mod texts;

pub use kept::{decode_kept, encode_kept, kept_length};
pub use message::{decode_message, encode_message, message_length};
pub use scope::{decode_scope, encode_scope};
pub use texts::{decode_texts, encode_texts};

/// Why stored bytes cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    /// They end too early.
    #[error("the stored form is cut")]
    Cut,
    /// Bytes are left over.
    #[error("the stored form has bytes left over")]
    LeftOver,
    /// They were written by a later release.
    #[error("the stored form has version {0}, which this release does not know")]
    Version(u8),
    /// They say what no release has written.
    #[error("the stored form says something impossible: {0}")]
    Impossible(&'static str),
}
