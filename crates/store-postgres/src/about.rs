//! What a closure runs for: an operation, or a message and how it is handled. Owned, since a transaction as its closure
//! has it borrows nothing.

use onefold_core::OperationId;
use onefold_store::{Mark, NO_OPERATION};

/// What a closure runs for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum About {
    /// An operation.
    Operation,
    /// A message that came in.
    Message(Handling),
}

/// How a message is handled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Handling {
    /// The id that its sender gave it.
    pub(crate) message: String,
    /// 0, or the number of the permit.
    pub(crate) round: u32,
    /// Who handles it.
    pub(crate) consumer: String,
    /// By which build.
    pub(crate) handler: String,
}

impl About {
    /// A message that leaves this mark.
    pub(crate) fn message(mark: &Mark) -> About {
        let Mark { round, handler, identity, .. } = mark;
        let (message, consumer) = (identity.message.as_str().to_owned(), identity.consumer.clone());
        About::Message(Handling { message, round: *round, consumer, handler: handler.clone() })
    }

    /// What the messages that it makes are caused by.
    pub(crate) fn cause(&self, operation: OperationId) -> Option<String> {
        match self {
            About::Message(handling) => Some(handling.message.clone()),
            About::Operation => (operation != NO_OPERATION).then(|| operation.to_string()),
        }
    }
}
