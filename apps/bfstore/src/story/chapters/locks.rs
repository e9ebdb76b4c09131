//! Databases in which somebody else is in the way: on SQLite the write lock is held for longer than anybody waits, on
//! PostgreSQL there is a deadlock, and then a serialization failure.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, ensure};
use rusqlite::Connection;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::ground::{self, Databases};
use crate::story::chapters::Chapter;
use crate::story::play::Play;

pub(super) const LOCKED: Chapter = Chapter {
    name: "14",
    title: "somebody else is in the way in the databases",
    books: &[super::ONE_ORDER, super::ASKED_ONCE],
};

/// What the layer logs of a transaction that did not come about.
const LOST: &str = "a transaction of the store was lost";
/// Each service with what has happened when its business asks its database for the first time: a query at another
/// service's database that has a line by then.
const LOCKED_SERVICES: [(&str, &str, &str); 5] = [
    ("order", "storefront", "SELECT 1 FROM checkouts"),
    ("inventory", "order", "SELECT 1 FROM orders"),
    ("payment", "inventory", "SELECT 1 FROM reservations"),
    ("notification", "payment", "SELECT 1 FROM captures"),
    ("loyalty", "order", "SELECT 1 FROM orders WHERE status = 'confirmed'"),
];

/// Every transaction sees one moment from now on, and a deadlock is found by whoever waits first.
const STRICTLY: &str = "DO $$ BEGIN
    EXECUTE format('ALTER DATABASE %I SET default_transaction_isolation = serializable', current_database());
    EXECUTE format('ALTER DATABASE %I SET deadlock_timeout = 3000', current_database());
END $$";
const TAKE_RESERVATIONS: &str = "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL deadlock_timeout = 60000;
    LOCK TABLE reservations IN SHARE MODE";
const TAKE_STOCK: &str = "UPDATE stock SET available = available";
const WAITING: &str = "SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND wait_event_type = 'Lock'";
const DEADLOCKS: &str = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()";
const ROLLBACKS: &str = "SELECT xact_rollback FROM pg_stat_database WHERE datname = current_database()";

pub(super) async fn locked(play: &mut Play) -> anyhow::Result<()> {
    match play.stage.ground().databases {
        Databases::Sqlite => files_are_held(play).await?,
        Databases::Postgres(_) => in_each_others_way(play).await?,
    }
    play.rest().await?;
    // A transaction that is run again is no matter of whoever has asked for it.
    for (caller, asked) in [("storefront", "order"), ("order", "inventory")] {
        let known = play.shopper.knows(play.stage.url(caller), play.stage.url(asked)).await?;
        ensure!(known.retries == 0, "{caller} had to ask {asked} again: {known:?}");
    }
    Ok(())
}

/// Each service in turn, while its part of one order is to be written.
async fn files_are_held(play: &mut Play) -> anyhow::Result<()> {
    let checkout_id = play.shopper.begin(1).await?;
    let mut held = Vec::new();
    for (service, ..) in LOCKED_SERVICES {
        held.push(Held::take(&play.stage.folder().join(format!("{service}.db"))).await?);
    }
    let shopper = play.shopper.clone();
    play.submits += 1;
    let pressed = tokio::spawn(async move { shopper.buy(&checkout_id).await });
    for ((service, other, business_comes), held) in LOCKED_SERVICES.into_iter().zip(held) {
        let comes = async |play: &Play| Ok(!play.line_of(other, business_comes).await?.is_empty());
        play.until("the business comes to the database", comes).await?;
        // Twice: the relay of the service may have asked shortly before, and that one may have been its own.
        let enough = lost(play, service)? + 2;
        play.until("it was told that it cannot have it", async |play: &Play| {
            Ok(lost(play, service)? >= enough)
        })
        .await?;
        held.let_go().await?;
    }
    let got = pressed.await?;
    ensure!(got.order() == Some(1), "the order was not placed: {got:?}");
    Ok(())
}

/// The reservation: it is the victim of a deadlock, and then reads what has been changed since its transaction began.
async fn in_each_others_way(play: &mut Play) -> anyhow::Result<()> {
    let database = play.stage.ground().database("inventory", play.stage.folder())?;
    let somebody = ground::client(&database).await?;
    somebody.batch_execute(STRICTLY).await.context("it takes a superuser")?;
    play.deploy("inventory", &[]).await?;
    let (deadlocks, rollbacks) = (number(play, DEADLOCKS).await?, number(play, ROLLBACKS).await?);

    somebody.batch_execute(TAKE_RESERVATIONS).await?;
    play.order_of(1, 1).await?;
    let waits = async |play: &Play| Ok(number(play, WAITING).await? > 0);
    play.until("the stock is taken, and the reservation waits", waits).await?;
    // Each has what the other wants. The server ends the transaction that has waited for longer.
    somebody.batch_execute(TAKE_STOCK).await?;
    play.until("the stock is to be taken once more", waits).await?;
    // What the second transaction has read is not what is there any more.
    somebody.batch_execute("COMMIT").await?;
    play.rest().await?;
    let counted = async |play: &Play| {
        let rolled_back = number(play, ROLLBACKS).await? >= rollbacks + 2;
        Ok(rolled_back && number(play, DEADLOCKS).await? == deadlocks + 1)
    };
    play.until("the server has counted one deadlock, and two transactions that were undone", counted).await
}

async fn number(play: &Play, sql: &str) -> anyhow::Result<u64> {
    Ok(play.line_of("inventory", sql).await?.parse()?)
}

/// How many transactions this service has lost.
fn lost(play: &Play, service: &str) -> anyhow::Result<usize> {
    let log = std::fs::read_to_string(play.stage.folder().join(format!("{service}.log")))?;
    Ok(log.lines().filter(|line| line.contains(LOST)).count())
}

/// The write lock of a database, held by somebody else than its service.
struct Held {
    let_go: oneshot::Sender<()>,
    holding: JoinHandle<rusqlite::Result<()>>,
}

impl Held {
    async fn take(path: &Path) -> anyhow::Result<Held> {
        let (let_go, told) = oneshot::channel();
        let (taken, is_taken) = oneshot::channel();
        let path = path.to_owned();
        let holding = tokio::task::spawn_blocking(move || {
            let connection = Connection::open(path)?;
            connection.busy_timeout(Duration::from_secs(10))?;
            connection.execute_batch("BEGIN IMMEDIATE")?;
            let _ = taken.send(());
            // Whoever holds it and is gone lets go as well.
            let _ = told.blocking_recv();
            connection.execute_batch("ROLLBACK")
        });
        is_taken.await.context("the lock could not be had")?;
        Ok(Held { let_go, holding })
    }

    async fn let_go(self) -> anyhow::Result<()> {
        let _ = self.let_go.send(());
        Ok(self.holding.await??)
    }
}
