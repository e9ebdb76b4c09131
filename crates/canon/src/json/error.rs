//! Why a text has no canonical form. Offsets are in bytes from the beginning of the body; no variant holds text of
//! the body, so an error can be logged.

/// Why a JSON text has no canonical form; such a body is compared as bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotCanonical {
    /// The grammar of RFC 8259 does not allow the byte here.
    #[error("invalid JSON at byte {offset}")]
    Syntax {
        /// Where the byte is.
        offset: u64,
    },
    /// The text ends before the value does; an empty text too.
    #[error("the JSON text ends too early")]
    Incomplete,
    /// A byte inside a string is not UTF-8.
    #[error("invalid UTF-8 in a JSON string at byte {offset}")]
    Utf8 {
        /// Where the byte is.
        offset: u64,
    },
    /// An escape names one half of a surrogate pair (RFC 8259, section 8.2: unpredictable).
    #[error("a lone surrogate in a JSON string, before byte {offset}")]
    LoneSurrogate {
        /// Just after the half.
        offset: u64,
    },
    /// Two members of one object have the same name once unescaped (RFC 8259, section 4: unpredictable).
    #[error("two members of one JSON object have the same name")]
    DuplicateName,
    /// More than [`DEPTH_MAX`](crate::limits::DEPTH_MAX) arrays and objects are open at once.
    #[error("JSON nested deeper than {} levels, at byte {offset}", crate::limits::DEPTH_MAX)]
    TooDeep {
        /// Where the first array or object too many begins.
        offset: u64,
    },
    /// More than [`PENDING_BYTES_MAX`](crate::limits::PENDING_BYTES_MAX) bytes must be held back. Only a body that is
    /// hashed as it streams can meet this.
    #[error("a JSON body whose open objects need more than {} bytes", crate::limits::PENDING_BYTES_MAX)]
    TooLarge,
}
