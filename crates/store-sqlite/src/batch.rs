//! One transaction of the writer, with what its jobs share.
//!
//! The time of a batch never runs back; it is that of the portion of jobs that is being done, so nobody is answered
//! with a time before his asking. What a batch grants is noted only after its commit. Scopes are looked up once, and
//! the quota counters that claims move are collected and written once for each scope. A job of which only the first
//! writing statement can fail by itself is atomic as it is; any other runs in a savepoint, so that it fails alone.

use std::collections::HashMap;

use onefold_core::{FingerprintBuilder, IdentityKey, StoreTime};
use onefold_store::{Grant, Judge, Moment, crash};
use rusqlite::{CachedStatement, Connection, OptionalExtension, params};

use crate::error::JobError;
use crate::fence::Fence;
use crate::hot::{Hot, Statements};

const CLOCK: &str = "SELECT at, seq FROM onefold_clock WHERE one = 1";
const SET_CLOCK: &str = "UPDATE onefold_clock SET at = ?1, seq = ?2 WHERE one = 1";
const SCOPE: &str = "SELECT number, live FROM onefold_scopes WHERE digest = ?1";
const NEW_SCOPE: &str = "INSERT INTO onefold_scopes (digest, live, scope) VALUES (?1, 0, ?2)";
const ADD_LIVE: &str = "UPDATE onefold_scopes SET live = live + ?2 WHERE number = ?1";
const NONE_LIVE: &str = "DELETE FROM onefold_scopes WHERE number = ?1 AND live <= 0";
const SAVE: &str = "SAVEPOINT job";
const KEEP: &str = "RELEASE job";
const UNDO: &str = "ROLLBACK TO job";

#[cfg(test)]
pub(crate) const SQL: &[&str] = &[CLOCK, SET_CLOCK, SCOPE, NEW_SCOPE, ADD_LIVE, NONE_LIVE];

/// A scope in this transaction.
#[derive(Clone, Copy)]
pub(crate) struct ScopeFound {
    /// What records of it carry.
    pub(crate) number: i64,
    /// How many live records it has, those of this transaction included.
    pub(crate) live: i64,
    place: usize,
}

struct Live {
    number: i64,
    stored: i64,
    claimed: i64,
}

/// One transaction of the writer.
pub(crate) struct Batch<'c> {
    pub(crate) connection: &'c Connection,
    pub(crate) judge: &'c Judge,
    pub(crate) identity_key: &'c IdentityKey,
    /// The time of what is being done.
    pub(crate) moment: Moment,
    /// The latest number that was given.
    pub(crate) seq: i64,
    wrote: bool,
    messages_wait: bool,
    /// The scopes that claims have looked up.
    scopes: HashMap<Vec<u8>, usize>,
    live: Vec<Live>,
    statements: Statements<'c>,
    grants: Vec<Grant>,
    /// Around the closures of others.
    pub(crate) fence: &'c Fence,
}

impl<'c> Batch<'c> {
    /// The first thing in a transaction: takes the time, no earlier than what any process has committed.
    pub(crate) fn start(
        connection: &'c Connection,
        judge: &'c Judge,
        identity_key: &'c IdentityKey,
        fence: &'c Fence,
    ) -> rusqlite::Result<Batch<'c>> {
        let (at, seq) = connection
            .prepare_cached(CLOCK)?
            .query_row([], |row| Ok((row.get::<_, i64>(0)?, row.get(1)?)))?;
        let moment = judge.timeline().at_least(StoreTime(at));
        Ok(Batch {
            connection,
            judge,
            identity_key,
            moment,
            seq,
            wrote: false,
            messages_wait: false,
            scopes: HashMap::new(),
            live: Vec::new(),
            statements: Statements::default(),
            grants: Vec::new(),
            fence,
        })
    }

    /// A new portion of jobs is begun.
    pub(crate) fn look_at_the_clock(&mut self) {
        self.moment = self.judge.timeline().now();
    }

    /// The time in milliseconds.
    pub(crate) fn now_ms(&self) -> i64 {
        self.moment.time.0
    }

    /// Something was written, so the time has to be written too.
    pub(crate) fn wrote(&mut self) {
        self.wrote = true;
    }

    /// Messages wait to be sent once it is committed.
    pub(crate) fn messages_wait(&mut self) {
        self.messages_wait = true;
    }

    /// Whether relays are to be told.
    pub(crate) fn do_messages_wait(&self) -> bool {
        self.messages_wait
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

    /// A statement that is at hand.
    pub(crate) fn hot(&mut self, hot: Hot) -> rusqlite::Result<&mut CachedStatement<'c>> {
        self.statements.get(hot, self.connection)
    }

    /// The scope, which gets a number if it has none.
    pub(crate) fn scope(&mut self, scope: &[u8]) -> rusqlite::Result<ScopeFound> {
        let place = match self.scopes.get(scope) {
            Some(place) => *place,
            None => {
                let (number, stored) = self.stored_scope(scope)?;
                self.scopes.insert(scope.to_vec(), self.live.len());
                self.live.push(Live { number, stored, claimed: 0 });
                self.live.len() - 1
            }
        };
        let Live { number, stored, claimed } = self.live[place];
        Ok(ScopeFound { number, live: stored + claimed, place })
    }

    fn stored_scope(&self, scope: &[u8]) -> rusqlite::Result<(i64, i64)> {
        let digest = FingerprintBuilder::new(self.identity_key).part("scope", scope).finish().digest;
        let found = self
            .connection
            .prepare_cached(SCOPE)?
            .query_row([digest], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        match found {
            Some(found) => Ok(found),
            None => {
                let number = self.connection.prepare_cached(NEW_SCOPE)?.insert(params![digest, scope])?;
                crash::point("sqlite.scope.after");
                Ok((number, 0))
            }
        }
    }

    /// A claim has made a live record.
    pub(crate) fn one_claimed(&mut self, scope: ScopeFound) {
        self.live[scope.place].claimed += 1;
    }

    /// A tombstone is a live record again. Returns the number of its scope.
    pub(crate) fn one_more(&self, scope: &[u8]) -> rusqlite::Result<i64> {
        let (number, _) = self.stored_scope(scope)?;
        self.connection.prepare_cached(ADD_LIVE)?.execute([number, 1])?;
        Ok(number)
    }

    /// A live record has ended.
    pub(crate) fn one_less(&self, number: i64) -> rusqlite::Result<()> {
        self.connection.prepare_cached(ADD_LIVE)?.execute([number, -1])?;
        self.connection.prepare_cached(NONE_LIVE)?.execute([number])?;
        Ok(())
    }

    /// Runs a job of several writing statements, all of which happen or none.
    pub(crate) fn in_savepoint<A>(
        &mut self,
        job: impl FnOnce(&mut Batch<'c>) -> Result<A, JobError>,
    ) -> Result<A, JobError> {
        let grants = self.grants.len();
        self.save()?;
        let done = job(self);
        match done {
            Ok(_) => {}
            Err(JobError::Job(_)) => {
                self.grants.truncate(grants);
                self.undo()?;
            }
            Err(lost) => return Err(lost),
        }
        self.keep()?;
        done
    }

    /// Opens the savepoint of a job.
    pub(crate) fn save(&self) -> rusqlite::Result<()> {
        self.connection.prepare_cached(SAVE)?.execute([])?;
        crash::point("sqlite.save.after");
        Ok(())
    }

    /// Undoes what was written since the savepoint, which stays open.
    pub(crate) fn undo(&self) -> rusqlite::Result<()> {
        crash::point("sqlite.undo.before");
        self.connection.prepare_cached(UNDO)?.execute([])?;
        crash::point("sqlite.undo.after");
        Ok(())
    }

    /// Closes the savepoint; what was written since is part of the transaction.
    pub(crate) fn keep(&self) -> rusqlite::Result<()> {
        crash::point("sqlite.keep.before");
        self.connection.prepare_cached(KEEP)?.execute([])?;
        crash::point("sqlite.keep.after");
        Ok(())
    }

    /// Writes what claims have collected, before somebody changes the stored counters by hand.
    pub(crate) fn write_claimed(&mut self) -> rusqlite::Result<()> {
        self.scopes.clear();
        for Live { number, stored, claimed } in self.live.drain(..) {
            if claimed > 0 {
                crash::point("sqlite.live.before");
                self.connection.prepare_cached(ADD_LIVE)?.execute([number, claimed])?;
                crash::point("sqlite.live.after");
            } else if stored <= 0 {
                // It was given a number for a claim that was not won.
                self.connection.prepare_cached(NONE_LIVE)?.execute([number])?;
            }
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
        crash::point("sqlite.clock.after");
        Ok(true)
    }

    /// The leases that were given or ended, to be noted after the commit.
    pub(crate) fn into_grants(self) -> Vec<Grant> {
        self.grants
    }
}
