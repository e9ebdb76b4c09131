//! The digest of one body as it streams. The bytes are always hashed as they are too, since only the end of a body
//! tells whether it is what its kind says. Nothing is read back, and no chunk is kept.

use sha2::{Digest, Sha256};

use crate::encode::domain;
use crate::form::FormBody;
use crate::json::JsonBody;
use crate::limits::PENDING_BYTES_MAX;
use crate::multipart::MultipartBody;
use crate::select::Selection;
use crate::{BodyKind, Pointer};

/// Hashes one body, chunk by chunk; how it is cut makes no difference.
#[derive(Debug)]
pub struct BodyHasher {
    raw: Sha256,
    reader: Reader,
}

/// What the body is read as, as long as it is that.
#[derive(Debug)]
enum Reader {
    Json(Box<JsonBody>),
    Form(Box<FormBody>),
    Multipart(Box<MultipartBody>),
    Bytes,
}

/// What two bodies are compared by: they are the same request if and only if form and digest are equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BodyDigest {
    /// What was really compared.
    pub form: Compared,
    /// SHA-256, different for each form and each [`CANON_VERSION`](crate::CANON_VERSION).
    pub digest: [u8; 32],
}

/// What of a body was really compared: the kind asked for, or the bytes where the body is not of that kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Compared {
    /// The JSON value.
    Json,
    /// The fields of a form.
    Form,
    /// The parts of a multipart body.
    Multipart,
    /// The bytes; nothing was ignored.
    Bytes,
}

impl BodyHasher {
    /// Begins a body. What stands at the `ignore` pointers is left out as if it were absent: a member or element of
    /// JSON; all fields of a form, or parts of a multipart body, that a pointer of one token names. Indexes are those
    /// of the body as it comes. The empty pointer, and any pointer for [`BodyKind::Bytes`], ignores nothing.
    pub fn new(kind: BodyKind, ignore: &[Pointer]) -> Self {
        let ignore = Selection::new(ignore);
        let reader = match kind {
            BodyKind::Json => Reader::Json(Box::new(JsonBody::new(ignore, PENDING_BYTES_MAX))),
            BodyKind::Form => Reader::Form(Box::new(FormBody::new(ignore, PENDING_BYTES_MAX))),
            BodyKind::Multipart { boundary } => match MultipartBody::new(&boundary, ignore) {
                Some(body) => Reader::Multipart(Box::new(body)),
                None => Reader::Bytes,
            },
            BodyKind::Bytes => Reader::Bytes,
        };
        Self { raw: domain("bytes"), reader }
    }

    /// Takes the next bytes of the body.
    pub fn update(&mut self, bytes: &[u8]) {
        self.raw.update(bytes);
        let is_of_kind = match &mut self.reader {
            Reader::Json(body) => body.update(bytes).is_ok(),
            Reader::Form(body) => body.update(bytes).is_ok(),
            Reader::Multipart(body) => body.update(bytes).is_ok(),
            Reader::Bytes => true,
        };
        if !is_of_kind {
            self.reader = Reader::Bytes;
        }
    }

    /// Says that the body is complete.
    pub fn finish(self) -> BodyDigest {
        let read = match self.reader {
            Reader::Json(body) => body.finish().ok().map(|digest| (Compared::Json, digest)),
            Reader::Form(body) => body.finish().ok().map(|digest| (Compared::Form, digest)),
            Reader::Multipart(body) => body.finish().ok().map(|digest| (Compared::Multipart, digest)),
            Reader::Bytes => None,
        };
        let (form, digest) = read.unwrap_or_else(|| (Compared::Bytes, self.raw.finalize().into()));
        BodyDigest { form, digest }
    }
}
