//! The desk between a closure and its transaction: the closure lays down what it asks for and waits, and whoever runs
//! the closure does it in the real transaction, lays down the answer, and lets the closure go on.
//!
//! The desk knows whether a closure may succeed in the end: it may not where it has given a call up before its answer
//! (an effect may be noted, and what was to follow it not be written), nor where it has gone on after a call that
//! failed.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, Waker};

use onefold_core::Message;
use onefold_store::{Ended, StoreError};
use onefold_store_postgres::TxError;
use onefold_store_sqlite::Applied;
use parking_lot::Mutex;

use super::value::Value;
use super::{AnyError, AnyRow};

/// Why nothing is kept of a closure that gave a call of its transaction up.
const LEFT: &str = "the closure went on without the answer of its transaction";

/// What a closure asks its transaction for.
pub(super) enum Ask {
    Execute(String, Vec<Value>),
    Query(String, Vec<Value>),
    Effect(String),
    ApplyIfNewer(String, i64),
    ForgetEntity(String),
    Enqueue(Message),
    EnqueueOnce(String, Message),
}

/// What it gets.
pub(super) enum Answer {
    Changed(u64),
    Rows(Vec<AnyRow>),
    Is(bool),
    Applied(Applied),
}

#[derive(Clone, Default)]
pub(super) struct Desk(Arc<Mutex<Papers>>);

#[derive(Default)]
struct Papers {
    lies: Lies,
    /// Whoever looks for the answer.
    looks: Option<Waker>,
    /// The closure waits for an answer.
    open: bool,
    /// It gave a call up.
    left: bool,
    /// The first call that failed.
    failed: Option<String>,
}

/// What lies on the desk.
#[derive(Default)]
enum Lies {
    #[default]
    Nothing,
    Asked(Ask),
    Answered(Result<Answer, AnyError>),
}

impl Desk {
    /// Asks, and waits for the answer.
    pub(super) async fn ask(&self, ask: Ask) -> Result<Answer, AnyError> {
        let _waiting = Waiting::lay_down(self, ask)?;
        poll_fn(|context| {
            let mut papers = self.0.lock();
            match std::mem::take(&mut papers.lies) {
                Lies::Answered(answer) => {
                    papers.open = false;
                    Poll::Ready(answer)
                }
                other => {
                    papers.lies = other;
                    papers.looks = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }

    /// What is asked for, if anything.
    pub(super) fn asked(&self) -> Option<Ask> {
        let mut papers = self.0.lock();
        match std::mem::take(&mut papers.lies) {
            Lies::Asked(ask) => Some(ask),
            other => {
                papers.lies = other;
                None
            }
        }
    }

    /// Lays the answer down. With most that failed the closure can no longer succeed.
    pub(super) fn answer(&self, answer: Result<Answer, AnyError>) {
        if let Err(error) = &answer
            && !may_go_on(error)
        {
            self.note_failed(error);
        }
        let mut papers = self.0.lock();
        papers.lies = Lies::Answered(answer);
        let looks = papers.looks.take();
        drop(papers);
        // Some combinators look only at what was woken.
        if let Some(looks) = looks {
            looks.wake();
        }
    }

    /// Whether the closure gave a call up.
    pub(super) fn is_left(&self) -> bool {
        self.0.lock().left
    }

    /// A call failed: the closure can no longer succeed.
    pub(super) fn note_failed(&self, error: &AnyError) {
        self.0.lock().failed.get_or_insert_with(|| error.to_string());
    }

    /// How a closure ends that says so.
    ///
    /// # Panics
    /// When it may not succeed and says that it does, which undoes everything.
    pub(super) fn ended(&self, ended: Ended) -> Ended {
        if matches!(ended, Ended::Finished { .. }) {
            let papers = self.0.lock();
            assert!(!papers.open && !papers.left, "{LEFT}");
            if let Some(why) = &papers.failed {
                panic!("a statement of the closure failed and the closure went on: {why}");
            }
        }
        ended
    }
}

/// Whether the desk has nothing against a closure that goes on after this.
fn may_go_on(error: &AnyError) -> bool {
    match error {
        // The id is another message's: nothing was written.
        AnyError::Postgres(TxError::IdTaken(_)) => true,
        AnyError::Sqlite(rusqlite::Error::ToSqlConversionFailure(why)) => why.is::<StoreError>(),
        // The store itself looks after it, and runs the closure again where the server asks for that.
        AnyError::Postgres(TxError::Database(_)) => true,
        _ => false,
    }
}

/// A call whose answer is waited for.
struct Waiting<'d>(&'d Desk);

impl<'d> Waiting<'d> {
    fn lay_down(desk: &'d Desk, ask: Ask) -> Result<Waiting<'d>, AnyError> {
        let mut papers = desk.0.lock();
        if papers.open || papers.left {
            papers.left = true;
            return Err(AnyError::GivenUp);
        }
        papers.open = true;
        papers.lies = Lies::Asked(ask);
        Ok(Waiting(desk))
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut papers = self.0.0.lock();
        if papers.open {
            papers.open = false;
            papers.left = true;
            papers.lies = Lies::Nothing;
        }
    }
}
