//! A connection that has a transaction open.
//!
//! It goes back to its pool only when it is said that the transaction has ended. Dropped before (a panic, a future that
//! nobody waits for any longer), it is closed, and the server undoes what was not committed.
//!
//! A server does not notice that a connection is gone while it works for it, or waits for a lock. So the statements
//! of a closure run under a time limit of the server's own, set for the transaction alone, which any pooler passes
//! on: none runs on for longer than [`AFTER_MAX`] and a quarter of the closure's time when that is over, whatever
//! became of this process.

use std::ops::Deref;
use std::time::Duration;

use deadpool_postgres::Object;
use onefold_store::crash;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, timeout};
use tokio_postgres::Client;

use crate::error::Failed;
use crate::prepared::{self, Prepared};
use crate::server::Params;

/// How long a connection may take to end its transaction before it is closed instead.
const ROLLBACK_MAX: Duration = Duration::from_secs(2);
/// What a statement is granted beyond the closure's time: the last one, which writes the record, has it for itself.
const AFTER_MAX: Duration = Duration::from_secs(2);

pub(crate) struct Held {
    connection: Option<Object>,
    time: Option<ClosureTime>,
    /// The server's limit for each statement, where it was set before the closure began.
    limit: Option<Duration>,
    /// Among the connections that closures may hold at once.
    _place: Option<OwnedSemaphorePermit>,
}

/// How long the statements of a closure may run.
struct ClosureTime {
    most: Duration,
    ends: Instant,
    /// The server's limit for each statement.
    limit: Option<Duration>,
}

impl ClosureTime {
    /// The limit that the server needs for a statement which begins now, unless the one that it has will do.
    fn renewed(&mut self, now: Instant) -> Option<Duration> {
        let left = self.ends.saturating_duration_since(now) + AFTER_MAX;
        if self.limit.is_some_and(|limit| limit <= left + self.most / 4) {
            return None;
        }
        self.limit = Some(left);
        self.limit
    }
}

impl Held {
    pub(crate) fn new(connection: Object) -> Held {
        Held { connection: Some(connection), time: None, limit: None, _place: None }
    }

    /// One for a closure, which may hold it long.
    pub(crate) fn for_closure(connection: Object, place: OwnedSemaphorePermit) -> Held {
        Held { connection: Some(connection), time: None, limit: None, _place: Some(place) }
    }

    /// The statements that begin a transaction for a closure of this time: its first statement needs no limit of its
    /// own then.
    pub(crate) fn begin(&mut self, most: Duration) -> String {
        format!("BEGIN; {}", limit_to(self.limited_from_the_start(most)))
    }

    /// The limit for each statement that is set with the beginning of a transaction for a closure of this time.
    pub(crate) fn limited_from_the_start(&mut self, most: Duration) -> Duration {
        *self.limit.insert(most + AFTER_MAX)
    }

    /// A closure begins, whose statements end with its time.
    pub(crate) fn closure_begins(&mut self, most: Duration) {
        self.time = Some(ClosureTime { most, ends: Instant::now() + most, limit: self.limit.take() });
    }

    /// What must be sent before the next statement of the closure, if anything.
    pub(crate) fn limit(&mut self) -> Option<String> {
        let limit = self.time.as_mut()?.renewed(Instant::now())?;
        Some(limit_to(limit))
    }

    /// Whether statements are prepared here.
    pub(crate) fn prepares(&self) -> bool {
        self.connection.as_ref().is_some_and(|connection| prepared::may_be(connection))
    }

    /// A statement that will be sent here: see [`Prepared::on`].
    pub(crate) async fn prepared<'s>(
        &self,
        sql: &'s str,
        params: &Params<'_>,
    ) -> Result<Prepared<'s>, tokio_postgres::Error> {
        let connection = self.connection.as_ref().expect("it is given back by value");
        Prepared::on(connection, sql, params).await
    }

    /// The transaction has ended.
    pub(crate) fn give_back(mut self) {
        drop(self.connection.take());
    }

    /// Undoes everything and gives the connection back. Where that fails the connection is closed, which undoes it too.
    pub(crate) async fn roll_back(self) {
        crash::point("postgres.rollback.before");
        // Behind a statement that was given up it would wait for that one's end.
        if let Ok(Ok(())) = timeout(ROLLBACK_MAX, self.batch_execute("ROLLBACK")).await {
            crash::point("postgres.rollback.after");
            self.give_back();
        }
    }

    /// A statement has failed so: everything is undone, and a connection that is of no more use is closed.
    pub(crate) async fn failed(self, failed: Failed) -> Failed {
        if !failed.ends_connection() {
            self.roll_back().await;
        }
        failed
    }
}

fn limit_to(limit: Duration) -> String {
    format!("SET LOCAL statement_timeout = {}", limit.as_millis())
}

impl Deref for Held {
    type Target = Client;

    fn deref(&self) -> &Client {
        self.connection.as_ref().expect("it is given back by value")
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            drop(Object::take(connection));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_statement_may_end_later_than_a_quarter_and_the_last_ones_own_time_after_the_closure() {
        let (most, now) = (Duration::from_secs(8), Instant::now());
        let mut time = ClosureTime { most, ends: now + most, limit: None };
        let mut limits = Vec::new();
        for second in 0..=8 {
            let begins = now + Duration::from_secs(second);
            limits.extend(time.renewed(begins));
            let ends = begins + time.limit.expect("the first statement sets one");
            assert!(ends <= now + most + AFTER_MAX + most / 4, "a statement of second {second}");
        }
        assert_eq!(
            limits,
            [10, 7, 4].map(Duration::from_secs),
            "it is set when it must be, and not each time"
        );
    }
}
