//! One body over SQLite and PostgreSQL: the same closures and statements do the same on both.

use std::sync::Arc;

use onefold::any::{AnyRow, AnyStore, AnyTx};
use onefold::companion::Settled;
use onefold::inbox::{Handled, Handling, Inbound, InboxState, Incoming};
use onefold::messages::{Message, OutboxStore};
use onefold::{Applied, BoxError, Call, CallError, Key, Onefold, Operation, Scope, Verdict};
use onefold_testkit::{Store, on_each_store};

const TABLES: [&str; 3] = [
    "CREATE TABLE orders (checkout TEXT PRIMARY KEY, sku TEXT NOT NULL, quantity BIGINT NOT NULL)",
    "CREATE TABLE points (customer TEXT PRIMARY KEY, points BIGINT NOT NULL)",
    "CREATE TABLE captures (key TEXT PRIMARY KEY, charge TEXT NOT NULL)",
];
const ORDER: &str = "INSERT INTO orders VALUES ($1, $2, $3)";

async fn shop(store: &Store) -> Onefold<AnyStore> {
    let onefold = Onefold::any(store.url()).await.expect("the store opens");
    for table in TABLES {
        onefold.execute(table, &[]).await.expect("the table is made");
    }
    onefold
}

fn call(key: &str) -> Call {
    let operation = Operation::new("PlaceOrder", "one order row for each checkout");
    operation.call(Scope::new([("customer", "17")]), key, &"lamp").expect("a call")
}

async fn orders(onefold: &Onefold<AnyStore>) -> i64 {
    let counted = onefold.query_opt("SELECT count(*) FROM orders", &[]).await.expect("it is counted");
    counted.expect("a row").get(0).expect("a number")
}

async fn place(tx: &mut AnyTx) -> Result<Verdict<i64>, BoxError> {
    tx.execute(ORDER, &[&"c1", &"lamp", &2_u32]).await?;
    let found = tx.query_opt("SELECT quantity FROM orders WHERE checkout = $1", &[&"c1"]).await?;
    Ok(Verdict::succeeded(found.ok_or("no row")?.get(0)?))
}

async fn duplicate_gets_the_kept_result_and_writes_nothing(store: &Store) {
    let onefold = shop(store).await;
    for replayed in [false, true] {
        let done = onefold.atomic(call("c1"), place).await.expect("it is done");
        assert_eq!((*done.value(), done.replayed()), (2, replayed));
    }
    assert_eq!(orders(&onefold).await, 1);
}

async fn failure_undoes_everything_and_frees_the_key(store: &Store) {
    let onefold = shop(store).await;
    let failed = onefold.atomic(call("c1"), async |tx: &mut AnyTx| {
        tx.execute(ORDER, &[&"c1", &"lamp", &2_u32]).await?;
        // The row is there already.
        tx.execute(ORDER, &[&"c1", &"lamp", &2_u32]).await?;
        Ok(Verdict::succeeded(0_i64))
    });
    assert!(matches!(failed.await, Err(CallError::NotDone { .. })));
    assert_eq!(orders(&onefold).await, 0);
    let done = onefold.atomic(call("c1"), place).await.expect("the key is free");
    assert_eq!((*done.value(), done.replayed()), (2, false));
}

async fn values_of_every_kind_come_back_as_they_went(store: &Store) {
    let onefold = shop(store).await;
    let table = match store.database() {
        None => "CREATE TABLE kinds (a BOOLEAN, b BIGINT, c DOUBLE PRECISION, d TEXT, e BLOB)",
        Some(_) => "CREATE TABLE kinds (a BOOLEAN, b BIGINT, c DOUBLE PRECISION, d TEXT, e BYTEA)",
    };
    onefold.execute(table, &[]).await.expect("the table is made");
    let read = |row: &AnyRow| {
        let (a, b): (Option<bool>, Option<i64>) = (row.get(0).unwrap(), row.get(1).unwrap());
        let (c, d): (Option<f64>, Option<String>) = (row.get(2).unwrap(), row.get(3).unwrap());
        (a, b, c, d, row.get::<Option<Vec<u8>>>(4).unwrap())
    };
    let full = (Some(true), Some(i64::MIN), Some(0.5), Some("ünder\u{0301}".to_owned()), Some(vec![0, 255]));
    let empty = (None, None, None, None, None);
    for (a, b, c, d, e) in [full.clone(), empty.clone()] {
        // Out of order: a parameter is known by its number, not by where it stands first.
        let sql = "INSERT INTO kinds (e, d, c, b, a) VALUES ($5, $4, $3, $2, $1)";
        onefold.execute(sql, &[&a, &b, &c, &d, &e]).await.expect("it is written");
    }
    let rows = onefold.query("SELECT a, b, c, d, e FROM kinds", &[]).await.expect("they are read");
    assert_eq!(rows.iter().map(read).collect::<Vec<_>>(), [full, empty]);
    assert!(rows[0].get::<String>(1).is_err(), "a number was read as a text");
    assert!(rows[0].get::<i64>(5).is_err(), "there is no such column");
    assert!(onefold.execute(ORDER, &[&"c1"]).await.is_err(), "parameters are missing");
    assert!(onefold.query("DELETE FROM kinds", &[]).await.is_err(), "a query wrote");
}

async fn effects_versions_and_messages_are_of_the_transaction(store: &Store) {
    let onefold = shop(store).await;
    let message = |id: &str| Message {
        id: Key::new(id).expect("a key"),
        destination: "hook".into(),
        address: String::new(),
        ordering_key: None,
        headers: Vec::new(),
        body: b"{}".to_vec(),
    };
    let (first, again) = (message("first"), message("again"));
    let work = async move |tx: &mut AnyTx| {
        let effects = (tx.effect("order-1/POINTS").await?, tx.effect("order-1/POINTS").await?);
        let mut applied = Vec::new();
        for version in [7, 7, 5] {
            applied.push(tx.apply_if_newer("product/lamp", version).await?);
        }
        assert_eq!(applied, [Applied::Newer, Applied::Equal, Applied::Superseded]);
        let forgotten = (tx.forget_entity("product/lamp").await?, tx.forget_entity("product/lamp").await?);
        assert_eq!(forgotten, (true, false));
        let made = [tx.enqueue(&first).await?, tx.enqueue(&first).await?];
        let once = [
            tx.enqueue_once("order-1/MAIL", again.clone()).await?,
            tx.enqueue_once("order-1/MAIL", again.clone()).await?,
        ];
        Ok(Verdict::succeeded((effects, made, once)))
    };
    let done = onefold.atomic(call("c1"), work).await.expect("it is done");
    assert_eq!(*done.value(), ((true, false), [true, false], [true, false]));
    let waiting = onefold.store().survey_outbox().await.expect("it is counted");
    assert_eq!(waiting.iter().map(|survey| survey.depth).sum::<u64>(), 2);
}

/// Polls a future once and drops it.
async fn gives_up<A>(asking: impl Future<Output = A>) {
    let mut asking = std::pin::pin!(asking);
    let once = std::future::poll_fn(|context| {
        let _ = asking.as_mut().poll(context);
        std::task::Poll::Ready(())
    });
    once.await;
}

async fn closure_that_goes_on_without_an_answer_is_undone(store: &Store) {
    let onefold = shop(store).await;
    let half = onefold.atomic(call("c1"), async |tx: &mut AnyTx| {
        gives_up(tx.effect("order-1/POINTS")).await;
        tx.execute(ORDER, &[&"c1", &"lamp", &2_u32]).await?;
        Ok(Verdict::succeeded(0_i64))
    });
    let said = half.await.expect_err("it was not done").to_string();
    assert!(said.contains("without the answer"), "{said}");
    assert_eq!(orders(&onefold).await, 0);
    let whole = async |tx: &mut AnyTx| Ok(Verdict::succeeded(tx.effect("order-1/POINTS").await?));
    let done = onefold.atomic(call("c2"), whole).await.expect("the store goes on");
    assert!(*done.value(), "the effect of a closure that was undone is noted");
}

async fn companion_writes_in_the_commit_that_settles(store: &Store) {
    let onefold = shop(store).await;
    let capture = Operation::new("Capture", "one capture, and one row of it, for each key");
    async fn note(tx: &mut AnyTx, settled: Arc<Settled<String>>) -> Result<(), BoxError> {
        if !settled.rejected() {
            tx.execute("INSERT INTO captures VALUES ($1, $2)", &[&settled.key(), settled.value()]).await?;
        }
        Ok(())
    }
    onefold.companion(&capture, note).await.expect("it is registered");
    for (key, verdict) in [
        ("p1", Verdict::succeeded("charge-1".to_owned())),
        ("p1", Verdict::succeeded("charge-2".to_owned())),
        ("p2", Verdict::rejected("no money".to_owned())),
    ] {
        let call = capture.call(Scope::shared(), key, &"25.00").expect("a call");
        onefold.reserved(call, |_| async { Ok(verdict) }).await.expect("it is settled");
    }
    let rows = onefold.query("SELECT key, charge FROM captures", &[]).await.expect("they are read");
    let rows: Vec<(String, String)> =
        rows.iter().map(|row| (row.get(0).unwrap(), row.get(1).unwrap())).collect();
    assert_eq!(rows, [("p1".to_owned(), "charge-1".to_owned())]);
}

async fn handler_runs_once_for_each_message(store: &Store) {
    let onefold = shop(store).await;
    async fn award(tx: &mut AnyTx, message: Arc<Incoming>) -> Result<Handled, BoxError> {
        let customer = std::str::from_utf8(&message.body)?;
        let sql = "INSERT INTO points VALUES ($1, 10)
            ON CONFLICT (customer) DO UPDATE SET points = points.points + excluded.points";
        tx.execute(sql, &[&customer]).await?;
        Ok(if customer == "nobody" { Handled::rejected("no customer") } else { Handled::Done })
    }
    let consumer = onefold.inbox("loyalty").consumer(award);
    let message = Inbound::new("order", "m1", "ann");
    assert_eq!(consumer.handle(message.clone()).await, Handling::Done(InboxState::Processed));
    assert_eq!(consumer.handle(message).await, Handling::Duplicate);
    let refused = consumer.handle(Inbound::new("order", "m2", "nobody")).await;
    assert_eq!(refused, Handling::Done(InboxState::Rejected));
    let points = onefold.query("SELECT customer, points FROM points", &[]).await.expect("they are read");
    let points: Vec<(String, i64)> =
        points.iter().map(|row| (row.get(0).unwrap(), row.get(1).unwrap())).collect();
    assert_eq!(points, [("ann".to_owned(), 10)]);
}

on_each_store!(
    duplicate_gets_the_kept_result_and_writes_nothing,
    failure_undoes_everything_and_frees_the_key,
    values_of_every_kind_come_back_as_they_went,
    effects_versions_and_messages_are_of_the_transaction,
    closure_that_goes_on_without_an_answer_is_undone,
    companion_writes_in_the_commit_that_settles,
    handler_runs_once_for_each_message,
);

#[tokio::test]
async fn on_sqlite_a_closure_that_waits_for_anything_else_is_undone() {
    let store = Store::sqlite();
    let onefold = shop(&store).await;
    let waiting = onefold.atomic(call("c1"), async |tx: &mut AnyTx| {
        tx.execute(ORDER, &[&"c1", &"lamp", &2_u32]).await?;
        std::future::pending::<()>().await;
        Ok(Verdict::succeeded(0_i64))
    });
    let said = waiting.await.expect_err("it was not done").to_string();
    assert!(said.contains("waits for nothing but its transaction"), "{said}");
    assert_eq!(orders(&onefold).await, 0);
    onefold.atomic(call("c1"), place).await.expect("the store goes on");
}

#[tokio::test]
async fn url_that_names_no_database_is_refused() {
    assert!(Onefold::any("mysql://localhost/shop").await.is_err());
}
