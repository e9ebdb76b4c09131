//! The pure heart of Onefold: what an operation is, which states it has, and what an attempt may do next.
//!
//! *Invariants.* Nothing here waits, reads a clock, opens a file or knows a database. Time comes in as a
//! [`StoreTime`] that a store read from its own clock; randomness comes in as an argument. Nothing here fails
//! except by a typed refusal. Every store and every surface asks the one function [`decide`]; none of them
//! decides for itself.
//!
//! The words are those of `docs/semantics.md`; each module names the section it follows.

mod act;
pub mod budget;
pub mod contract;
mod decide;
mod digest;
pub mod downstream;
mod fingerprint;
mod hex;
mod identity;
mod inbox;
pub mod key;
mod origin;
mod outbox;
mod outcome;
pub mod path;
mod printable;
pub mod problem;
pub mod reconcile;
mod record;
pub mod retry;
mod scope;
mod state;
mod time;

pub use act::{Act, ActKind};
pub use contract::Contract;
pub use decide::{Decision, Expiry, Request, decide};
pub use fingerprint::{Fingerprint, FingerprintBuilder, FingerprintVersion};
pub use hex::{from_hex, to_hex};
pub use identity::{Identity, IdentityKey, OperationId};
pub use inbox::{
    Delivery, InboxEntry, InboxState, MessageIdentity, NotAnInboxState, Permit, Revoked, judge_delivery,
    round_is_for,
};
pub use key::{Key, KeyError};
pub use origin::{CAUSATION_ID, CORRELATION_ID, Origin, TRACEPARENT, header_id, traceparent};
pub use outbox::{Message, NotAnOutboxState, OutboxEntry, OutboxState, effect_message_id, outgoing_id};
pub use outcome::Outcome;
pub use printable::printable;
pub use problem::Problem;
pub use record::{
    Answer, Counters, Event, EventKind, Kept, Lease, NotKept, Reconciliation, Record, Resource, TypedValue,
};
pub use scope::{Scope, ScopePart};
pub use state::{Answers, MayBegin, NewIdentity, State};
pub use time::StoreTime;
