//! A transaction of the adapter's, over the service's pool: the work is a closure that may run again.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use onefold_library::{BoxError, Call, CallError, Done, Verdict};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sqlx::pool::PoolConnection;
use sqlx::{Connection, PgConnection, PgPool, Postgres};

use crate::error::asks_for_rerun;
use crate::{Boundary, Claimed, Error};

/// How often the whole is run, at most.
const RUNS_MAX: u32 = 10;
/// The longest pause before the first rerun; it doubles up to [`PAUSE_MAX`].
const PAUSE: Duration = Duration::from_millis(4);
const PAUSE_MAX: Duration = Duration::from_millis(250);

/// What a closure of [`Boundary::atomic`] gives back: its future in a box.
pub type Working<'a, T> = Pin<Box<dyn Future<Output = Result<Verdict<T>, BoxError>> + Send + 'a>>;

impl Boundary {
    /// Performs the operation in a transaction of its own over this pool: what the closure writes and the record of its
    /// result are committed together or not at all.
    ///
    /// The closure gets the connection and nothing else, because it runs again where the database asks for that (40001
    /// and 40P01, so it should hand those errors on), a few times and after a pause by dice. Any other error and
    /// `NotDone` undo everything, and the key is free. `Rejected` undoes the closure's writes and remembers the
    /// refusal.
    ///
    /// An error of the commit is [`Error::Call`] with [`CallError::StoreUnavailable`]: the same call made again says
    /// whether it happened. Cancellation: the call runs in a task of its own and goes on.
    pub async fn atomic<T, F>(&self, pool: &PgPool, call: Call, work: F) -> Result<Done<T>, Error>
    where
        T: Serialize + DeserializeOwned + Send + 'static,
        F: for<'a> FnMut(&'a mut PgConnection) -> Working<'a, T> + Send + 'static,
    {
        let (boundary, pool) = (self.clone(), pool.clone());
        let running = tokio::spawn(async move { boundary.run(&pool, &call, work).await });
        match running.await {
            Ok(done) => done,
            Err(ended) => {
                let error = format!("the work did not end: {ended}").into();
                Err(CallError::NotDone { error, retryable: false }.into())
            }
        }
    }

    async fn run<T, F>(&self, pool: &PgPool, call: &Call, mut work: F) -> Result<Done<T>, Error>
    where
        T: Serialize + DeserializeOwned + Send + 'static,
        F: for<'a> FnMut(&'a mut PgConnection) -> Working<'a, T> + Send + 'static,
    {
        let mut runs = 0;
        loop {
            runs += 1;
            match self.run_once(pool, call, &mut work).await {
                Err(error) if error.asks_for_rerun() && runs < RUNS_MAX => {
                    let longest = PAUSE.saturating_mul(1 << (runs - 1)).min(PAUSE_MAX);
                    tokio::time::sleep(longest.mul_f64(rand::random::<f64>())).await;
                }
                done => return done,
            }
        }
    }

    async fn run_once<T, F>(&self, pool: &PgPool, call: &Call, work: &mut F) -> Result<Done<T>, Error>
    where
        T: Serialize + DeserializeOwned + Send + 'static,
        F: for<'a> FnMut(&'a mut PgConnection) -> Working<'a, T> + Send + 'static,
    {
        let mut connection = connection(pool).await?;
        let mut tx = connection.begin().await?;
        let mut claim = match self.claim::<T>(&mut tx, call).await? {
            Claimed::Known(done) => return Ok(done),
            Claimed::Begun(claim) => claim,
        };
        let verdict = work(&mut tx).await.map_err(failed)?;
        if matches!(verdict, Verdict::Rejected { .. }) {
            // Without the writes of the work, and whoever comes first in between counts.
            tx.rollback().await?;
            tx = connection.begin().await?;
            claim = match self.claim::<T>(&mut tx, call).await? {
                Claimed::Known(done) => return Ok(done),
                Claimed::Begun(claim) => claim,
            };
        }
        // An error here is the only sign that the server has ended the transaction: its commit would report success.
        let done = claim.finish(&mut tx, verdict).await?;
        tx.commit().await.map_err(|error| match asks_for_rerun(&error) {
            true => Error::Database(error),
            false => CallError::StoreUnavailable(format!("the commit is not answered: {error}")).into(),
        })?;
        Ok(done)
    }
}

/// A connection that is in no transaction. One that is, was left there by somebody whose `begin` was cancelled: what is
/// committed there may be lost, so it is closed.
async fn connection(pool: &PgPool) -> Result<PoolConnection<Postgres>, Error> {
    loop {
        let connection = pool.acquire().await?;
        if !connection.is_in_transaction() {
            return Ok(connection);
        }
        connection.close().await?;
    }
}

/// The closure's error: one of the database that asks for another run, or that nothing is done.
fn failed(error: BoxError) -> Error {
    match error.downcast::<sqlx::Error>() {
        Ok(database) if asks_for_rerun(&database) => Error::Database(*database),
        Ok(database) => CallError::NotDone { error: database, retryable: true }.into(),
        Err(error) => CallError::NotDone { error, retryable: true }.into(),
    }
}
