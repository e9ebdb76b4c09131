//! The connections to the server, and one statement over one of them.
//!
//! Every statement is one transaction, and prepared where that may be ([`prepared`](crate::prepared)): its rows are
//! believed once the server is ready for the next one, which is after the commit. Every wait has an end. A statement
//! that was overtaken by another transaction (40001, 40P01) had no effect and is rerun, a few times and after a pause
//! by dice; one whose answer was lost is sent once more only when it recognises its own work.

use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::{Manager, ManagerConfig, Object, Pool, PoolError, RecyclingMethod, Runtime};
use onefold_store::Clock;
use tokio::sync::Semaphore;
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};

use crate::error::{Failed, words};
use crate::held::Held;
use crate::prepared::{self, Prepared};
use crate::{Address, OpenError, Options, tls};

/// How long a statement waits for a connection that is free, or comes about.
pub(crate) const CONNECTION_WAIT_MAX: Duration = Duration::from_secs(5);
/// Connections that closures leave to everybody else: one for each lane, so that claims, heartbeats and outcomes go
/// on while closures are slow. Of fewer than ten they leave half.
const LEFT_BY_CLOSURES: usize = 5;
/// How long a statement may take; its connection is given up then.
pub(crate) const STATEMENT_MAX: Duration = Duration::from_secs(10);
/// How often a statement that was overtaken is rerun.
pub(crate) const RERUNS_MAX: u32 = 10;
/// The pause before the first rerun, at most; it doubles, up to [`PAUSE_MAX`].
const PAUSE: Duration = Duration::from_millis(4);
const PAUSE_MAX: Duration = Duration::from_millis(250);

/// The parameters of a statement, each with its type.
pub(crate) type Params<'a> = [(&'a (dyn ToSql + Sync), Type)];

/// What follows when the answer to a statement is lost: whether it is sent once more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unanswered {
    /// It recognises what it has done itself, or does nothing.
    AskAgain,
    /// It might do it twice.
    GiveUp,
}

/// The server.
#[derive(Clone)]
pub(crate) struct Server {
    pool: Pool,
    /// Places of closures among the connections.
    closures: Arc<Semaphore>,
    /// How long a place is waited for.
    closure_wait_max: Duration,
    /// A test's own; `None` is the server's.
    clock: Option<Arc<dyn Clock>>,
}

impl Server {
    /// Connections to this address, none of which is made yet.
    pub(crate) fn new(address: &Address, options: &Options) -> Result<Server, OpenError> {
        let connections_max = options.connections_max;
        let manager = Manager::from_config(
            address.config.clone(),
            tls::connector(&address.verify)?,
            ManagerConfig { recycling_method: RecyclingMethod::Fast },
        );
        let pool = Pool::builder(manager)
            .max_size(connections_max)
            .runtime(Runtime::Tokio1)
            .post_create(prepared::look())
            .wait_timeout(Some(CONNECTION_WAIT_MAX))
            .create_timeout(Some(CONNECTION_WAIT_MAX))
            .recycle_timeout(Some(CONNECTION_WAIT_MAX))
            .build()
            .map_err(|error| OpenError::Other(error.to_string()))?;
        let closures = connections_max.saturating_sub(LEFT_BY_CLOSURES).max(connections_max / 2).max(1);
        Ok(Server {
            pool,
            closures: Arc::new(Semaphore::new(closures)),
            closure_wait_max: options.closure_wait_max,
            clock: options.test_clock.clone(),
        })
    }

    /// A test's time, the first parameter of every statement that needs the time.
    pub(crate) fn now(&self) -> Option<i64> {
        self.clock.as_ref().map(|clock| clock.wall().0)
    }

    /// A connection of one's own.
    pub(crate) async fn connection(&self) -> Result<Object, Failed> {
        self.pool.get().await.map_err(|error| match error {
            PoolError::Backend(error) => match Failed::of(&error) {
                Failed::Lost(why) | Failed::Server(why) => Failed::Unreachable(why),
                other => other,
            },
            PoolError::Timeout(_) => {
                Failed::Unreachable("every connection is in use or takes too long".into())
            }
            other => Failed::Unreachable(words(&other)),
        })
    }

    /// A connection for a closure, when one of those that closures may hold is free.
    pub(crate) async fn for_closure(&self) -> Result<Held, Failed> {
        match tokio::time::timeout(self.closure_wait_max, self.closures.clone().acquire_owned()).await {
            Ok(Ok(place)) => Ok(Held::for_closure(self.connection().await?, place)),
            _ => {
                let waited = self.closure_wait_max;
                let why = format!("closures have held every connection that they may for {waited:?}");
                Err(Failed::Unreachable(why))
            }
        }
    }

    /// Sends a statement, and again where that is right.
    pub(crate) async fn ask(
        &self,
        sql: &str,
        params: &Params<'_>,
        unanswered: Unanswered,
    ) -> Result<Vec<Row>, Failed> {
        let (mut reruns, mut lost) = (0, false);
        loop {
            match self.ask_once(sql, params).await {
                Err(Failed::Rerun(_)) if reruns < RERUNS_MAX => {
                    pause(reruns).await;
                    reruns += 1;
                }
                Err(Failed::Lost(why)) if unanswered == Unanswered::AskAgain && !lost => {
                    tracing::debug!(%why, "an answer of the database was lost; it is asked once more");
                    lost = true;
                }
                done => return done,
            }
        }
    }

    async fn ask_once(&self, sql: &str, params: &Params<'_>) -> Result<Vec<Row>, Failed> {
        let connection = self.connection().await?;
        let asked = async { Prepared::on(&connection, sql, params).await?.query(&connection, params).await };
        let asked = tokio::time::timeout(STATEMENT_MAX, asked).await;
        let done = match asked {
            Ok(Ok(rows)) => return Ok(rows),
            Ok(Err(error)) => Failed::of(&error),
            Err(_) => Failed::Lost("the database takes too long".into()),
        };
        if done.ends_connection() {
            drop(Object::take(connection));
        }
        Err(done)
    }
}

/// The pause before rerun number `rerun` (from 0): full jitter.
pub(crate) async fn pause(rerun: u32) {
    let most = PAUSE.saturating_mul(1 << rerun.min(10)).min(PAUSE_MAX);
    tokio::time::sleep(most.mul_f64(rand::random::<f64>())).await;
}
