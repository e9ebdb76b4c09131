//! **bfstore**: a whole checkout as real services, the reference application of Onefold.
//!
//! A storefront, an order service, inventory, payment, notification and loyalty, each a process with a database of its
//! own; a payment provider and a mail server that do things wrong when they are told to; and a story that plays what goes
//! wrong in the field and compares every database, and the outside world, with what should have come of it. To protect a
//! service of your own, read one of [`services`]; `docs/bfstore.md` says where each protection is.

pub mod brokers;
pub mod check;
pub mod contracts;
pub mod events;
pub mod ground;
pub mod ledgers;
pub mod matrix;
pub mod outside;
pub mod parent;
pub mod rpc;
pub mod safeguard;
pub mod service;
pub mod services;
pub mod stage;
pub mod story;
pub mod unprotected;

/// The environment variable with the secrets of those who sign events, as a JSON object. Not an argument: those are seen by
/// every process.
pub const SECRETS_VARIABLE: &str = "BFSTORE_SECRETS";
