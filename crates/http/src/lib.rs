//! Idempotency over HTTP (SEMANTICS 7 and 8): where the key is, what the fingerprint is made of, what of an answer
//! is kept and how it is given again, and the problem documents.
//!
//! *Invariants.* Everything here is a function of a request or an answer; nothing waits, nothing is stored. The
//! gateway and the layers for services use the same functions, so that they agree.

pub mod answers;
pub mod capture;
mod fields;
mod fingerprint;
mod keys;
pub mod message_view;
mod problem;
mod scope;
mod token;
pub mod view;

pub use fields::{clean_trailers, is_hop_by_hop, strip_hop_by_hop, strip_hop_by_hop_except};
pub use fingerprint::{RequestHead, body_kind, fingerprint};
pub use keys::{body_key, header_key};
pub use problem::ProblemDocument;
pub use scope::{CLAIM_BYTES_MAX, Missing, Trust, carries_expiring_token, scope};
pub use token::{Claims, Disbelieved, KeyRefused, LEEWAY_SECONDS, TokenKey, TokenRule};

use http::HeaderName;

/// `Idempotent-Replayed: true`, on replays only.
pub const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");
/// `Onefold-Operation: /operations/{id}`, on every protected answer.
pub const OPERATION: HeaderName = HeaderName::from_static("onefold-operation");
