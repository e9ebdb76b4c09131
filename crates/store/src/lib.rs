//! The store port of Onefold: what a database must offer so that operations can be performed over it.
//!
//! *Invariants.* A store never decides. It reads records with the time and the lease as its own clock judges them,
//! and it carries out transitions that name the state and the attempt they start from; a transition that finds
//! another state or attempt changes nothing and says so. What it has acknowledged is durable.
//!
//! Beside the port stands what every store needs and none should have of its own: the stored forms ([`codec`]),
//! their sealing ([`Sealer`]), the one place that reads a clock ([`SystemClock`]) and the judgement of time and
//! leases ([`Judge`]).

mod agreement;
mod atomic;
pub mod clock;
pub mod codec;
mod companion;
pub mod crash;
mod hint;
mod inbox;
mod inspection;
mod judge;
mod outbox;
mod port;
mod projection;
mod seal;
mod steps;
mod timeline;

pub use agreement::{clock_beside_the_hosts, clock_of_the_host};
pub use atomic::{
    Applied, AtomicStore, Atomically, Ended, Entry, Finish, NO_OPERATION, Versions, WriteStore, Written,
};
pub use clock::{Clock, SystemClock};
pub use codec::CodecError;
pub use companion::companion_note;
pub use hint::{Hint, Hints};
pub use inbox::{
    ConsumeStore, Consumed, DeliveryCounts, Failure, InboxPage, InboxQuery, InboxStore, InboxSurvey,
    KeptMessage, Mark, NewPermit, Unparking, Versioned, reason_of, refusal,
};
pub use inspection::{Finding, Gravity, Inventory};
pub use judge::{Grant, Judge, StoredLease};
pub use outbox::{
    IfLost, OutboxPage, OutboxQuery, OutboxStore, OutboxSurvey, Redrive, Redriving, Sent, Settlement, Take,
    Taken, id_is_taken,
};
pub use port::{
    Advance, Advanced, Also, Claim, Claimed, NewEvent, OperationStore, Page, ProbeTurn, Promise, Query, Read,
    Start, Step, StoreError, Survey, Swept, TakeProbes,
};
pub use projection::{Again, KnownVersion};
pub use seal::{KeyId, SealError, Sealer};
pub use steps::{FinishedStep, StepPut, StepStore};
pub use timeline::{Moment, Timeline};
