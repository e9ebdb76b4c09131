//! One transaction of the writer, with what its jobs share.
//!
//! A batch has one time. What it grants is noted only after its commit. The quota counters that claims move are
//! collected and written once for each scope. A job of one writing statement is atomic by itself; a job of several
//! runs in a savepoint, so that it fails alone.

use std::collections::HashMap;

use onefold_store::{Grant, Judge, Moment};
use rusqlite::{Connection, OptionalExtension, params};

use crate::error::JobError;

const CLOCK: &str = "SELECT at, seq FROM clock WHERE one = 1";
const SET_CLOCK: &str = "UPDATE clock SET at = ?1, seq = ?2 WHERE one = 1";
const LIVE: &str = "SELECT live FROM scopes WHERE scope = ?1";
const ADD_LIVE: &str = "INSERT INTO scopes (scope, live) VALUES (?1, ?2)
    ON CONFLICT (scope) DO UPDATE SET live = live + excluded.live";
const LESS_LIVE: &str = "UPDATE scopes SET live = live - 1 WHERE scope = ?1";
const NONE_LIVE: &str = "DELETE FROM scopes WHERE scope = ?1 AND live <= 0";
const SAVE: &str = "SAVEPOINT job";
const KEEP: &str = "RELEASE job";
const UNDO: &str = "ROLLBACK TO job";

#[cfg(test)]
pub(crate) const SQL: &[&str] = &[CLOCK, SET_CLOCK, LIVE, ADD_LIVE, LESS_LIVE, NONE_LIVE];

/// One transaction of the writer.
pub(crate) struct Batch<'c> {
    pub(crate) connection: &'c Connection,
    pub(crate) judge: &'c Judge,
    /// The time of everything in this transaction.
    pub(crate) moment: Moment,
    seq: i64,
    wrote: bool,
    claimed: HashMap<Vec<u8>, i64>,
    grants: Vec<Grant>,
}

impl<'c> Batch<'c> {
    /// The first thing in a transaction: takes the time, no earlier than what any process has committed.
    pub(crate) fn start(connection: &'c Connection, judge: &'c Judge) -> rusqlite::Result<Batch<'c>> {
        let (at, seq) = connection
            .prepare_cached(CLOCK)?
            .query_row([], |row| Ok((row.get::<_, i64>(0)?, row.get(1)?)))?;
        let moment = judge.timeline().at_least(onefold_core::StoreTime(at));
        Ok(Batch {
            connection,
            judge,
            moment,
            seq,
            wrote: false,
            claimed: HashMap::new(),
            grants: Vec::new(),
        })
    }

    /// The time in milliseconds.
    pub(crate) fn now_ms(&self) -> i64 {
        self.moment.time.0
    }

    /// Something was written, so the time has to be written too.
    pub(crate) fn wrote(&mut self) {
        self.wrote = true;
    }

    /// The next number in the order of making. A number that is not used is lost, not given again.
    pub(crate) fn next_seq(&mut self) -> i64 {
        self.seq += 1;
        self.seq
    }

    /// A lease was given or ended.
    pub(crate) fn grant(&mut self, grant: Grant) {
        self.grants.push(grant);
    }

    /// How many live records the scope has, those of this transaction included.
    pub(crate) fn live(&self, scope: &[u8]) -> rusqlite::Result<i64> {
        let stored: Option<i64> =
            self.connection.prepare_cached(LIVE)?.query_row([scope], |row| row.get(0)).optional()?;
        Ok(stored.unwrap_or(0) + self.claimed.get(scope).copied().unwrap_or(0))
    }

    /// A claim has made a live record.
    pub(crate) fn one_claimed(&mut self, scope: &[u8]) {
        match self.claimed.get_mut(scope) {
            Some(count) => *count += 1,
            None => {
                self.claimed.insert(scope.to_vec(), 1);
            }
        }
    }

    /// A tombstone is a live record again.
    pub(crate) fn one_more(&self, scope: &[u8]) -> rusqlite::Result<()> {
        self.connection.prepare_cached(ADD_LIVE)?.execute(params![scope, 1])?;
        Ok(())
    }

    /// A live record has ended.
    pub(crate) fn one_less(&self, scope: &[u8]) -> rusqlite::Result<()> {
        self.connection.prepare_cached(LESS_LIVE)?.execute([scope])?;
        self.connection.prepare_cached(NONE_LIVE)?.execute([scope])?;
        Ok(())
    }

    /// Runs a job of several writing statements, all of which happen or none.
    pub(crate) fn in_savepoint<A>(
        &mut self,
        job: impl FnOnce(&mut Batch<'c>) -> Result<A, JobError>,
    ) -> Result<A, JobError> {
        let grants = self.grants.len();
        self.connection.prepare_cached(SAVE)?.execute([])?;
        let done = job(self);
        if let Err(JobError::Job(_)) = done {
            self.grants.truncate(grants);
            self.connection.prepare_cached(UNDO)?.execute([])?;
        }
        self.connection.prepare_cached(KEEP)?.execute([])?;
        done
    }

    /// Writes what claims have collected, before somebody changes the stored counters by hand.
    pub(crate) fn write_claimed(&mut self) -> rusqlite::Result<()> {
        for (scope, count) in self.claimed.drain() {
            self.connection.prepare_cached(ADD_LIVE)?.execute(params![scope, count])?;
        }
        Ok(())
    }

    /// The last thing before the commit. Says whether there is anything to commit.
    pub(crate) fn finish(&mut self) -> rusqlite::Result<bool> {
        if !self.wrote {
            return Ok(false);
        }
        self.write_claimed()?;
        self.connection.prepare_cached(SET_CLOCK)?.execute(params![self.moment.time.0, self.seq])?;
        Ok(true)
    }

    /// The leases that were given or ended, to be noted after the commit.
    pub(crate) fn into_grants(self) -> Vec<Grant> {
        self.grants
    }
}
