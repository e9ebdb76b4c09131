//! What a case needs of a database: the boundary over it, a business in it, and its whole content as text.
//!
//! The business has no unique constraint and counts down a stock, so a second effect shows in the content. Between its
//! statements stand crash points like the store's own.

use std::future::Future;
use std::path::Path;
use std::time::Duration;

use onefold::inbox::{Handling, Inbound, InboxSettings};
use onefold::messages::{Message, OutboxStore};
use onefold::{Call, CallError, Done, Key, Onefold, Operation, Scope, StepStore};
use onefold_store::ConsumeStore;

use crate::frozen;

/// How the work of a call ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Business {
    Succeeds,
    /// The same, and two messages are to leave.
    Sends,
    Rejects,
    /// Nothing happened, and it knows.
    NotDone,
    /// It happened, and the answer was lost.
    LosesAnswer,
    /// It succeeds, but not before the lease was renewed.
    OutlivesALease,
}

/// What the caller of a call gets.
pub type Answer = Result<Done<i64>, CallError>;

/// One database with the tables of a service.
pub trait Base: Send + Sync + Sized + 'static {
    type Store: ConsumeStore + OutboxStore + StepStore + 'static;

    /// As in the names of its crash points, and of the crate that has them.
    const NAME: &'static str;
    /// Passed by a renewal, and by nothing before it.
    const RENEWED: &'static str;

    /// A new one; `None` after saying that it is skipped.
    fn create(folder: &Path) -> impl Future<Output = Option<Self>> + Send;

    /// Another one with the same content.
    fn copy(&self, folder: &Path) -> impl Future<Output = Self> + Send;

    /// How a child is told where it is.
    fn address(&self) -> String;

    /// The one that a child was told of.
    fn at(address: &str) -> Self;

    fn open(&self) -> impl Future<Output = Onefold<Self::Store>> + Send;

    /// One that counts no live keys.
    fn uncounted(&self) -> impl Future<Output = Onefold<Self::Store>> + Send;

    /// Places an order in a closure.
    fn atomic(
        onefold: &Onefold<Self::Store>,
        call: Call,
        business: Business,
    ) -> impl Future<Output = Answer> + Send;

    /// Registers what places an order in the commit that settles this operation; a rejection places none.
    fn accompany(onefold: &Onefold<Self::Store>, operation: &Operation) -> impl Future<Output = ()> + Send;

    /// Places an order in a transaction of the caller's own.
    fn borrowed(&self, onefold: &Onefold<Self::Store>, call: Call) -> impl Future<Output = Answer> + Send;

    /// Handles a delivery: the handler places an order, and sends.
    fn consume(
        onefold: &Onefold<Self::Store>,
        inbound: Inbound,
        business: Business,
    ) -> impl Future<Output = Handling> + Send;

    /// Every row of every table, without what may differ between two ways to the same end: times, and who made it in
    /// which attempt; and without a kept result, which calls are asked for. Sorted.
    fn content(&self) -> impl Future<Output = Vec<String>> + Send;
}

/// The one call of every case. Its lease is short where somebody has to wait for its end.
pub fn call(lease: Duration) -> Call {
    let operation = Operation::new("PlaceOrder", "one order for each checkout").lease(lease);
    operation.call(Scope::new([("customer", "17")]), "checkout-7f82", "lamp").unwrap()
}

/// The consumer of every case: a message is parked when it has failed once.
pub fn consumer() -> InboxSettings {
    InboxSettings { park_after: Some(1), ..InboxSettings::new("orders") }
}

/// What leaves with a business that sends: two messages of one key.
pub fn mails() -> [Message; 2] {
    ["mail-1", "mail-2"].map(|id| Message {
        id: Key::new(id).unwrap(),
        destination: MAIL.into(),
        address: "ann@example.org".into(),
        ordering_key: Some("order 1".into()),
        headers: Vec::new(),
        body: id.into(),
    })
}

/// The one destination.
pub const MAIL: &str = "mail";

/// Dies here, or is frozen, if it is told to.
pub fn at(point: &'static str) {
    frozen::at(point);
    onefold_store::crash::point(point);
}
