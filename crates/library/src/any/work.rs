//! Running a closure over the real transaction: it is polled until it asks for something, that is done, and so on.
//!
//! On SQLite all of it happens on the writer's thread, where nothing can be waited for: a closure that waits for
//! anything but its transaction panics there, which undoes everything and is told to the caller. On PostgreSQL the
//! closure goes on beside its statement, so that it may give it up.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use onefold_store::Ended;
use onefold_store_postgres::{Ending, PostgresTx, PostgresWork};
use onefold_store_sqlite::{SqliteTx, SqliteWork};
use parking_lot::Mutex;

use super::desk::{Answer, Ask, Desk};
use super::value::{Value, bind};
use super::{AnyError, AnyRow, AnyTx};
use crate::sqlite::contended;
use crate::ties::Ties;

type Closure = dyn for<'a> FnMut(&'a mut AnyTx) -> Ending<'a> + Send;

/// A closure that runs in a transaction of either database. It may run again when the database asks for it.
#[derive(Clone)]
pub struct AnyWork {
    closure: Arc<Mutex<Closure>>,
    ties: Ties,
}

impl AnyWork {
    /// The work that this closure does; the messages that it makes are tied so.
    pub(super) fn new(
        ties: Ties,
        closure: impl for<'a> FnMut(&'a mut AnyTx) -> Ending<'a> + Send + 'static,
    ) -> AnyWork {
        AnyWork { closure: Arc::new(Mutex::new(closure)), ties }
    }

    pub(super) fn on_sqlite(&self) -> SqliteWork {
        let work = self.clone();
        SqliteWork::new(move |tx| {
            work.ties.on_sqlite(tx);
            let desk = Desk::default();
            let mut at_desk = AnyTx::at(desk.clone(), tx.operation());
            let mut running = work.closure.lock()(&mut at_desk);
            let mut context = Context::from_waker(Waker::noop());
            let mut again = None;
            loop {
                if let Poll::Ready(ended) = running.as_mut().poll(&mut context) {
                    return again.map_or_else(|| desk.ended(ended), Ended::Again);
                }
                let asked = desk.asked();
                let asked = asked.expect("on SQLite a closure waits for nothing but its transaction");
                let answer = sqlite(asked, tx);
                again = again.or_else(|| contended(answer.as_ref().err()?));
                desk.answer(answer);
            }
        })
    }

    pub(super) fn on_postgres(&self) -> PostgresWork {
        let work = self.clone();
        PostgresWork::new(move |tx| {
            work.ties.on_postgres(tx);
            let work = work.clone();
            Box::pin(async move {
                let desk = Desk::default();
                let mut at_desk = AnyTx::at(desk.clone(), tx.operation());
                let running = work.closure.lock()(&mut at_desk);
                drive(running, &desk, tx).await
            })
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

/// What comes of a statement.
enum Came {
    Answer(Result<Answer, AnyError>),
    /// The closure has ended meanwhile.
    Ended(Ended),
    /// The closure has given it up.
    Left,
}

async fn drive(mut running: Ending<'_>, desk: &Desk, tx: &mut PostgresTx) -> Ended {
    loop {
        let next = poll_fn(|context| match running.as_mut().poll(context) {
            Poll::Ready(ended) => Poll::Ready(Next::Ended(ended)),
            Poll::Pending => desk.asked().map_or(Poll::Pending, |asked| Poll::Ready(Next::Asked(asked))),
        });
        let asked = match next.await {
            Next::Ended(ended) => return desk.ended(ended),
            Next::Asked(asked) => asked,
        };
        let mut statement = pin!(postgres(asked, tx));
        let came = poll_fn(|context| {
            if let Poll::Ready(answer) = statement.as_mut().poll(context) {
                return Poll::Ready(Came::Answer(answer));
            }
            match running.as_mut().poll(context) {
                Poll::Ready(ended) => Poll::Ready(Came::Ended(ended)),
                Poll::Pending if desk.is_left() => Poll::Ready(Came::Left),
                Poll::Pending => Poll::Pending,
            }
        });
        match came.await {
            Came::Answer(answer) => desk.answer(answer),
            Came::Ended(ended) => return desk.ended(ended),
            Came::Left => {}
        }
    }
}

fn sqlite(asked: Ask, tx: &mut SqliteTx<'_>) -> Result<Answer, AnyError> {
    Ok(match asked {
        Ask::Execute(sql, params) => Answer::Changed(changed(tx, &sql, &params)?),
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
fn changed(tx: &mut SqliteTx<'_>, sql: &str, params: &[Value]) -> rusqlite::Result<u64> {
    let (before, _) = changes(tx)?;
    let mut statement = tx.prepare(sql)?;
    bind(&mut statement, params)?;
    // What it returns is not asked for.
    let mut returned = statement.raw_query();
    while returned.next()?.is_some() {}
    drop(returned);
    drop(statement);
    let (after, changed) = changes(tx)?;
    // The number of the last statement that changes rows stays until the next one.
    Ok(if after == before { 0 } else { changed.unsigned_abs() })
}

/// How many rows this connection has changed in all, and how many with the last statement that changes rows.
fn changes(tx: &mut SqliteTx<'_>) -> rusqlite::Result<(i64, i64)> {
    tx.query_row("SELECT total_changes(), changes()", [], |row| Ok((row.get(0)?, row.get(1)?)))
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
