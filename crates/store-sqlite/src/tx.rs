//! The transaction as a closure of the business sees it.
//!
//! Nothing here begins, ends or leaves the transaction, and nothing waits: whatever is to leave the database goes through
//! rows. Statements are prepared behind the fence under a text of their own, so a cached statement of the layer is never
//! handed out. What is written is part of the transaction that also keeps the record.

use std::fmt;

use onefold_core::{IdentityKey, Message, OperationId, Origin, StoreTime, effect_message_id};
use onefold_store::{Applied, Sealer, Versions};
use rusqlite::{CachedStatement, Connection, Params, Row, Statement, params};

use crate::batch::Batch;
use crate::closure::About;
use crate::fence::Fence;
use crate::outgoing::{self, Outgoing};
use crate::projection;

const EFFECT: &str =
    "INSERT INTO onefold_effects (key, operation, at) VALUES (?1, ?2, ?3) ON CONFLICT (key) DO NOTHING";
const FORGET: &str = "DELETE FROM onefold_projections WHERE entity = ?1";
const SAVE: &str = "SAVEPOINT message";
const UNDO: &str = "ROLLBACK TO message";
const KEEP: &str = "RELEASE message";

#[cfg(test)]
pub(crate) const SQL: &[&str] = &[EFFECT, FORGET];

/// An open transaction. Cannot be kept, sent elsewhere or waited in:
///
/// ```compile_fail
/// fn keep(tx: &mut onefold_store_sqlite::SqliteTx<'_>) {
///     std::thread::spawn(move || tx.execute("DELETE FROM orders", []));
/// }
/// ```
pub struct SqliteTx<'t> {
    connection: &'t Connection,
    fence: &'t Fence,
    identity_key: &'t IdentityKey,
    sealer: &'t Sealer,
    seq: &'t mut i64,
    operation: OperationId,
    about: About<'t>,
    made_messages: bool,
    versions: Versions,
    origin: Origin,
    /// Half of a message stands there and could not be taken back.
    is_broken: bool,
    now: StoreTime,
}

impl fmt::Debug for SqliteTx<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteTx").field("operation", &self.operation).finish_non_exhaustive()
    }
}

impl<'t> SqliteTx<'t> {
    pub(crate) fn new(
        batch: &'t mut Batch<'_>,
        operation: OperationId,
        about: About<'t>,
        sealer: &'t Sealer,
    ) -> SqliteTx<'t> {
        let Batch { connection, fence, identity_key, moment, seq, .. } = batch;
        let now = moment.time;
        let (made_messages, versions, is_broken) = (false, Versions::default(), false);
        let origin = Origin { causation_id: about.cause(operation), ..Origin::default() };
        SqliteTx {
            connection,
            fence,
            identity_key,
            sealer,
            seq,
            operation,
            about,
            made_messages,
            versions,
            origin,
            is_broken,
            now,
        }
    }

    /// Whether nothing of it may be kept, whatever the closure says.
    pub(crate) fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// Whether it has made any messages.
    pub(crate) fn made_messages(&self) -> bool {
        self.made_messages
    }

    /// What it was told of versions.
    pub(crate) fn versions(&self) -> Versions {
        self.versions
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
    /// An error is SQLite's. It has written nothing by itself, and the closure may go on; what the fence denies
    /// (transactions, the layer's tables) is one too. One that makes SQLite roll the whole transaction back, or that comes
    /// too late, undoes the closure, whatever it says then. So for all statements here.
    pub fn execute(&mut self, sql: &str, params: impl Params) -> rusqlite::Result<usize> {
        self.prepare(sql)?.execute(params)
    }

    /// Runs statements without parameters.
    pub fn execute_batch(&mut self, sql: &str) -> rusqlite::Result<()> {
        self.connection.execute_batch(sql)
    }

    /// The first row of a query, which must have one.
    pub fn query_row<A>(
        &mut self,
        sql: &str,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<A>,
    ) -> rusqlite::Result<A> {
        self.prepare(sql)?.query_row(params, read)
    }

    /// All rows of a query.
    pub fn query<A>(
        &mut self,
        sql: &str,
        params: impl Params,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<A>,
    ) -> rusqlite::Result<Vec<A>> {
        self.prepare(sql)?.query_map(params, read)?.collect()
    }

    /// A statement to be used several times. It stays prepared for later transactions too.
    pub fn prepare(&mut self, sql: &str) -> rusqlite::Result<CachedStatement<'_>> {
        // No text of ours begins so.
        self.connection.prepare_cached(&format!("/* in a closure */ {sql}"))
    }

    /// A statement that is not kept prepared.
    pub fn prepare_once(&mut self, sql: &str) -> rusqlite::Result<Statement<'_>> {
        self.connection.prepare(sql)
    }

    /// The rowid of the last insert of this connection.
    pub fn last_insert_rowid(&self) -> i64 {
        self.connection.last_insert_rowid()
    }

    /// Notes an effect under its own key, for good. True: it is the first of its kind, so let it happen, in this
    /// transaction. False: it happened before, whatever message or request asked for it. After an error nothing is noted.
    pub fn effect(&mut self, key: &str) -> rusqlite::Result<bool> {
        let noted = params![key, self.operation.as_bytes(), self.now.0];
        self.fence.lifted(|| Ok(self.connection.prepare_cached(EFFECT)?.execute(noted)? == 1))
    }

    /// Says whether this version of the entity is to be applied, and notes it. Versions are the entity's own: a number
    /// that grows with each change, such as the time of an event. Of two events with one version the first is applied.
    /// A message whose handler is told [`Applied::Superseded`], and of nothing that it is newer, is marked as
    /// superseded. In the round of a permit, versions that it brings again compare within the round. After an error nothing
    /// is noted.
    pub fn apply_if_newer(&mut self, entity: &str, version: i64) -> rusqlite::Result<Applied> {
        let brings = projection::Brings { operation: self.operation, about: self.about, now: self.now };
        let applied = self.fence.lifted(|| brings.apply(entity, version, self.connection))?;
        self.versions.note(applied);
        Ok(applied)
    }

    /// Forgets the version of an entity that is deleted for good, in this transaction: versions are kept until then. An
    /// event from before that comes later is new again. False: nothing was known of it.
    pub fn forget_entity(&mut self, entity: &str) -> rusqlite::Result<bool> {
        self.fence.lifted(|| Ok(self.connection.prepare_cached(FORGET)?.execute([entity])? == 1))
    }

    /// Makes a message on its way out, in this transaction. False: it was made before, and nothing is written; what it
    /// says is not compared.
    ///
    /// An id is one message's: it is an error where the message under this id goes to another destination or address.
    pub fn enqueue(&mut self, message: &Message) -> rusqlite::Result<bool> {
        let outgoing = self.outgoing(message.clone());
        let made = self.make(&outgoing)?;
        self.made_messages |= made;
        Ok(made)
    }

    /// Makes the one message for an effect, under an id that follows from the effect, whichever event asks for it: the
    /// id that `message` has is not used. False: the effect happened before, and nothing is written. After an error neither
    /// is the effect noted nor the message made.
    pub fn enqueue_once(&mut self, effect: &str, message: Message) -> rusqlite::Result<bool> {
        let message = Message { id: effect_message_id(effect, self.identity_key), ..message };
        let outgoing = self.outgoing(message);
        self.all_or_nothing(|tx| Ok(tx.effect(effect)? && tx.make(&outgoing)?))
    }

    fn outgoing(&self, message: Message) -> Outgoing {
        Outgoing::new(message.coming_from(&self.origin), self.identity_key, self.sealer)
    }

    fn make(&mut self, outgoing: &Outgoing) -> rusqlite::Result<bool> {
        // A message that came in stays marked until those that it has brought about are done.
        let cause = matches!(self.about, About::Message(_)).then_some(self.operation);
        *self.seq += 1;
        let (seq, connection) = (*self.seq, self.connection);
        self.fence.lifted(|| {
            let made = outgoing.make(cause, seq, self.now, connection);
            // A closure may go on after an error.
            if made.is_err() && outgoing::take_back(seq, connection).is_err() {
                self.is_broken = true;
            }
            let made = made?;
            match if made { None } else { outgoing.refused(connection)? } {
                Some(refused) => Err(rusqlite::Error::ToSqlConversionFailure(refused.into())),
                None => Ok(made),
            }
        })
    }

    /// Writes all, or nothing where it is an error or false: a closure may go on after an error.
    fn all_or_nothing(
        &mut self,
        write: impl FnOnce(&mut Self) -> rusqlite::Result<bool>,
    ) -> rusqlite::Result<bool> {
        let (fence, connection) = (self.fence, self.connection);
        let run = |sql| fence.lifted(|| connection.prepare_cached(sql)?.execute([]));
        run(SAVE)?;
        let made = write(self);
        if !matches!(made, Ok(true))
            && let Err(error) = run(UNDO)
        {
            self.is_broken = true;
            return Err(error);
        }
        run(KEEP)?;
        self.made_messages |= matches!(made, Ok(true));
        made
    }
}
