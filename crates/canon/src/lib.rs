//! Canonical digests of request bodies: JSON, form, multipart, bytes.
//!
//! Two attempts at one operation need not be the same bytes: another serializer lists the members in another
//! order, another client library picks another multipart boundary. This crate says when two bodies are *the
//! same request*, as a digest of 32 bytes, while the body streams past. What it promises:
//!
//! * **Equal only if equal in meaning.** Where a rule would have to guess, the bodies are different. A wrong
//!   "different" is refused in the open; a wrong "equal" answers one request with another's response.
//! * **A pure function.** The digest depends on the bytes of the body, the kind and the ignored pointers, never on
//!   how the body was cut into chunks, on time, or on the machine.
//! * **Bounded memory.** Nothing recurses, and [`limits`] bounds what is held; a body beyond them is compared byte
//!   for byte.
//! * **No body in an error.** Errors carry offsets and never text.
//!
//! It does not know HTTP, does no I/O, has no key (the HMAC over the digest is the caller's) and does not decode
//! `Content-Encoding`. The rules are those of SEMANTICS, section 7.
//!
//! | kind | does not count | counts |
//! | --- | --- | --- |
//! | [`BodyKind::Json`] | member order, white space, escapes, notation of numbers (`1`, `1.0`, `1e0`; `-0`) | array order, `null` against absent, types, every digit of a number |
//! | [`BodyKind::Form`] | order across different names, `+` against `%20`, empty fields (`a=1&&b=2`) | order of repeated names, `a` against `a=` |
//! | [`BodyKind::Multipart`] | boundary, preamble, epilogue, other part headers | order, names, file names, types, transfer encodings and contents of the parts |
//! | [`BodyKind::Bytes`] | nothing | every byte |
//!
//! A body that is not what its kind says (invalid JSON, duplicate member names, a bad percent escape, no final
//! boundary, a limit passed) is compared as [`Compared::Bytes`], and then nothing is ignored. An empty body is no
//! JSON and no multipart, so it is compared as bytes there; as a form it is the form without fields.

mod encode;
mod form;
mod hasher;
pub mod json;
mod kind;
pub mod limits;
mod media;
mod multipart;
mod pointer;
mod select;

pub use hasher::{BodyDigest, BodyHasher, Compared};
pub use kind::BodyKind;
pub use pointer::{Pointer, PointerError};

/// The version of the rules in this crate; it is hashed into every digest, so that digests of two versions never
/// agree by accident. It changes whenever a rule or a limit does.
pub const CANON_VERSION: u16 = 1;
