//! The commit of a transaction with its record, and what became of it where nobody answered.
//!
//! *After a crash* there are the record and what the closure wrote, or neither. Where the answer alone is lost, the
//! key's lock says when the server has ended the transaction, and the record says how.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use onefold_core::OperationId;
use onefold_store::{Atomically, StoreError};
use tokio::time::Instant;
use tokio_postgres::error::SqlState;

use super::key_lock::beginning;
use super::{Finished, Stopped, begun, bounded};
use crate::error::Failed;
use crate::held::Held;
use crate::read;
use crate::store::PostgresStore;

/// What became of a transaction whose commit was not answered. The lock says that the server has ended it. From
/// `gone_from` on its record may be gone again; where it is missing then, nobody knows.
pub(super) async fn fate(
    id: OperationId,
    nonce: i64,
    gone_from: Option<Instant>,
    why: String,
    finished: Finished,
    store: &PostgresStore,
) -> Result<Atomically, Stopped> {
    tracing::debug!(%why, "the answer to a commit was lost; the record is looked for");
    let held = Held::new(store.server().connection().await?);
    let found = bounded(async {
        held.batch_execute(&beginning(id)).await.map_err(|error| begun(&error))?;
        held.batch_execute("ROLLBACK").await.map_err(|error| Failed::of(&error))
    });
    found.await.map_err(|error| unknown(&why, StoreError::from(error)))?;
    held.give_back();
    let read = read::one(id, store.server()).await.map_err(|error| unknown(&why, error))?;
    match read.record {
        Some(raw) if raw.nonce == nonce => {
            let now = raw.record.completed_at.unwrap_or(read.now);
            Ok(finished.committed(now, raw.record.attempt, raw.record.expires_at, store))
        }
        None if gone_from.is_some_and(|from| from <= Instant::now()) => {
            Err(unknown(&why, StoreError::Unavailable("its record may be gone since".into())))
        }
        _ => Err(Stopped::contended(format!("the connection was lost before the commit: {why}"))),
    }
}

fn unknown(first: &str, then: StoreError) -> Stopped {
    Stopped::Store(StoreError::Unavailable(format!("the answer to a commit was lost ({first}); {then}")))
}

/// What was answered to the last statement of a transaction, and to the commit behind it.
pub(crate) type Answers<A> = (Result<A, tokio_postgres::Error>, Result<(), tokio_postgres::Error>);

/// How a transaction ended that was to be committed.
pub(crate) enum End<A> {
    /// It is durable; so its last statement was answered.
    Done(A),
    /// It is undone: a row stands already where its last statement was to make one.
    Exists,
    /// Nobody answered.
    Lost(String),
}

/// Judges how a transaction ended whose last statement writes to this table. Where that is known its connection is
/// given back; otherwise it is closed, so that the server need not wait for us.
pub(crate) async fn ended<A>(
    held: Held,
    table: &str,
    asked: Result<Answers<A>, Failed>,
) -> Result<End<A>, Stopped> {
    let (written, error) = match asked {
        Ok((Ok(answer), Ok(()))) => {
            held.give_back();
            return Ok(End::Done(answer));
        }
        Ok((Ok(_), Err(error))) => (true, error),
        Ok((Err(error), _)) => (false, error),
        Err(Failed::Lost(why)) => return Ok(End::Lost(why)),
        Err(other) => return Err(other.into()),
    };
    let failed = match Failed::of(&error) {
        Failed::Lost(why) => return Ok(End::Lost(why)),
        failed => held.failed(failed).await,
    };
    if written {
        return Err(uncommitted(failed, error.code()));
    }
    let ours = error.as_db_error().and_then(|told| told.table()) == Some(table)
        && error.as_db_error().and_then(|told| told.schema()) == Some("onefold");
    if ours && error.code() == Some(&SqlState::UNIQUE_VIOLATION) {
        return Ok(End::Exists);
    }
    let waited = [SqlState::QUERY_CANCELED, SqlState::LOCK_NOT_AVAILABLE];
    if error.code().is_some_and(|code| waited.contains(code)) {
        // For a transaction that is open and about to make the record.
        return Err(Stopped::busy());
    }
    Err(failed.into())
}

/// Why a transaction is undone whose statements went well.
fn uncommitted(failed: Failed, code: Option<&SqlState>) -> Stopped {
    match failed {
        Failed::Refused(why) | Failed::Denied(why) | Failed::Server(why)
            if code.is_some_and(is_of_the_work) =>
        {
            let why = format!("what the closure wrote cannot be committed: {why}");
            Stopped::undone(Atomically::Stopped(why))
        }
        other => other.into(),
    }
}

/// Whether an error of a commit is about what was written, such as that of a constraint or a trigger that looks only
/// then, and not about the state of the server (classes of SQLSTATE: resources, objects in use, intervention, system,
/// settings).
fn is_of_the_work(code: &SqlState) -> bool {
    !["53", "55", "57", "58", "F0", "XX"].iter().any(|class| code.code().starts_with(class))
}

/// Sends a statement and the one behind it in one round trip; the second only when the first could be written, or it
/// would commit what the first should have completed.
pub(crate) async fn in_turn<A, E>(
    first: impl Future<Output = Result<A, E>>,
    then: impl Future<Output = Result<(), E>>,
) -> (Result<A, E>, Result<(), E>) {
    let mut first = pin!(first);
    // A statement is written at the first look at its future.
    match poll_fn(|context| Poll::Ready(first.as_mut().poll(context))).await {
        Poll::Ready(Err(error)) => (Err(error), Ok(())),
        Poll::Ready(done) => (done, then.await),
        Poll::Pending => tokio::join!(biased; first, then),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_commit_is_not_sent_behind_a_statement_that_could_not_be_written() {
        let mut sent = false;
        let commit = async {
            sent = true;
            Ok::<(), &str>(())
        };
        let done = in_turn(std::future::ready(Err::<(), _>("too long")), commit).await;
        assert_eq!((done, sent), ((Err("too long"), Ok(())), false));
    }

    #[tokio::test]
    async fn a_commit_is_sent_before_the_statement_in_front_of_it_is_answered() {
        let (answer, answered) = tokio::sync::oneshot::channel::<()>();
        let statement = async { answered.await.map_err(|_| "no answer") };
        let commit = async { answer.send(()).map_err(|()| "it is gone") };
        assert_eq!(in_turn(statement, commit).await, (Ok(()), Ok(())));
    }
}
