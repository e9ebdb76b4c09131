//! Notifications: mails of which every effect of the business has at most one (`docs/messages.md`).
//!
//! [`Notify::once`] writes the job in the transaction of the business, under the effect's key. The second event that
//! asks for the same effect makes none, whatever its own id. A relay sends the job to its destination, which may be
//! any [`Sink`](crate::messages::Sink) that reads a [`Mail`]; the feature `mail` of the facade brings one.
//!
//! A mail that the server may have accepted while its answer was lost is [`OutboxState::Unknown`]: it is never sent
//! again by itself. A person finds out and says so with [`Onefold::resolve_notification`], once and with a reason.

use std::time::Duration;

use onefold_core::{Key, effect_message_id};
use onefold_store::{OutboxStore, Redriving};

pub use onefold_core::{OutboxEntry, OutboxState};
pub use onefold_messages::mail::{MEDIA_TYPE, Mail};
pub use onefold_messages::{Found, LookUp};
pub use onefold_store::{Redrive, StoreError};

use crate::messages::{ActError, Message};
use crate::{AtomicStore, Onefold, SqliteTx};

/// Where mails go.
#[derive(Clone, Debug)]
pub struct Notify {
    destination: String,
}

impl Notify {
    /// By the relay's destination of this name.
    pub fn by(destination: impl Into<String>) -> Notify {
        Notify { destination: destination.into() }
    }

    /// Makes the one mail for an effect, such as `order-5001/ORDER_CONFIRMED`, in this transaction. True: it is made
    /// now. False: the effect happened before, whichever event asked for it, and nothing is written. The key is kept
    /// for good.
    ///
    /// # Errors
    /// The database's; nothing is written then, and the closure may go on. One of them is that a message under the
    /// id of the effect goes to another destination.
    pub fn once(&self, tx: &mut SqliteTx<'_>, effect: &str, mail: &Mail) -> rusqlite::Result<bool> {
        tx.enqueue_once(effect, self.message(mail))
    }

    /// The same in a transaction on PostgreSQL. Whoever asks for the same effect at the same time waits here for the
    /// end of the other's transaction.
    ///
    /// # Errors
    /// [`TxError::IdTaken`](crate::postgres::TxError::IdTaken): the effect's message goes to another destination;
    /// nothing is written, and the transaction goes on. After [`TxError::Database`](crate::postgres::TxError::Database)
    /// it is useless, and the closure must end. Cancellation: a closure that drops this future cannot commit.
    #[cfg(feature = "postgres")]
    pub async fn once_on_postgres(
        &self,
        tx: &mut crate::postgres::PostgresTx,
        effect: &str,
        mail: &Mail,
    ) -> Result<bool, crate::postgres::TxError> {
        tx.enqueue_once(effect, self.message(mail)).await
    }

    /// The same in a transaction on either database.
    ///
    /// # Errors
    /// The database's: nothing is written. Only where the effect's message goes to another destination may the closure
    /// go on. Cancellation: a closure that drops this future cannot commit.
    #[cfg(feature = "postgres")]
    pub async fn once_on_any(
        &self,
        tx: &mut crate::any::AnyTx,
        effect: &str,
        mail: &Mail,
    ) -> Result<bool, crate::any::AnyError> {
        tx.enqueue_once(effect, self.message(mail)).await
    }

    /// The job as a message, for a transaction of another kind. Its id is not used: that of the one message for an
    /// effect follows from the effect.
    pub fn message(&self, mail: &Mail) -> Message {
        Message {
            id: Key::new("notification").expect("it is a key"),
            destination: self.destination.clone(),
            address: String::new(),
            ordering_key: None,
            headers: vec![("content-type".into(), MEDIA_TYPE.into())],
            body: serde_json::to_vec(mail).expect("a mail is texts"),
        }
    }
}

/// A person's word on a notification that waits for one.
#[derive(Clone, Debug)]
pub struct NotificationAct {
    /// The attempt after which the person saw it ([`OutboxEntry::attempt`]): what was done since is not done twice.
    pub attempt: u32,
    /// What is done: it was delivered, it is sent again, it is taken out.
    pub act: Redrive,
    /// Who.
    pub who: String,
    /// Why.
    pub reason: String,
}

impl<S: AtomicStore + OutboxStore> Onefold<S> {
    /// Where the notification for an effect stands; `None` where nobody has asked for it, or it was done and is swept.
    ///
    /// # Errors
    /// The store did not answer. Cancellation: nothing changes.
    pub async fn notification(&self, effect: &str) -> Result<Option<OutboxEntry>, StoreError> {
        self.store().outgoing(&self.notification_id(effect)).await
    }

    /// Acts on a notification that is dead or unknown, and keeps who and why with it. True: it was done now. False:
    /// somebody was there before, or there is nothing to resolve; nothing changes. Doing it twice does it once.
    ///
    /// # Errors
    ///
    /// [`ActError::ReasonMissing`] and [`ActError::Invalid`]: both who and why must be said.
    /// [`ActError::Store`]: the act may have been done; look, or do it again with the same attempt, which is harmless.
    ///
    /// Cancellation: it is done or not; the same holds.
    pub async fn resolve_notification(&self, effect: &str, act: NotificationAct) -> Result<bool, ActError> {
        let NotificationAct { attempt, act, who, reason } = act;
        if reason.trim().is_empty() {
            return Err(ActError::ReasonMissing);
        }
        if who.trim().is_empty() {
            return Err(ActError::Invalid("say who acts: it is kept with the message".into()));
        }
        let id = self.notification_id(effect);
        let redriving = Redriving { id, attempt, redrive: act, after: Duration::ZERO, who, reason };
        Ok(self.store().redrive(redriving).await?)
    }

    fn notification_id(&self, effect: &str) -> Key {
        effect_message_id(effect, self.engine().identity_key())
    }
}
