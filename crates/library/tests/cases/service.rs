//! A service that places orders in its own database, whichever that is, and asks another system for what lies
//! elsewhere.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::time::Duration;

use onefold::postgres::{PostgresStore, PostgresTx};
use onefold::{
    BoxError, Call, CallError, Done, Engine, Keeper, Onefold, Operation, Performing, Scope, Steps, Verdict,
};
use onefold_testkit::sql;

const TABLE_OF_FILE: &str = "CREATE TABLE orders (number INTEGER PRIMARY KEY, sku TEXT)";
const TABLE_OF_SERVER: &str =
    "CREATE TABLE orders (number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, sku text)";

/// One replica of the service: its own connections, flights and memory.
#[derive(Clone)]
pub enum Service {
    Sqlite(Onefold),
    Postgresql(Onefold<PostgresStore>),
}

impl Service {
    /// The first replica, which makes the table of orders.
    pub async fn first(url: &str) -> Service {
        let service = Service::open(url).await;
        let table = if url.starts_with("sqlite:") { TABLE_OF_FILE } else { TABLE_OF_SERVER };
        sql::execute(url, table).await;
        service
    }

    /// A replica of a service whose tables are there.
    pub async fn open(url: &str) -> Service {
        Service::try_open(url).await.unwrap()
    }

    pub async fn try_open(url: &str) -> Result<Service, BoxError> {
        Ok(match url.strip_prefix("sqlite:") {
            Some(path) => Service::Sqlite(Onefold::sqlite(Path::new(path))?),
            None => Service::Postgresql(Onefold::postgres(url).await?),
        })
    }

    /// Places an order in atomic mode and gives its number.
    pub async fn place(&self, call: Call) -> Result<Done<i64>, CallError> {
        self.place_and(call, || ()).await
    }

    /// The same; `then` comes between the business statement and the commit.
    pub async fn place_and<F>(&self, call: Call, then: F) -> Result<Done<i64>, CallError>
    where
        F: Fn() + Clone + Send + Sync + 'static,
    {
        match self {
            Service::Sqlite(onefold) => {
                let work = move |tx: &mut onefold::SqliteTx<'_>| {
                    tx.execute("INSERT INTO orders (sku) VALUES ('lamp')", [])?;
                    then();
                    Ok(Verdict::succeeded(tx.last_insert_rowid()))
                };
                onefold.atomic(call, work).await
            }
            Service::Postgresql(onefold) => {
                let work = async move |tx: &mut PostgresTx| {
                    let insert = "INSERT INTO orders (sku) VALUES ('lamp') RETURNING number";
                    let number: i64 = tx.query_opt(insert, &[]).await?.ok_or("no row")?.get(0);
                    then();
                    Ok(Verdict::succeeded(number))
                };
                onefold.atomic(call, work).await
            }
        }
    }

    pub async fn reserved<F, Fut>(&self, call: Call, work: F) -> Result<Done<i64>, CallError>
    where
        F: FnOnce(Performing) -> Fut + Send + 'static,
        Fut: Future<Output = Result<Verdict<i64>, BoxError>> + Send + 'static,
    {
        match self {
            Service::Sqlite(onefold) => onefold.reserved(call, work).await,
            Service::Postgresql(onefold) => onefold.reserved(call, work).await,
        }
    }

    pub async fn resumable<F, Fut>(&self, call: Call, work: F) -> Result<Done<i64>, CallError>
    where
        F: FnOnce(Steps) -> Fut + Send + 'static,
        Fut: Future<Output = Result<Verdict<i64>, BoxError>> + Send + 'static,
    {
        match self {
            Service::Sqlite(onefold) => onefold.resumable(call, work).await,
            Service::Postgresql(onefold) => onefold.resumable(call, work).await,
        }
    }

    /// Reserved mode whose work must not run.
    pub async fn ask_again(&self, call: Call) -> Result<Done<i64>, CallError> {
        self.reserved(call, |_| async { panic!("it was performed a second time") }).await
    }

    pub fn engine(&self) -> &Engine {
        match self {
            Service::Sqlite(onefold) => onefold.engine(),
            Service::Postgresql(onefold) => onefold.engine(),
        }
    }

    pub fn keep(&self, sweep_every: Duration) -> Keeper {
        self.engine().keep(sweep_every)
    }
}

/// How many orders there are.
pub async fn orders(url: &str) -> u64 {
    sql::ask(url, "SELECT count(*) FROM orders").await.parse().unwrap()
}

/// A short lease, so that nobody need wait long for a dead owner.
pub fn operation() -> Operation {
    Operation::new("PlaceOrder", "one order for each key").lease(Duration::from_secs(1))
}

pub fn call(key: &str) -> Call {
    call_of(&operation(), key)
}

pub fn call_of(operation: &Operation, key: &str) -> Call {
    operation.call(Scope::new([("customer", "17")]), key, "lamp").unwrap()
}

/// What several processes note as they go: what another system was asked for, what callers were told.
#[derive(Clone)]
pub struct Notes(PathBuf);

impl Notes {
    pub fn in_folder(folder: &Path) -> Notes {
        Notes(folder.to_owned())
    }

    pub fn note(&self, what: &str, line: &str) {
        use std::io::Write as _;
        let file = std::fs::OpenOptions::new().append(true).create(true).open(self.0.join(what));
        file.unwrap().write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    pub fn noted(&self, what: &str) -> Vec<String> {
        let text = std::fs::read_to_string(self.0.join(what)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}
