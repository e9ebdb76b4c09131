//! The transaction as a closure sees it that runs on either database.
//!
//! It is a desk: the closure lays down what it asks for and waits, and whoever runs the closure does it in the real
//! transaction, lays down the answer, and lets the closure go on. So the closure can be sent between threads although
//! a transaction of SQLite cannot, and one body does on both.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Poll;

use onefold_core::{Message, OperationId};
use onefold_store_sqlite::Applied;
use parking_lot::Mutex;

use super::value::{Value, values};
use super::{AnyError, AnyRow, ToValue};

/// What a closure asks its transaction for.
pub(super) enum Ask {
    Execute(String, Vec<Value>),
    Query(String, Vec<Value>),
    Effect(String),
    ApplyIfNewer(String, i64),
    ForgetEntity(String),
    Enqueue(Message),
    EnqueueOnce(String, Message),
}

/// What it gets.
pub(super) enum Answer {
    Changed(u64),
    Rows(Vec<AnyRow>),
    Is(bool),
    Applied(Applied),
}

/// What lies on the desk.
enum Lies {
    Nothing,
    Asked(Ask),
    Answered(Result<Answer, AnyError>),
}

/// The desk between a closure and its transaction.
#[derive(Clone)]
pub(super) struct Desk(Arc<Shared>);

struct Shared {
    lies: Mutex<Lies>,
    /// Calls whose answer the closure does not have.
    open: AtomicU32,
}

impl Desk {
    pub(super) fn new() -> Desk {
        Desk(Arc::new(Shared { lies: Mutex::new(Lies::Nothing), open: AtomicU32::new(0) }))
    }

    /// For the end of a closure. It may not have gone on without an answer: an effect may be noted, and what was to
    /// follow it not be written.
    pub(super) fn is_clear(&self) -> bool {
        self.0.open.load(Ordering::Relaxed) == 0
    }

    /// What is asked for, if anything.
    pub(super) fn asked(&self) -> Option<Ask> {
        let mut lies = self.0.lies.lock();
        match std::mem::replace(&mut *lies, Lies::Nothing) {
            Lies::Asked(ask) => Some(ask),
            other => {
                *lies = other;
                None
            }
        }
    }

    pub(super) fn answer(&self, answer: Result<Answer, AnyError>) {
        *self.0.lies.lock() = Lies::Answered(answer);
    }

    fn answered(&self) -> Option<Result<Answer, AnyError>> {
        let mut lies = self.0.lies.lock();
        match std::mem::replace(&mut *lies, Lies::Nothing) {
            Lies::Answered(answer) => Some(answer),
            other => {
                *lies = other;
                None
            }
        }
    }
}

/// An open transaction on SQLite or PostgreSQL. Cannot be kept or sent elsewhere: the closure has it by reference only.
///
/// Parameters are written `$1`, `$2`, … on both. After an error let the closure end with it: PostgreSQL takes no more
/// statements then.
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

    /// Runs one statement; returns how many rows it changed.
    pub async fn execute(&mut self, sql: &str, params: &[&dyn ToValue]) -> Result<u64, AnyError> {
        self.changed(sql.to_owned(), values(params)).await
    }

    /// All rows of a query.
    pub async fn query(&mut self, sql: &str, params: &[&dyn ToValue]) -> Result<Vec<AnyRow>, AnyError> {
        self.rows(sql.to_owned(), values(params)).await
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
        match self.ask(Ask::ApplyIfNewer(entity.to_owned(), version)).await? {
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
        match self.ask(Ask::Execute(sql, params)).await? {
            Answer::Changed(changed) => Ok(changed),
            _ => unreachable!("a statement is answered with how much it changed"),
        }
    }

    pub(super) async fn rows(&mut self, sql: String, params: Vec<Value>) -> Result<Vec<AnyRow>, AnyError> {
        match self.ask(Ask::Query(sql, params)).await? {
            Answer::Rows(rows) => Ok(rows),
            _ => unreachable!("a query is answered with rows"),
        }
    }

    async fn is(&mut self, ask: Ask) -> Result<bool, AnyError> {
        match self.ask(ask).await? {
            Answer::Is(is) => Ok(is),
            _ => unreachable!("yes or no is answered with yes or no"),
        }
    }

    async fn ask(&mut self, ask: Ask) -> Result<Answer, AnyError> {
        *self.desk.0.lies.lock() = Lies::Asked(ask);
        self.desk.0.open.fetch_add(1, Ordering::Relaxed);
        // Nobody has to wake this: whoever answers looks at it afterwards.
        let answer = poll_fn(|_| self.desk.answered().map_or(Poll::Pending, Poll::Ready)).await;
        self.desk.0.open.fetch_sub(1, Ordering::Relaxed);
        answer
    }
}

impl std::fmt::Debug for AnyTx {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AnyTx").field("operation", &self.operation).finish_non_exhaustive()
    }
}
