//! Webhooks: a destination of the relay that needs no broker ([`HttpSink`]).
//!
//! *Promises.* A message is one signed POST ([Standard Webhooks](https://www.standardwebhooks.com) 1.0) whose
//! `webhook-id` is the message's id in every sending, so a receiver that keeps ids takes it once. It counts as accepted
//! when the endpoint says 2xx, and nothing less. Every sending is the relay's to count: nothing is repeated here and no
//! redirect is followed. No reason holds a body, a secret or the URL.
//!
//! *Not.* Whether the receiver keeps ids cannot be seen from here. Where it does not, say so with
//! [`HttpSink::lost_answers`]. More in `docs/brokers.md`.

mod clock;
mod meaning;
mod request;
mod sink;

pub use onefold_webhooks::{KeyForm, NotASecret, Secret};
pub use sink::{HttpSink, SetupError};
