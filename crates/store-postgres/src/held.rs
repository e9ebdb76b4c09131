//! A connection that has a transaction open.
//!
//! It goes back to its pool only when it is said that the transaction has ended. Dropped before (a panic, a future that
//! nobody waits for any longer), it is closed, and the server undoes what was not committed.

use std::ops::Deref;
use std::time::Duration;

use deadpool_postgres::Object;
use onefold_store::crash;
use tokio::time::timeout;
use tokio_postgres::Client;

/// How long a connection may take to end its transaction before it is closed instead.
const ROLLBACK_MAX: Duration = Duration::from_secs(2);

pub(crate) struct Held(Option<Object>);

impl Held {
    pub(crate) fn new(connection: Object) -> Held {
        Held(Some(connection))
    }

    /// The transaction has ended.
    pub(crate) fn give_back(mut self) {
        drop(self.0.take());
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
}

impl Deref for Held {
    type Target = Client;

    fn deref(&self) -> &Client {
        self.0.as_ref().expect("it is given back by value")
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(connection) = self.0.take() {
            drop(Object::take(connection));
        }
    }
}
