//! The boundary in a transaction that the service owns: claim, business, finish, commit.

use std::sync::Arc;
use std::time::Duration;

use onefold_library::guest::{Begun, Entering, Next};
use onefold_library::messages::{Destination, Message, Relay};
use onefold_library::{Call, CallError, Done, Engine, Keeper, Limits, OperationId, Verdict};
use onefold_store::OutboxStore;
use onefold_store_postgres::{Address, OpenError, Options, PostgresStore};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sqlx::{PgConnection, Postgres, Transaction};

use crate::Error;
use crate::guest::Inside;

/// The boundary over one database. Cheap to clone.
#[derive(Clone)]
pub struct Boundary {
    store: Arc<PostgresStore>,
    engine: Engine,
}

/// What a claim has found.
#[derive(Debug)]
pub enum Claimed<T> {
    /// The operation is yours: do it, then finish the claim, in the same transaction.
    Begun(Claim),
    /// It was finished before.
    Known(Done<T>),
}

/// An operation that is begun in the caller's transaction.
#[must_use = "an operation that is committed without its end has an unknown outcome"]
pub struct Claim {
    store: Arc<PostgresStore>,
    begun: Begun,
}

impl std::fmt::Debug for Claim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.begun.fmt(f)
    }
}

impl Boundary {
    /// Over the database of this address (`postgres://…`), which must be that of the service's pool. It keeps a few
    /// connections of its own for what is no part of a transaction of the service, and brings its schema, `onefold`, to
    /// this release's. Must be called inside a tokio runtime, which it then needs.
    ///
    /// # Errors
    /// [`OpenError`]: the server cannot be reached, is read-only, a replica or too old, or the schema is another's or a
    /// later release's. Cancellation: nothing has changed but perhaps the schema, by whole migrations.
    pub async fn open(url: &str) -> Result<Boundary, OpenError> {
        let address = Address::parse(url)?;
        let store = PostgresStore::open(&address, Options::default()).await?;
        Ok(Boundary::over(Arc::new(store)))
    }

    /// Over an opened store.
    pub fn over(store: Arc<PostgresStore>) -> Boundary {
        // As everywhere in the library: the service makes its callers' keys, and counting costs a row each time.
        let limits = Limits { live_keys_per_scope: None, ..Limits::default() };
        let engine = Engine::new(store.clone(), "library", limits);
        Boundary { store, engine }
    }

    /// The engine, for what people do to records and for metrics.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Starts what runs beside the calls, for as long as the answer is kept: it writes counters, marks lost outcomes
    /// and sweeps what has expired, with this pause between two sweeps.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn keep(&self, sweep_every: Duration) -> Keeper {
        self.engine.keep(sweep_every)
    }

    /// Claims the operation in the caller's transaction. Waits for the end of another transaction that has it.
    ///
    /// [`Error::Call`] of an operation that is known leaves the transaction as it was. [`Error::Database`] ends it:
    /// under REPEATABLE READ and SERIALIZABLE a lost claim can be a serialization failure, and the whole is run
    /// again. Cancellation: roll the transaction back.
    pub async fn claim<T: DeserializeOwned>(
        &self,
        tx: &mut Transaction<'_, Postgres>,
        call: &Call,
    ) -> Result<Claimed<T>, Error> {
        let (mut entering, claim) = Entering::new(&self.engine, call);
        let mut inside = Inside(tx);
        let mut next = entering.claimed(self.store.claim_over(&mut inside, claim).await?)?;
        loop {
            next = match next {
                Next::Begun(begun) => {
                    return Ok(Claimed::Begun(Claim { store: self.store.clone(), begun }));
                }
                Next::Known(done) => return Ok(Claimed::Known(done)),
                Next::Begin(advance) => {
                    entering.began(self.store.advance_over(&mut inside, *advance).await?)?
                }
            }
        }
    }
}

impl Boundary {
    /// Makes a message on its way out in the caller's transaction. False: it was made before. An id whose message goes
    /// to another destination or address is an error ([`CallError::NotDone`]). Relays see it once the caller has
    /// committed. With an ordering key, whoever makes a message of the same key waits for the end of this transaction.
    ///
    /// Errors and cancellation: roll back.
    pub async fn enqueue(&self, tx: &mut PgConnection, message: Message) -> Result<bool, Error> {
        self.store.enqueue_over(&mut Inside(tx), message).await
    }

    /// Makes the one message for an effect in the caller's transaction, under an id that follows from the effect;
    /// `by` is the operation that asks for it. False: the effect happened before, and nothing is written.
    ///
    /// Errors and cancellation: roll back.
    pub async fn enqueue_once(
        &self,
        tx: &mut PgConnection,
        by: OperationId,
        effect: &str,
        message: Message,
    ) -> Result<bool, Error> {
        self.store.enqueue_once_over(&mut Inside(tx), by, effect, message).await
    }

    /// Starts a relay over this database's outbox, with a loop for each destination. Must be called within a tokio
    /// runtime; dropped, the relay stops.
    pub fn relay(&self, destinations: Vec<Destination>) -> Relay {
        let store: Arc<dyn OutboxStore> = self.store.clone();
        Relay::start(&store, destinations)
    }
}

impl Claim {
    /// The operation's id.
    pub fn id(&self) -> OperationId {
        self.begun.id()
    }

    /// The number of the attempt.
    pub fn attempt(&self) -> u32 {
        self.begun.attempt()
    }

    /// Writes into the transaction that the operation succeeded, with this result. As [`Claim::finish`].
    pub async fn succeed<T>(self, tx: &mut Transaction<'_, Postgres>, value: T) -> Result<Done<T>, Error>
    where
        T: Serialize + DeserializeOwned,
    {
        self.finish(tx, Verdict::succeeded(value)).await
    }

    /// Writes the end of the operation into the transaction; the caller commits it, and only then is it true.
    ///
    /// An error says that nothing is done: roll back. It is also the only sign that the transaction was ended by the
    /// server before: a commit of such a transaction reports success, so commit nothing whose end was not written.
    /// What was written before a rejection is the caller's to undo, for instance with a savepoint.
    pub async fn finish<T>(
        self,
        tx: &mut Transaction<'_, Postgres>,
        verdict: Verdict<T>,
    ) -> Result<Done<T>, Error>
    where
        T: Serialize + DeserializeOwned,
    {
        let (ending, advance) = self.begun.ending(verdict)?;
        let advanced = self.store.advance_over(&mut Inside(tx), advance).await?;
        ending.ended(advanced).map_err(|error: CallError| error.into())
    }
}
