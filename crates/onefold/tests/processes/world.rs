//! A service, the other system that it asks, and a child that performs and dies.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::Duration;

use onefold::{BoxError, Call, CallError, Claim, Done, Onefold, Operation, Scope, Verdict};
use rusqlite::{Connection, TransactionBehavior};

const FOLDER: &str = "ONEFOLD_TEST_FOLDER";
const TASK: &str = "ONEFOLD_TEST_TASK";

#[derive(Clone)]
pub struct World {
    folder: PathBuf,
    _own: Option<Arc<tempfile::TempDir>>,
}

impl World {
    pub fn new() -> World {
        let own = tempfile::tempdir().unwrap();
        let world = World { folder: own.path().to_owned(), _own: Some(Arc::new(own)) };
        drop(world.open());
        let table = "CREATE TABLE orders (number INTEGER PRIMARY KEY, sku TEXT)";
        world.connection().execute_batch(table).unwrap();
        world
    }

    /// What a child was told.
    pub fn of_child() -> Option<(World, String)> {
        let folder = PathBuf::from(std::env::var_os(FOLDER)?);
        Some((World { folder, _own: None }, std::env::var(TASK).ok()?))
    }

    /// Starts a child.
    pub fn child(&self, task: &str) -> Child {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child", "--nocapture"])
            .env(FOLDER, &self.folder)
            .env(TASK, task)
            .spawn()
            .unwrap()
    }

    fn file(&self) -> PathBuf {
        self.folder.join("shop.db")
    }

    pub fn open(&self) -> Onefold {
        Onefold::sqlite(self.file()).unwrap()
    }

    pub fn connection(&self) -> Connection {
        let connection = Connection::open(self.file()).unwrap();
        connection.pragma_update(None, "synchronous", "FULL").unwrap();
        connection.busy_timeout(Duration::from_secs(10)).unwrap();
        connection
    }

    pub fn orders(&self) -> i64 {
        self.connection().query_row("SELECT count(*) FROM orders", [], |row| row.get(0)).unwrap()
    }

    /// Notes a line, as another system would.
    pub fn note(&self, what: &str, line: &str) {
        let file = self.folder.join(what);
        let mut file = std::fs::OpenOptions::new().append(true).create(true).open(file).unwrap();
        file.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    pub fn noted(&self, what: &str) -> Vec<String> {
        let text = std::fs::read_to_string(self.folder.join(what)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}

/// A short lease, so that the next process need not wait long for a dead one.
fn operation() -> Operation {
    Operation::new("PlaceOrder", "one order for each key").lease(Duration::from_secs(1))
}

pub fn call(key: &str) -> Call {
    operation().call(Scope::shared(), key, "lamp").unwrap()
}

pub async fn place(onefold: &Onefold, key: &str) -> Result<Done<i64>, CallError> {
    onefold
        .atomic(call(key), |tx| {
            tx.execute("INSERT INTO orders (sku) VALUES ('lamp')", [])?;
            Ok(Verdict::succeeded(tx.last_insert_rowid()))
        })
        .await
}

/// Where a process dies: nothing of it is unwound, closed or told.
#[derive(Clone)]
struct Death(Option<String>);

impl Death {
    fn at(&self, point: &str) {
        if self.0.as_deref() == Some(point) {
            std::process::abort();
        }
    }
}

/// Performs the operation of the mode that the point names; where `dies`, this process ends at that point.
pub async fn perform(world: &World, point: &str, dies: bool) -> Result<Done<i64>, CallError> {
    let (mode, at) = point.split_once('/').expect("a point is mode/place");
    let death = Death(dies.then(|| at.to_owned()));
    let onefold = world.open();
    let done = match mode {
        "atomic" => atomic(&onefold, death.clone()).await,
        "borrowed" => borrowed(world, &onefold, &death),
        "reserved" => reserved(world, &onefold, death.clone()).await,
        "resumable" => resumable(world, &onefold, death.clone()).await,
        other => panic!("{other} is no mode"),
    };
    death.at("after the answer");
    done
}

async fn atomic(onefold: &Onefold, death: Death) -> Result<Done<i64>, CallError> {
    onefold
        .atomic(call("k"), move |tx| {
            death.at("before the row");
            tx.execute("INSERT INTO orders (sku) VALUES ('lamp')", [])?;
            death.at("after the row");
            Ok(Verdict::succeeded(tx.last_insert_rowid()))
        })
        .await
}

fn borrowed(world: &World, onefold: &Onefold, death: &Death) -> Result<Done<i64>, CallError> {
    let mut connection = world.connection();
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    death.at("before the claim");
    let claimed = match onefold.claim(&transaction, &call("k"))? {
        Claim::Known(done) => return Ok(done),
        Claim::Yours(claimed) => claimed,
    };
    death.at("after the claim");
    transaction.execute("INSERT INTO orders (sku) VALUES ('lamp')", []).unwrap();
    death.at("after the row");
    let number = transaction.last_insert_rowid();
    let done = claimed.finish(onefold, &transaction, Verdict::succeeded(number))?;
    death.at("after the end");
    transaction.commit().unwrap();
    Ok(done)
}

async fn reserved(world: &World, onefold: &Onefold, death: Death) -> Result<Done<i64>, CallError> {
    let world = world.clone();
    onefold
        .reserved(call("k"), move |attempt| async move {
            death.at("before the effect");
            world.note("effects", &attempt.downstream_key("charge"));
            death.at("after the effect");
            Ok(Verdict::succeeded(1))
        })
        .await
}

async fn resumable(world: &World, onefold: &Onefold, death: Death) -> Result<Done<i64>, CallError> {
    let world = world.clone();
    onefold
        .resumable(call("k"), move |steps| async move {
            let mut last = 0;
            for (number, step) in ["reserve", "ship"].into_iter().enumerate() {
                death.at(&format!("before {step}"));
                last = steps
                    .run(step, async |key| {
                        world.note("effects", &format!("{step} {key}"));
                        death.at(&format!("in {step}"));
                        Ok::<_, BoxError>(number as i64)
                    })
                    .await?;
                death.at(&format!("after {step}"));
            }
            Ok(Verdict::succeeded(last))
        })
        .await
}
