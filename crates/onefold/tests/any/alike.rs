//! What is the same on both databases although they differ in it: counts, values, limits, and what ties a workflow.

use std::sync::Arc;

use onefold::any::{AnyOpenError, AnyStore, AnyTx};
use onefold::inbox::{Handled, Handling, Inbound, InboxState, Incoming};
use onefold::messages::{Message, OutboxStore};
use onefold::{BoxError, Key, Onefold, Scope, Verdict};
use onefold_testkit::{Store, on_each_store, sql};

use crate::{ORDER, call, orders, place, shop};

async fn statement_says_how_many_rows_it_changed(store: &Store) {
    let onefold = shop(store).await;
    for checkout in ["c1", "c2"] {
        onefold.execute(ORDER, &[&checkout, &"lamp", &2_u32]).await.expect("it is placed");
    }
    for (sql, changed) in [
        ("UPDATE orders SET quantity = 3", 2),
        // Of another kind.
        ("CREATE TABLE later (a BIGINT)", 0),
        ("UPDATE orders SET quantity = 4 RETURNING checkout", 2),
        ("UPDATE orders SET quantity = 5 WHERE quantity = 3", 0),
        ("DELETE FROM orders WHERE checkout = 'c1'", 1),
    ] {
        assert_eq!(onefold.execute(sql, &[]).await.expect(sql), changed, "{sql}");
    }
}

async fn casts_that_both_know_are_the_same(store: &Store) {
    let onefold = shop(store).await;
    let sql = "SELECT CAST($1 AS BIGINT), CAST($2 AS TEXT), CAST($3 AS DOUBLE PRECISION)";
    let row = onefold.query_opt(sql, &[&"17", &17_i64, &"0.5"]).await.expect("it is read").expect("a row");
    let values: (i64, String, f64) = (row.get(0).unwrap(), row.get(1).unwrap(), row.get(2).unwrap());
    assert_eq!(values, (17, "17".to_owned(), 0.5));
}

async fn what_is_no_number_is_refused(store: &Store) {
    let onefold = shop(store).await;
    let table = "CREATE TABLE weights (weight DOUBLE PRECISION)";
    onefold.execute(table, &[]).await.expect("the table is made");
    let insert = "INSERT INTO weights VALUES ($1)";
    let refused = onefold.atomic(call("c1"), async move |tx: &mut AnyTx| {
        Ok(Verdict::succeeded(tx.execute(insert, &[&f64::NAN]).await?))
    });
    let said = refused.await.expect_err("it is refused").to_string();
    assert_eq!(said, "nothing was done: the parameter $1 is not a number");
    let swallowed = onefold.atomic(call("c1"), async move |tx: &mut AnyTx| {
        tx.execute(insert, &[&f64::NAN]).await.expect_err("it is refused");
        Ok(Verdict::succeeded(0_i64))
    });
    let said = swallowed.await.expect_err("it is undone").to_string();
    assert!(said.contains("the closure went on"), "{said}");
    onefold.execute(insert, &[&f64::NAN]).await.expect_err("it is refused");
    onefold.execute(insert, &[&f64::INFINITY]).await.expect("both know this");
    let rows = onefold.query("SELECT weight FROM weights", &[]).await.expect("they are read");
    let weights: Vec<f64> = rows.iter().map(|row| row.get(0).unwrap()).collect();
    assert_eq!(weights, [f64::INFINITY]);
}

/// A trace, as its callers say it.
const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// What ties a message to a trace and to a workflow.
async fn ties(onefold: &Onefold<AnyStore>, id: &str) -> Vec<String> {
    let id = Key::new(id).expect("a key");
    let entry = onefold.store().outgoing(&id).await.expect("it is read").expect("it is there");
    let headers = entry.message.headers.into_iter();
    let tying = |name: &str| ["onefold-correlation-id", "traceparent"].contains(&name);
    let mut values: Vec<String> = headers.filter(|(name, _)| tying(name)).map(|(_, value)| value).collect();
    values.sort();
    values
}

async fn messages_are_tied_to_the_workflow_and_the_trace_in_which_they_are_made(store: &Store) {
    let onefold = shop(store).await;
    async fn makes(tx: &mut AnyTx, id: String) -> Result<(), BoxError> {
        let message = Message {
            id: Key::new(&id)?,
            destination: "hook".into(),
            address: String::new(),
            ordering_key: None,
            headers: Vec::new(),
            body: Vec::new(),
        };
        tx.enqueue(&message).await?;
        Ok(())
    }
    let tied = call("c1").correlated("flow-1").traced(TRACE);
    let placed = onefold.atomic(tied, async |tx: &mut AnyTx| {
        makes(tx, "of the call".into()).await?;
        Ok(Verdict::succeeded(()))
    });
    placed.await.expect("it is placed");
    let capture = onefold::Operation::new("Capture", "one capture for each key");
    let write = async |tx: &mut AnyTx, _: Arc<onefold::companion::Settled<()>>| {
        makes(tx, "of the companion".into()).await
    };
    onefold.companion(&capture, write).await.expect("it is registered");
    let captured = capture.call(Scope::shared(), "p1", &"25.00").expect("a call").correlated("flow-2");
    onefold.reserved(captured, |_| async { Ok(Verdict::succeeded(())) }).await.expect("it is settled");
    let handler = async |tx: &mut AnyTx, message: Arc<Incoming>| {
        makes(tx, format!("of {}", message.id.as_str())).await?;
        Ok(Handled::Done)
    };
    let consumer = onefold.inbox("loyalty").consumer(handler);
    let tied = [("onefold-correlation-id", "flow-3"), ("traceparent", TRACE)];
    let tied = tied.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    for message in
        [Inbound { headers: tied, ..Inbound::new("shop", "m1", "") }, Inbound::new("shop", "m2", "")]
    {
        assert_eq!(consumer.handle(message).await, Handling::Done(InboxState::Processed));
    }
    assert_eq!(ties(&onefold, "of the call").await, [TRACE, "flow-1"]);
    assert_eq!(ties(&onefold, "of the companion").await, ["flow-2"]);
    assert_eq!(ties(&onefold, "of m1").await, [TRACE, "flow-3"]);
    assert_eq!(ties(&onefold, "of m2").await, [""; 0], "of another message's workflow nothing is left");
}

on_each_store!(
    statement_says_how_many_rows_it_changed,
    casts_that_both_know_are_the_same,
    what_is_no_number_is_refused,
    messages_are_tied_to_the_workflow_and_the_trace_in_which_they_are_made,
);

#[tokio::test]
async fn text_that_is_none_is_an_error() {
    let store = Store::sqlite();
    let onefold = shop(&store).await;
    sql::execute(store.url(), "INSERT INTO orders VALUES (CAST(x'66ff' AS TEXT), 'lamp', 1)").await;
    onefold.query("SELECT checkout FROM orders", &[]).await.expect_err("it was changed");
    let reads = onefold.atomic(call("c1"), async |tx: &mut AnyTx| {
        Ok(Verdict::succeeded(tx.query("SELECT checkout FROM orders", &[]).await?.len()))
    });
    reads.await.expect_err("it was changed");
}

/// As on PostgreSQL, where no scope is counted.
#[tokio::test]
async fn live_keys_have_no_limit_in_a_file() {
    let store = Store::sqlite();
    let onefold = shop(&store).await;
    onefold.atomic(call("c1"), place).await.expect("it is done");
    sql::execute(store.url(), "UPDATE onefold_scopes SET live = 1000000").await;
    let second = onefold.atomic(call("c2"), async |_: &mut AnyTx| Ok(Verdict::succeeded(())));
    second.await.expect("it is done");
    assert_eq!(orders(&onefold).await, 1);
    let live = "SELECT live FROM onefold_scopes";
    assert_eq!(sql::ask(store.url(), live).await, "1000001", "it is not counted at all");
}

#[tokio::test]
async fn url_that_names_no_database_is_refused() {
    for url in ["mysql://localhost/shop", "shop.db", ""] {
        assert!(matches!(Onefold::any(url).await, Err(AnyOpenError::Url)), "{url}");
    }
    let paths =
        ["", "//nowhere/shop.db", "///nowhere/shop.db", ":memory:", "file:shop.db", "shop.db?mode=ro"];
    for path in paths {
        let opened = Onefold::any(&format!("sqlite:{path}")).await;
        assert!(matches!(opened, Err(AnyOpenError::Path)), "{path}");
    }
}
