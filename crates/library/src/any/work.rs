//! Running a closure over the real transaction: it is polled until it asks for something, that is done, and so on.
//!
//! A closure that goes on without an answer that it has asked for panics at its end, which undoes everything as well.
//! On SQLite all of it happens on the writer's thread, where nothing can be waited for: a closure that waits for
//! anything but its transaction panics there, which undoes everything and is told to the caller.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use onefold_core::OperationId;
use onefold_store::Ended;
use onefold_store_postgres::{Ending, PostgresTx, PostgresWork};
use onefold_store_sqlite::{SqliteTx, SqliteWork};
use parking_lot::Mutex;

use super::tx::{Answer, Ask, Desk};
use super::value::{Value, bind};
use super::{AnyError, AnyRow, AnyTx};

/// Why nothing of a closure is kept that dropped a call of its transaction before the answer.
const LEFT: &str = "the closure went on without the answer of its transaction";

type Running = Pin<Box<dyn Future<Output = Ended> + Send>>;
type Closure = dyn FnMut(AnyTx) -> Running + Send;

/// A closure that runs in a transaction of either database. It may run again when the database asks for it.
#[derive(Clone)]
pub struct AnyWork {
    closure: Arc<Mutex<Closure>>,
    correlation: Option<String>,
}

impl AnyWork {
    /// The work that this closure does.
    pub fn new<F>(mut closure: impl FnMut(AnyTx) -> F + Send + 'static) -> AnyWork
    where
        F: Future<Output = Ended> + Send + 'static,
    {
        let closure = move |tx| {
            let running: Running = Box::pin(closure(tx));
            running
        };
        AnyWork { closure: Arc::new(Mutex::new(closure)), correlation: None }
    }

    /// Ties the messages that it makes to a workflow.
    pub fn correlated(self, id: Option<String>) -> AnyWork {
        AnyWork { correlation: id, ..self }
    }

    fn begin(&self, operation: OperationId) -> (Running, Desk) {
        let desk = Desk::new();
        let running = self.closure.lock()(AnyTx::at(desk.clone(), operation));
        (running, desk)
    }

    pub(super) fn on_sqlite(&self) -> SqliteWork {
        let work = self.clone();
        SqliteWork::new(move |tx| {
            tx.correlate(work.correlation.as_deref());
            let (mut running, desk) = work.begin(tx.operation());
            let mut context = Context::from_waker(Waker::noop());
            loop {
                if let Poll::Ready(ended) = running.as_mut().poll(&mut context) {
                    assert!(desk.is_clear(), "{LEFT}");
                    return ended;
                }
                let asked = desk.asked();
                let asked = asked.expect("on SQLite a closure waits for nothing but its transaction");
                desk.answer(sqlite(asked, tx));
            }
        })
    }

    pub(super) fn on_postgres(&self) -> PostgresWork {
        let work = self.clone();
        PostgresWork::new(move |tx| {
            tx.correlate(work.correlation.as_deref());
            let (running, desk) = work.begin(tx.operation());
            let driven: Ending<'_> = Box::pin(drive(running, desk, tx));
            driven
        })
    }
}

impl std::fmt::Debug for AnyWork {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AnyWork")
    }
}

/// What a closure does next.
enum Next {
    Ended(Ended),
    Asked(Ask),
}

async fn drive(mut running: Running, desk: Desk, tx: &mut PostgresTx) -> Ended {
    loop {
        let next = poll_fn(|context| match running.as_mut().poll(context) {
            Poll::Ready(ended) => Poll::Ready(Next::Ended(ended)),
            Poll::Pending => desk.asked().map_or(Poll::Pending, |asked| Poll::Ready(Next::Asked(asked))),
        });
        match next.await {
            Next::Ended(ended) => {
                assert!(desk.is_clear(), "{LEFT}");
                return ended;
            }
            Next::Asked(asked) => {
                let answer = postgres(asked, tx).await;
                desk.answer(answer);
            }
        }
    }
}

fn sqlite(asked: Ask, tx: &mut SqliteTx<'_>) -> Result<Answer, AnyError> {
    Ok(match asked {
        Ask::Execute(sql, params) => Answer::Changed(changed(&mut *tx.prepare(&sql)?, &params)?),
        Ask::Query(sql, params) => Answer::Rows(rows(&mut *tx.prepare(&sql)?, &params)?),
        Ask::Effect(key) => Answer::Is(tx.effect(&key)?),
        Ask::ApplyIfNewer(entity, version) => Answer::Applied(tx.apply_if_newer(&entity, version)?),
        Ask::ForgetEntity(entity) => Answer::Is(tx.forget_entity(&entity)?),
        Ask::Enqueue(message) => Answer::Is(tx.enqueue(&message)?),
        Ask::EnqueueOnce(effect, message) => Answer::Is(tx.enqueue_once(&effect, message)?),
    })
}

async fn postgres(asked: Ask, tx: &mut PostgresTx) -> Result<Answer, AnyError> {
    Ok(match asked {
        Ask::Execute(sql, params) => Answer::Changed(tx.execute_typed(&sql, &typed(&params)).await?),
        Ask::Query(sql, params) => {
            let rows = tx.query_typed(&sql, &typed(&params)).await?;
            Answer::Rows(rows.iter().map(AnyRow::of_postgres).collect::<Result<_, _>>()?)
        }
        Ask::Effect(key) => Answer::Is(tx.effect(&key).await?),
        Ask::ApplyIfNewer(entity, version) => Answer::Applied(tx.apply_if_newer(&entity, version).await?),
        Ask::ForgetEntity(entity) => Answer::Is(tx.forget_entity(&entity).await?),
        Ask::Enqueue(message) => Answer::Is(tx.enqueue(&message).await?),
        Ask::EnqueueOnce(effect, message) => Answer::Is(tx.enqueue_once(&effect, message).await?),
    })
}

/// Runs a statement on SQLite; how many rows it changed.
fn changed(statement: &mut rusqlite::Statement<'_>, params: &[Value]) -> rusqlite::Result<u64> {
    bind(statement, params)?;
    Ok(statement.raw_execute()? as u64)
}

/// All rows of a query on SQLite.
pub(super) fn rows(
    statement: &mut rusqlite::Statement<'_>,
    params: &[Value],
) -> rusqlite::Result<Vec<AnyRow>> {
    bind(statement, params)?;
    let columns = statement.column_count();
    statement.raw_query().mapped(|row| AnyRow::of_sqlite(row, columns)).collect()
}

/// The parameters of a statement on PostgreSQL.
fn typed(params: &[Value]) -> Vec<(&(dyn tokio_postgres::types::ToSql + Sync), tokio_postgres::types::Type)> {
    params.iter().map(Value::typed).collect()
}
