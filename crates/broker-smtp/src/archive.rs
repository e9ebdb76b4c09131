//! Looking up mails whose answer was lost, by their Message-ID.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lettre::message::Mailbox;
use onefold_messages::{Found, LookUp, Message};

use crate::letter::id_of;

/// Whoever can say which mails were taken: the server's log, a provider's list, a mailbox that gets a copy.
#[async_trait]
pub trait MailLookUp: Send + Sync + 'static {
    /// For how long a mail must have been unknown before "it is not there" is believed: longer than the first sending
    /// may still take to arrive and to be found.
    fn settled_after(&self) -> Duration;

    /// Asks for the mail with this Message-ID (`<…@…>`), the same in every sending. Dropped after 30 s, which is no
    /// answer.
    async fn look_up(&self, message_id: &str) -> Found;
}

/// Asks by the Message-ID.
#[derive(Clone)]
pub(crate) struct Archive {
    pub(crate) of: Arc<dyn MailLookUp>,
    pub(crate) every: Duration,
}

/// An archive, with the sender on whom the Message-ID depends.
pub(crate) struct Asking {
    pub(crate) of: Arc<dyn MailLookUp>,
    pub(crate) sender: Option<Mailbox>,
}

#[async_trait]
impl LookUp for Asking {
    fn settled_after(&self) -> Duration {
        self.of.settled_after()
    }

    async fn look_up(&self, message: &Message) -> Found {
        match id_of(message, self.sender.as_ref()) {
            Some(message_id) => self.of.look_up(&message_id).await,
            None => Found::Inconclusive,
        }
    }
}

impl std::fmt::Debug for Archive {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Archive").field("every", &self.every).finish_non_exhaustive()
    }
}
