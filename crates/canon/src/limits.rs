//! Every limit of this crate, with its reason. A body beyond a limit is not refused: it is compared byte for byte
//! ([`Compared::Bytes`](crate::Compared::Bytes)). Limits are counted in terms of the body alone (never in allocator
//! or chunk sizes), so each is reached, or not, by the same bodies on every machine. Changing one changes which
//! bodies are equal and therefore needs a new [`CANON_VERSION`](crate::CANON_VERSION).

/// How many arrays and objects may be open at once in one JSON text. Nesting costs no call stack, so the limit only
/// keeps the state of a body small; real documents stay below 100.
pub const DEPTH_MAX: usize = 1024;

/// How many bytes one JSON or form body may hold back while it is hashed: names and short values (long ones are
/// held as their digest) of every object still open, because its members must be sorted before they are hashed;
/// plus [`MEMBER_COST_BYTES`] and [`CONTAINER_COST_BYTES`] for the bookkeeping. Growing buffers may take up to
/// three times this for a moment. Arrays, strings and digits of numbers are not held back, whatever their length.
pub const PENDING_BYTES_MAX: usize = 16 * 1024 * 1024;

/// What one pending member of an object (or one field of a form) counts for, beside its own bytes.
pub const MEMBER_COST_BYTES: usize = 32;

/// What one open array or object counts for, beside its members.
pub const CONTAINER_COST_BYTES: usize = 160;

/// The longest header block of one part of a multipart body, in bytes, its final empty line included. Browsers
/// send some hundred bytes.
pub const PART_HEADER_BYTES_MAX: usize = 16 * 1024;

/// The longest multipart boundary, in bytes (RFC 2046, section 5.1.1).
pub const BOUNDARY_BYTES_MAX: usize = 70;
