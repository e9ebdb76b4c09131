//! Webhooks: whether a delivery is the sender's, what it says of itself, and how one's own are signed.
//!
//! *Promises.* What is signed is the body as it came, byte for byte. Every secret of a source is accepted, so that
//! secrets can change, and signatures are compared in constant time. [`Source::read`] gives an id only of a delivery
//! whose signature is good, so a forged one notes nothing. Two deliveries under one id are one message where their
//! [`Content`] is the same. No error holds a secret, a signature or a part of a body.
//!
//! This crate does no I/O and knows no clock: the time is a parameter, in seconds of Unix time.

mod delivery;
mod refusal;
mod scheme;
mod secret;
mod sign;
mod verify;

pub use delivery::{Delivery, Place, Source};
pub use onefold_canon::{Pointer, PointerError};
pub use refusal::Refusal;
pub use scheme::{Encoding, HmacRule, KeyForm, Scheme};
pub use secret::{NotASecret, Secret};
pub use sign::{SignError, Signed, sign};
pub use verify::{Content, Verifier};
