//! The statements of every claim and every outcome, kept at hand for the length of a transaction: looking one up by
//! its text costs as much as binding it.

use rusqlite::{CachedStatement, Connection};

use crate::{advance, claim, outcome};

/// A statement that is used many times in a transaction.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Hot {
    Claim,
    Lease,
    Running,
    Outcome,
    EndLease,
}

const HOT: [&str; 5] = [claim::CLAIM, claim::LEASE, advance::RUNNING, outcome::PUT, outcome::END_LEASE];

/// Those that this transaction has used.
#[derive(Default)]
pub(crate) struct Statements<'c>([Option<CachedStatement<'c>>; HOT.len()]);

impl<'c> Statements<'c> {
    /// The statement, prepared at its first use.
    pub(crate) fn get(
        &mut self,
        hot: Hot,
        connection: &'c Connection,
    ) -> rusqlite::Result<&mut CachedStatement<'c>> {
        let place = &mut self.0[hot as usize];
        match place {
            Some(statement) => Ok(statement),
            None => Ok(place.insert(connection.prepare_cached(HOT[hot as usize])?)),
        }
    }
}
