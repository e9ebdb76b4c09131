//! The transaction as a closure of the business sees it.
//!
//! Every statement is one unnamed statement, so a pooler in transaction mode may stand between, and no text holds
//! two. Nothing here begins, ends or leaves the transaction: such statements, and those whose first word changes the
//! session, are refused before they are sent, and with them `SET LOCAL` of the settings on which the layer's promise
//! rests. Functions are not looked into: `set_config` and a session's advisory locks outlive the transaction and are
//! not for a closure. A statement that failed has made the transaction useless; the first such failure is kept, so a
//! closure that goes on all the same cannot commit half of its work.

use std::sync::Arc;

use onefold_core::{IdentityKey, Message, OperationId, Origin, StoreTime, effect_message_id};
use onefold_store::{Applied, Sealer, StoreError, Versions, crash};
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};

use crate::about::About;
use crate::error::Failed;
use crate::forbidden::forbidden;
use crate::held::Held;
use crate::outgoing::{self, Outgoing};
use crate::param::{Param, typed};
use crate::projection::Brings;
use crate::row::get;
use crate::server::Params;
use crate::store::PostgresStore;

pub(crate) const EFFECT: &str =
    "INSERT INTO onefold.effects (key, operation, at) VALUES ($1, $2, $3) ON CONFLICT (key) DO NOTHING";
pub(crate) const FORGET: &str = "DELETE FROM onefold.projections WHERE entity = $1";

/// What messages are made with.
pub(crate) struct Makes {
    identity_key: IdentityKey,
    sealer: Arc<Sealer>,
    /// A test's time.
    now: Option<i64>,
}

impl Makes {
    pub(crate) fn of(store: &PostgresStore) -> Makes {
        let (identity_key, sealer) = (store.secret().clone(), store.sealer().clone());
        Makes { identity_key, sealer, now: store.server().now() }
    }
}

/// Why a statement in a transaction has no result.
#[derive(Debug, thiserror::Error)]
pub enum TxError {
    /// It was not sent: the transaction, and the session, are not the closure's to change.
    #[error("`{0}` is not for a closure: the transaction is the layer's to begin, to end and to set")]
    Refused(String),
    /// The id is that of a message that goes elsewhere. Nothing was written, and the transaction goes on.
    #[error(transparent)]
    IdTaken(StoreError),
    /// What the layer itself has stored cannot be read.
    #[error(transparent)]
    Unreadable(StoreError),
    /// The database's word.
    #[error(transparent)]
    Database(#[from] tokio_postgres::Error),
}

/// An open transaction. Cannot be kept or sent elsewhere: the closure has it by reference only.
pub struct PostgresTx {
    held: Held,
    operation: OperationId,
    about: About,
    now: StoreTime,
    makes: Makes,
    made_messages: bool,
    versions: Versions,
    origin: Origin,
    /// The last statement was sent, and its end was not seen.
    unseen: bool,
    /// A step of several statements, or one whose answer the closure must have, is under way or was given up.
    half: bool,
    failed: Option<Failed>,
}

impl PostgresTx {
    pub(crate) fn new(
        held: Held,
        operation: OperationId,
        about: About,
        now: StoreTime,
        makes: Makes,
    ) -> PostgresTx {
        let origin = Origin { causation_id: about.cause(operation), ..Origin::default() };
        PostgresTx {
            held,
            operation,
            about,
            now,
            makes,
            made_messages: false,
            versions: Versions::default(),
            origin,
            unseen: false,
            half: false,
            failed: None,
        }
    }

    /// Whether it has made any messages.
    pub(crate) fn made_messages(&self) -> bool {
        self.made_messages
    }

    /// What it was told of versions.
    pub(crate) fn versions(&self) -> Versions {
        self.versions
    }

    /// Whether the end of the last statement was not seen: its future was dropped. It may have failed, and the
    /// transaction with it.
    pub(crate) fn is_unseen(&self) -> bool {
        self.unseen
    }

    /// Whether a step of the layer was given up in the middle: an effect may be noted without what follows it.
    pub(crate) fn is_half_done(&self) -> bool {
        self.half
    }

    pub(crate) fn into_parts(self) -> (Held, Option<Failed>) {
        (self.held, self.failed)
    }

    /// Ties the messages that are made from here on to a workflow: those that name no correlation id carry this one.
    /// That of the operation, or of the message that is handled, is set before the closure runs.
    pub fn correlate(&mut self, id: Option<&str>) {
        self.origin.correlation_id = id.map(str::to_owned);
    }

    /// Puts the messages that are made from here on into a trace, by its `traceparent`: those that name none carry this
    /// one. That of the call, or of the message that is handled, is set before the closure runs.
    pub fn trace(&mut self, traceparent: Option<&str>) {
        self.origin.traceparent = traceparent.map(str::to_owned);
    }

    /// The operation that is performed, or the message that is handled.
    pub fn operation(&self) -> OperationId {
        self.operation
    }

    /// Runs one statement; returns how many rows it changed.
    ///
    /// # Errors
    /// [`TxError::Refused`]: it was not sent, and the transaction goes on. [`TxError::Database`]: the transaction is useless,
    /// and a closure that goes on cannot commit. Cancellation: the server may have carried it out; whether the
    /// transaction still stands is asked before it is committed. So for all statements here.
    pub async fn execute(&mut self, sql: &str, params: &[&dyn Param]) -> Result<u64, TxError> {
        self.execute_typed(sql, &typed(params)).await
    }

    /// All rows of a query.
    pub async fn query(&mut self, sql: &str, params: &[&dyn Param]) -> Result<Vec<Row>, TxError> {
        self.query_typed(sql, &typed(params)).await
    }

    /// The first row of a query, if it has one.
    pub async fn query_opt(&mut self, sql: &str, params: &[&dyn Param]) -> Result<Option<Row>, TxError> {
        Ok(self.query(sql, params).await?.into_iter().next())
    }

    /// As [`execute`](PostgresTx::execute), with parameters of any type.
    pub async fn execute_typed(
        &mut self,
        sql: &str,
        params: &[(&(dyn ToSql + Sync), Type)],
    ) -> Result<u64, TxError> {
        may_send(sql)?;
        self.unseen = true;
        let limit = self.held.limit();
        let done = behind(limit, &self.held, self.held.execute_typed(sql, params)).await;
        self.noted(done)
    }

    /// As [`query`](PostgresTx::query), with parameters of any type.
    pub async fn query_typed(
        &mut self,
        sql: &str,
        params: &[(&(dyn ToSql + Sync), Type)],
    ) -> Result<Vec<Row>, TxError> {
        may_send(sql)?;
        self.unseen = true;
        let limit = self.held.limit();
        let done = behind(limit, &self.held, self.held.query_typed(sql, params)).await;
        self.noted(done)
    }

    /// Notes an effect under its own key, for good. True: it is the first of its kind, so let it happen, in this
    /// transaction. False: it happened before, whatever message or request asked for it. Whoever notes the
    /// same effect at the same time waits for the end of this transaction.
    ///
    /// Errors are those of a statement. Cancellation: a closure that drops this future cannot commit, since nobody knows
    /// whether it is noted. So for [`apply_if_newer`](PostgresTx::apply_if_newer) and
    /// [`enqueue_once`](PostgresTx::enqueue_once).
    pub async fn effect(&mut self, key: &str) -> Result<bool, TxError> {
        self.half = true;
        let noted = self.note_effect(key).await;
        self.half = false;
        noted
    }

    async fn note_effect(&mut self, key: &str) -> Result<bool, TxError> {
        let (operation, at) = (self.operation, self.now.0);
        let noted = self.execute(EFFECT, &[&key.as_bytes(), &operation.as_bytes().as_slice(), &at]).await?;
        Ok(noted == 1)
    }

    /// Says whether this version of the entity is to be applied, and notes it. Versions are the entity's own: a number
    /// that grows with each change, such as the time of an event. Of two events with one version the first is applied.
    /// A message whose handler is told [`Applied::Superseded`], and of nothing that it is newer, is marked as
    /// superseded. In the round of a permit, versions that it brings again compare within the round.
    pub async fn apply_if_newer(&mut self, entity: &str, version: i64) -> Result<Applied, TxError> {
        self.half = true;
        let brings = Brings { operation: self.operation, about: self.about.clone(), now: self.now };
        let applied = brings.apply(entity, version, self).await;
        self.half = false;
        let applied = applied?;
        self.versions.note(applied);
        Ok(applied)
    }

    /// Forgets the version of an entity that is deleted for good, in this transaction: versions are kept until then. An
    /// event from before that comes later is new again. False: nothing was known of it.
    pub async fn forget_entity(&mut self, entity: &str) -> Result<bool, TxError> {
        Ok(self.execute(FORGET, &[&entity.as_bytes()]).await? == 1)
    }

    /// Makes a message on its way out, in this transaction. False: it was made before, and nothing is written; what it
    /// says is not compared. With an ordering key, whoever makes a message of the same key at the same time waits for
    /// the end of this transaction.
    ///
    /// An id is one message's: where the message under this id goes to another destination or address it is
    /// [`TxError::IdTaken`].
    pub async fn enqueue(&mut self, message: &Message) -> Result<bool, TxError> {
        let message = message.clone().coming_from(&self.origin);
        let outgoing = Outgoing::new(message, &self.makes.identity_key, &self.makes.sealer);
        // A message that came in stays marked until those that it has brought about are done.
        let cause = matches!(self.about, About::Message(_)).then_some(self.operation);
        let cause = cause.as_ref().map(|cause| cause.as_bytes().as_slice());
        let (parts, now) = (outgoing.parts(), self.makes.now);
        let rows = self.query_ours(outgoing::PUT_ONE, &outgoing.params(&now, &parts, &cause)).await?;
        crash::point("postgres.message.after");
        let made = rows.first().is_some_and(|row| get(row, 0).unwrap_or(false));
        if !made {
            let place = outgoing.place();
            let place = place.each_ref().map(|value| (value as &(dyn ToSql + Sync), Type::BYTEA));
            let rows = self.query_typed(outgoing::GOES_TO, &place).await?;
            outgoing.refused(&rows).map_err(TxError::IdTaken)?;
        }
        self.made_messages |= made;
        Ok(made)
    }

    /// Makes the one message for an effect, under an id that follows from the effect, whichever event asks for it: the
    /// id that `message` has is not used. False: the effect happened before, and nothing is written. After
    /// [`TxError::IdTaken`] nothing is written either, and the transaction goes on.
    pub async fn enqueue_once(&mut self, effect: &str, message: Message) -> Result<bool, TxError> {
        self.half = true;
        let made = self.make_once(effect, message).await;
        self.half = false;
        made
    }

    async fn make_once(&mut self, effect: &str, message: Message) -> Result<bool, TxError> {
        let message = Message { id: effect_message_id(effect, &self.makes.identity_key), ..message };
        if !self.note_effect(effect).await? {
            return Ok(false);
        }
        let made = self.enqueue(&message).await;
        if matches!(made, Ok(false) | Err(TxError::IdTaken(_))) {
            self.execute(outgoing::FORGET_EFFECT, &[&effect.as_bytes()]).await?;
        }
        made
    }

    /// A statement of the layer's own, which is prepared where it may be.
    async fn query_ours(&mut self, sql: &'static str, params: &Params<'_>) -> Result<Vec<Row>, TxError> {
        self.unseen = true;
        let done = match self.held.prepared(sql, params).await {
            Err(error) => Err(error),
            Ok(statement) => {
                let limit = self.held.limit();
                behind(limit, &self.held, statement.query(&self.held, params)).await
            }
        };
        self.noted(done)
    }

    fn noted<A>(&mut self, done: Result<A, tokio_postgres::Error>) -> Result<A, TxError> {
        self.unseen = false;
        if let Err(error) = &done
            && self.failed.is_none()
        {
            self.failed = Some(Failed::of(error));
        }
        Ok(done?)
    }
}

impl std::fmt::Debug for PostgresTx {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresTx").field("operation", &self.operation).finish_non_exhaustive()
    }
}

fn may_send(sql: &str) -> Result<(), TxError> {
    forbidden(sql).map_or(Ok(()), |word| Err(TxError::Refused(word)))
}

/// Sends a statement behind the limit that it needs, if any, in one round trip.
async fn behind<A>(
    limit: Option<String>,
    held: &Held,
    statement: impl Future<Output = Result<A, tokio_postgres::Error>>,
) -> Result<A, tokio_postgres::Error> {
    match limit {
        Some(limit) => {
            let (limited, done) = tokio::join!(biased; held.batch_execute(&limit), statement);
            limited.and(done)
        }
        None => statement.await,
    }
}
