//! What a handler says, and what became of a delivery.

use std::sync::Arc;
use std::time::Duration;

use onefold_core::{InboxState, Kept};
use onefold_store::{Ended, Finish, refusal};
use parking_lot::Mutex;

use crate::Settle;
use crate::limits::REASON_BYTES_MAX;

/// Any error of a handler.
pub type HandlerError = Box<dyn std::error::Error + Send + Sync>;

/// What a handler says of a message. An error in place of it is a try that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Handled {
    /// Its writes are committed with the mark.
    Done,
    /// The message is refused for good: its writes are undone, and the mark keeps the reason.
    Rejected {
        /// Why. No body and no secret.
        reason: String,
    },
    /// The time has not come: its writes are undone, no try is counted, and the message comes again.
    NotYet {
        /// Not before this long; chosen by the inbox where it is not given.
        after: Option<Duration>,
    },
}

impl Handled {
    /// Refused for good.
    pub fn rejected(reason: impl Into<String>) -> Handled {
        Handled::Rejected { reason: reason.into() }
    }

    /// To be handled after this long.
    pub fn not_yet(after: Duration) -> Handled {
        Handled::NotYet { after: Some(after) }
    }
}

/// What became of a delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Handling {
    /// It was handled now, and that is durable: `processed`, `superseded` where a newer version was applied before, or
    /// `rejected` with its reason.
    Done(InboxState),
    /// It was handled before.
    Duplicate,
    /// It waits in the dead list for a person, now or since before, with its body: it failed too often, has no id, or
    /// is older than the marks.
    Parked,
    /// Another message has its id: it waits in the dead list for a person, with its body, under an id of its own.
    Conflict,
    /// Nothing is done; it is to be delivered again.
    Again {
        /// Not before this long.
        after: Duration,
    },
}

impl From<Handling> for Settle {
    fn from(handling: Handling) -> Settle {
        match handling {
            Handling::Done(_) | Handling::Duplicate | Handling::Parked | Handling::Conflict => {
                Settle::Acknowledge
            }
            Handling::Again { after } => Settle::Again { after },
        }
    }
}

/// Why a handler has left nothing.
#[derive(Debug)]
pub(super) enum Said {
    NotYet(Option<Duration>),
    Failed(String),
}

/// Takes the last word of a handler to the store and to the inbox. For those who make a store's work of a handler.
#[derive(Clone, Debug, Default)]
pub struct Word(Arc<Mutex<Option<Said>>>);

impl Word {
    /// What the handler's word means for its transaction.
    pub fn of(&self, said: Result<Handled, HandlerError>) -> Ended {
        let (ended, said) = match said {
            Ok(Handled::Done) => {
                let done = Ended::Finished { finish: Finish::Succeeded, kept: Kept::Nothing, resource: None };
                (done, None)
            }
            Ok(Handled::Rejected { reason }) => (refusal(cut(&reason)), None),
            Ok(Handled::NotYet { after }) => (Ended::NotDone, Some(Said::NotYet(after))),
            Err(error) => (Ended::NotDone, Some(Said::Failed(error.to_string()))),
        };
        *self.0.lock() = said;
        ended
    }

    pub(super) fn take(&self) -> Option<Said> {
        self.0.lock().take()
    }
}

/// A reason, as much as is kept of it.
pub(super) fn cut(reason: &str) -> &str {
    let end = (0..=reason.len().min(REASON_BYTES_MAX)).rev().find(|end| reason.is_char_boundary(*end));
    &reason[..end.unwrap_or(0)]
}
