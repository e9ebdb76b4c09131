//! Canonical digests of request bodies: JSON, form, multipart, bytes.
