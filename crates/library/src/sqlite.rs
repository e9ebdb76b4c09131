//! The boundary over a SQLite file: opening it, and atomic mode in our transaction with your closure.

use std::path::Path;
use std::sync::Arc;

use onefold_store::Ended;
use onefold_store_sqlite::{FileUse, OpenError, Options, SqliteStore, SqliteTx, SqliteWork};
use rusqlite::ErrorCode;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::ties::Ties;
use crate::verdict::{BoxError, Verdict};
use crate::{AtomicEngine, Call, CallError, Done, Limits, Onefold};

impl Onefold<SqliteStore> {
    /// Over a SQLite file, which is made if there is none. It may be the service's own, with tables of its own: those
    /// of the layer begin with `onefold_`. Its journal must be the write-ahead log. Blocks; an error has changed
    /// nothing.
    pub fn sqlite(path: impl AsRef<Path>) -> Result<Onefold, OpenError> {
        let options = Options { file_use: FileUse::Shared, ..Options::default() };
        Onefold::open(path, options, Limits::default())
    }

    /// The same, with other options and limits. A clock of the host that is behind the latest time in the store is told in
    /// the log.
    ///
    /// # Errors
    /// Everything is looked at before anything is changed: [`OpenError`] says what stands in the way (a file of another
    /// program, a later release's, one without the write-ahead log, a missing key, a folder that is not there, a lock that
    /// is held).
    pub fn open(path: impl AsRef<Path>, options: Options, limits: Limits) -> Result<Onefold, OpenError> {
        let store = Arc::new(SqliteStore::open(path, options)?);
        Ok(Onefold::over(AtomicEngine::new(store, "library", limits)))
    }

    /// Performs the operation in one transaction: what the closure writes and the record of its result are committed
    /// together or not at all.
    ///
    /// The closure gets the transaction and nothing else, because it may run again when the database asks for that,
    /// and because an effect outside of the database cannot be rolled back. It runs on the writer's thread, so it
    /// must be short. An error undoes everything, and the key is free: the rollback proves that nothing happened. A
    /// panic counts as an error.
    ///
    /// Errors say whether a new key is safe ([`CallError::new_key_is_safe`]). Cancellation: a call whose future is
    /// dropped is committed whole or not at all; the same call made again says which.
    ///
    /// Nothing in the closure can wait:
    ///
    /// ```compile_fail
    /// # use onefold::{Call, Onefold, Verdict};
    /// # async fn charge() -> i64 { 7 }
    /// # async fn example(onefold: Onefold, call: Call) {
    /// onefold.atomic(call, |tx| { let charged = charge().await; Ok(Verdict::succeeded(charged)) }).await;
    /// # }
    /// ```
    ///
    /// nor can the closure be a future that would wait later:
    ///
    /// ```compile_fail
    /// # use onefold::{Call, Onefold, Verdict};
    /// # async fn charge() -> i64 { 7 }
    /// # async fn example(onefold: Onefold, call: Call) {
    /// onefold.atomic(call, |tx| async { let charged = charge().await; Ok(Verdict::succeeded(charged)) }).await;
    /// # }
    /// ```
    ///
    /// nor can the transaction leave it:
    ///
    /// ```compile_fail
    /// # use onefold::{Call, Onefold, Verdict};
    /// # async fn example(onefold: Onefold, call: Call) {
    /// let mut kept = None;
    /// onefold.atomic(call, |tx| { kept = Some(tx); Ok(Verdict::succeeded(())) }).await;
    /// # }
    /// ```
    ///
    /// while the same without those lines compiles:
    ///
    /// ```
    /// # use onefold::{Call, Onefold, Verdict};
    /// # async fn example(onefold: Onefold, call: Call) {
    /// let done = onefold.atomic(call, |tx| {
    ///     let charged = tx.query_row("SELECT 7", [], |row| row.get::<_, i64>(0))?;
    ///     Ok(Verdict::succeeded(charged))
    /// }).await;
    /// # }
    /// ```
    pub async fn atomic<T, F>(&self, call: Call, work: F) -> Result<Done<T>, CallError>
    where
        T: Serialize + DeserializeOwned + Send + 'static,
        F: FnMut(&mut SqliteTx<'_>) -> Result<Verdict<T>, BoxError> + Send + 'static,
    {
        let ties = Ties::of(&call);
        self.perform(call, |word| {
            let mut work = work;
            SqliteWork::new(move |tx| {
                ties.on_sqlite(tx);
                let said = work(tx);
                let contended = match &said {
                    Err(error) | Ok(Verdict::Unknown { error }) => contended(&**error),
                    Ok(_) => None,
                };
                let ended = word.of(said);
                contended.map_or(ended, Ended::Again)
            })
        })
        .await
    }
}

/// Whether the database asks for another run.
pub(crate) fn contended(error: &(dyn std::error::Error + 'static)) -> Option<String> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        let code = error.downcast_ref::<rusqlite::Error>().and_then(rusqlite::Error::sqlite_error_code);
        if let Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) = code {
            return Some(error.to_string());
        }
        cause = error.source();
    }
    None
}
