//! Messages: handled once on their way in, sent under one id on their way out.
//!
//! *In.* A consumer's adapter hands every delivery to a [`Receive`] and settles it with the broker as that says, never
//! before: the effect and its mark are committed then. [`Consumer`] is the one over an inbox; an [`Intake`] takes
//! webhooks in, whose effect is that they go on. *Out.* A relay takes messages from the outbox and gives each to the
//! [`Sink`] of its destination. A broker's crate is one or both of these and knows nothing of stores.

mod acts;
mod aside;
mod inbox;
pub mod intake;
pub mod lanes;
pub mod limits;
mod look_up;
pub mod mail;
mod receive;
mod relay;
mod sink;
mod tally;
pub mod wire;

pub use acts::{
    ActError, ActOnIncoming, ActOnOutgoing, Acted, HandleAgain, MessageStore, Messages, ShownIncoming,
    ShownOutgoing, Which, WhichIncoming,
};
pub use inbox::{
    Consumer, Handled, HandlerError, Handling, Inbox, InboxSettings, Incoming, Rerun, WithoutId, Word,
};
pub use intake::{Admitted, Arrival, Intake};
pub use lanes::{Delivery, Lanes, Order};
pub use look_up::{Found, LookUp};
pub use onefold_core::Message;
pub use onefold_store::IfLost;
pub use receive::{Inbound, Receive, Settle, Told};
pub use relay::{Destination, Relay};
pub use sink::{Sending, Sink};
