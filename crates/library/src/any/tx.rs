//! The transaction as a closure sees it that runs on either database.
//!
//! It asks at a [`Desk`], and whoever runs the closure carries that out in the real transaction. So the closure can be
//! sent between threads although a transaction of SQLite cannot, and one body does on both.

use onefold_core::{Message, OperationId};
use onefold_store_sqlite::Applied;

use super::desk::{Answer, Ask, Desk};
use super::value::{Value, values};
use super::{AnyError, AnyRow, ToValue};

/// An open transaction on SQLite or PostgreSQL. Cannot be kept or sent elsewhere: the closure has it by reference only.
///
/// Parameters are written `$1`, `$2`, … on both. After an error let the closure end with it: one that goes on and
/// succeeds is undone, on both. Only [`enqueue`](AnyTx::enqueue) of an id that is another message's is no such error.
///
/// On PostgreSQL a call may be given up (a `timeout` or a `select` around it): the transaction then takes no more, and
/// the closure can end with an error only. On SQLite a statement has ended before anything else is looked at.
///
/// How much it sees of others is the database's: see [the module](crate::any).
pub struct AnyTx {
    desk: Desk,
    operation: OperationId,
}

impl AnyTx {
    pub(super) fn at(desk: Desk, operation: OperationId) -> AnyTx {
        AnyTx { desk, operation }
    }

    /// The operation that is performed, or the message that is handled.
    pub fn operation(&self) -> OperationId {
        self.operation
    }

    /// Runs one statement; returns how many rows it changed, none where it is of another kind.
    pub async fn execute(&mut self, sql: &str, params: &[&dyn ToValue]) -> Result<u64, AnyError> {
        let params = self.values(params)?;
        self.changed(sql.to_owned(), params).await
    }

    /// All rows of a query.
    pub async fn query(&mut self, sql: &str, params: &[&dyn ToValue]) -> Result<Vec<AnyRow>, AnyError> {
        let params = self.values(params)?;
        self.rows(sql.to_owned(), params).await
    }

    /// The first row of a query, if it has one.
    pub async fn query_opt(
        &mut self,
        sql: &str,
        params: &[&dyn ToValue],
    ) -> Result<Option<AnyRow>, AnyError> {
        Ok(self.query(sql, params).await?.into_iter().next())
    }

    /// Notes an effect under its own key, for good. True: it is the first of its kind, so let it happen, in this
    /// transaction. False: it happened before, whatever message or request asked for it.
    pub async fn effect(&mut self, key: &str) -> Result<bool, AnyError> {
        self.is(Ask::Effect(key.to_owned())).await
    }

    /// Says whether this version of the entity is to be applied, and notes it. Versions are the entity's own: a number
    /// that grows with each change. Of two events with one version the first is applied.
    pub async fn apply_if_newer(&mut self, entity: &str, version: i64) -> Result<Applied, AnyError> {
        match self.desk.ask(Ask::ApplyIfNewer(entity.to_owned(), version)).await? {
            Answer::Applied(applied) => Ok(applied),
            _ => unreachable!("a version is answered with what became of it"),
        }
    }

    /// Forgets the version of an entity that is deleted for good, in this transaction: versions are kept until then. An
    /// event from before that comes later is new again. False: nothing was known of it.
    pub async fn forget_entity(&mut self, entity: &str) -> Result<bool, AnyError> {
        self.is(Ask::ForgetEntity(entity.to_owned())).await
    }

    /// Makes a message on its way out, in this transaction. False: it was made before, and nothing is written; what it
    /// says is not compared. An id is one message's: it is an error where the message under this id goes to another
    /// destination or address.
    pub async fn enqueue(&mut self, message: &Message) -> Result<bool, AnyError> {
        self.is(Ask::Enqueue(message.clone())).await
    }

    /// Makes the one message for an effect, under an id that follows from the effect, whichever event asks for it: the
    /// id that `message` has is not used. False: the effect happened before, and nothing is written.
    pub async fn enqueue_once(&mut self, effect: &str, message: Message) -> Result<bool, AnyError> {
        self.is(Ask::EnqueueOnce(effect.to_owned(), message)).await
    }

    pub(super) async fn changed(&mut self, sql: String, params: Vec<Value>) -> Result<u64, AnyError> {
        match self.desk.ask(Ask::Execute(sql, params)).await? {
            Answer::Changed(changed) => Ok(changed),
            _ => unreachable!("a statement is answered with how much it changed"),
        }
    }

    pub(super) async fn rows(&mut self, sql: String, params: Vec<Value>) -> Result<Vec<AnyRow>, AnyError> {
        match self.desk.ask(Ask::Query(sql, params)).await? {
            Answer::Rows(rows) => Ok(rows),
            _ => unreachable!("a query is answered with rows"),
        }
    }

    async fn is(&mut self, ask: Ask) -> Result<bool, AnyError> {
        match self.desk.ask(ask).await? {
            Answer::Is(is) => Ok(is),
            _ => unreachable!("yes or no is answered with yes or no"),
        }
    }

    fn values(&self, params: &[&dyn ToValue]) -> Result<Vec<Value>, AnyError> {
        values(params).inspect_err(|error| self.desk.note_failed(error))
    }
}

impl std::fmt::Debug for AnyTx {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AnyTx").field("operation", &self.operation).finish_non_exhaustive()
    }
}
