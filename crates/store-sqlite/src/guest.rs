//! Records in a transaction that somebody else owns, on the same file.
//!
//! What is written becomes visible and durable with the owner's commit, so the owner's connection must keep the log and
//! sync it. The unique digest is the judge, and SQLite's one write lock lets one transaction in at a time. Leases that
//! are given here are judged by their stored times.

use onefold_store::{Advance, Advanced, Claim, Claimed, StoreError, crash};
use rusqlite::Transaction;

use crate::advance::{self, AdvanceWork};
use crate::batch::Batch;
use crate::claim::{self, ClaimWork};
use crate::error::{JobError, unavailable};
use crate::fence::Fence;
use crate::file::FileId;
use crate::store::SqliteStore;

/// `PRAGMA synchronous`: a commit syncs the log.
const FULL: i64 = 2;

impl SqliteStore {
    /// Makes the record in the transaction, if there is none.
    pub fn claim_in(&self, transaction: &Transaction<'_>, claim: Claim) -> Result<Claimed, StoreError> {
        let work = ClaimWork::new(claim);
        let claimed = self.in_transaction(transaction, |batch| claim::run(&work, batch))?;
        self.claimed(claimed)
    }

    /// Carries out a transition in the transaction, if the record is found where it starts.
    pub fn advance_in(
        &self,
        transaction: &Transaction<'_>,
        advance: Advance,
    ) -> Result<Advanced, StoreError> {
        let work = AdvanceWork::new(advance, &self.sealer);
        let advanced = self.in_transaction(transaction, |batch| advance::run(&work, batch))?;
        self.advanced(advanced)
    }

    fn in_transaction<A>(
        &self,
        transaction: &Transaction<'_>,
        job: impl FnOnce(&mut Batch<'_>) -> Result<A, JobError>,
    ) -> Result<A, StoreError> {
        let lost = |error: rusqlite::Error| unavailable(&error);
        self.check_guest(transaction)?;
        let fence = Fence::default();
        let mut batch = Batch::start(transaction, &self.judge, &self.identity_key, &fence).map_err(lost)?;
        crash::point("sqlite.guest.before");
        let done = job(&mut batch).map_err(|error| match error {
            JobError::Job(error) | JobError::Batch(error) => error,
        })?;
        if !batch.finish().map_err(lost)? {
            // A scope that was given a number for nothing goes again.
            batch.write_claimed().map_err(lost)?;
        }
        crash::point("sqlite.guest.after");
        Ok(done)
    }

    /// That a commit of this connection is one of our file, and durable.
    fn check_guest(&self, transaction: &Transaction<'_>) -> Result<(), StoreError> {
        let refused = |why: &str| Err(StoreError::Refused(why.into()));
        let path = transaction.path().map(std::path::Path::new);
        if path.and_then(|path| FileId::at(path).ok()) != Some(self.file) {
            return refused("the transaction is on another file than the store");
        }
        let number = |sql: &str| transaction.query_row(sql, [], |row| row.get::<_, i64>(0));
        if number("PRAGMA synchronous").map_err(|error| unavailable(&error))? < FULL {
            return refused(
                "the connection does not sync its commits; set `PRAGMA synchronous = FULL` on it",
            );
        }
        let log = transaction.query_row("PRAGMA journal_mode", [], |row| row.get::<_, String>(0));
        if log.map_err(|error| unavailable(&error))? != "wal" {
            return refused("the connection does not keep a write-ahead log");
        }
        Ok(())
    }
}
