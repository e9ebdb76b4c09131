//! Closures that may not succeed, and what they are told: the same on both databases.

use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use onefold::any::{AnyError, AnyTx};
use onefold::messages::Message;
use onefold::{BoxError, Key, Verdict};
use onefold_testkit::{Store, on_each_store};
use tokio::time::timeout;

use crate::{ORDER, call, orders, place, shop};

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
        let said = tx.execute(ORDER, &[&"c1", &"lamp", &2_u32]).await.expect_err("it was sent");
        assert!(matches!(said, AnyError::GivenUp), "{said}");
        Ok(Verdict::succeeded(0_i64))
    });
    let said = half.await.expect_err("it was not done").to_string();
    assert!(said.contains("without the answer"), "{said}");
    assert_eq!(orders(&onefold).await, 0);
    let whole = async |tx: &mut AnyTx| Ok(Verdict::succeeded(tx.effect("order-1/POINTS").await?));
    let done = onefold.atomic(call("c2"), whole).await.expect("the store goes on");
    assert!(*done.value(), "the effect of a closure that was undone is noted");
}

async fn closure_that_gave_a_call_up_may_end_with_its_own_error(store: &Store) {
    let onefold = shop(store).await;
    let failed = onefold.atomic(call("c1"), async |tx: &mut AnyTx| {
        gives_up(tx.effect("order-1/POINTS")).await;
        Err::<Verdict<i64>, BoxError>("the shop is closed".into())
    });
    let said = failed.await.expect_err("it was not done").to_string();
    assert_eq!(said, "nothing was done: the shop is closed");
    onefold.atomic(call("c1"), place).await.expect("the key is free");
}

async fn closure_that_goes_on_after_a_failed_statement_is_undone(store: &Store) {
    let onefold = shop(store).await;
    let refused = [
        // There is such a row already.
        "INSERT INTO orders VALUES ('c1', 'lamp', 2)",
        "INSERT INTO nothing VALUES (1)",
        "COMMIT",
    ];
    for sql in refused {
        let onward = onefold.atomic(call("c1"), async move |tx: &mut AnyTx| {
            tx.execute(ORDER, &[&"c1", &"lamp", &2_u32]).await?;
            tx.execute(sql, &[]).await.expect_err("it is refused");
            Ok(Verdict::succeeded(0_i64))
        });
        let said = onward.await.expect_err("it was done").to_string();
        assert!(said.contains("a statement of the closure failed and the closure went on"), "{sql}: {said}");
        assert_eq!(orders(&onefold).await, 0, "{sql}");
    }
    onefold.atomic(call("c1"), place).await.expect("the key is free");
}

async fn closure_may_go_on_where_an_id_is_another_messages(store: &Store) {
    let onefold = shop(store).await;
    let message = |destination: &str| Message {
        id: Key::new("m1").expect("a key"),
        destination: destination.into(),
        address: String::new(),
        ordering_key: None,
        headers: Vec::new(),
        body: b"{}".to_vec(),
    };
    let (made, taken) = (message("hook"), message("elsewhere"));
    let onward = onefold.atomic(call("c1"), async move |tx: &mut AnyTx| {
        assert!(tx.enqueue(&made).await?);
        tx.enqueue(&taken).await.expect_err("the id is taken");
        place(tx).await
    });
    onward.await.expect("nothing was written for the second");
    assert_eq!(orders(&onefold).await, 1);
}

async fn statement_is_answered_in_a_combinator_that_looks_only_at_what_was_woken(store: &Store) {
    let onefold = shop(store).await;
    let done = onefold.atomic(call("c1"), async |tx: &mut AnyTx| {
        let mut asked = FuturesUnordered::new();
        asked.push(tx.execute(ORDER, &[&"c1", &"lamp", &2_u32]));
        let changed = asked.next().await.expect("one was asked")?;
        Ok(Verdict::succeeded(changed))
    });
    assert_eq!(*done.await.expect("it is done").value(), 1);
}

on_each_store!(
    closure_that_goes_on_without_an_answer_is_undone,
    closure_that_gave_a_call_up_may_end_with_its_own_error,
    closure_that_goes_on_after_a_failed_statement_is_undone,
    closure_may_go_on_where_an_id_is_another_messages,
    statement_is_answered_in_a_combinator_that_looks_only_at_what_was_woken,
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
async fn on_sqlite_a_closure_that_asks_its_own_store_is_told_so_and_leaves_nothing() {
    let store = Store::sqlite();
    let onefold = shop(&store).await;
    let insert = "INSERT INTO orders VALUES ('beside', 'lamp', 1)";
    let own = onefold.clone();
    let asks = onefold.atomic(call("c1"), async move |_: &mut AnyTx| {
        own.execute(insert, &[]).await?;
        Ok(Verdict::succeeded(0_i64))
    });
    let said = asks.await.expect_err("it was not done").to_string();
    assert!(said.contains("a closure may not ask its own store"), "{said}");
    // One that blocks would keep the writer for itself.
    let (own, runtime) = (onefold.clone(), tokio::runtime::Handle::current());
    let blocks = onefold.atomic(call("c2"), async move |_: &mut AnyTx| {
        runtime.block_on(own.execute(insert, &[]))?;
        Ok(Verdict::succeeded(0_i64))
    });
    let said = blocks.await.expect_err("it was not done").to_string();
    assert!(said.contains("a closure may not ask its own store"), "{said}");
    onefold.atomic(call("c3"), place).await.expect("the store goes on");
    assert_eq!(orders(&onefold).await, 1, "what an undone closure asked for was written after all");
}

#[tokio::test]
async fn on_postgresql_a_statement_can_be_given_up() {
    let Some(store) = Store::postgresql("a statement that is given up").await else { return };
    let onefold = shop(&store).await;
    onefold.execute(ORDER, &[&"c1", &"lamp", &2_u32]).await.expect("it is placed");
    let (mut client, connection) =
        tokio_postgres::connect(store.url(), tokio_postgres::NoTls).await.expect("it connects");
    let connection = tokio::spawn(connection);
    let holder = client.transaction().await.expect("it begins");
    holder.execute("UPDATE orders SET quantity = 3", &[]).await.expect("it holds the row");
    let waits = onefold.atomic(call("c1"), async |tx: &mut AnyTx| {
        let update = tx.execute("UPDATE orders SET quantity = 4", &[]);
        timeout(Duration::from_millis(50), update).await.map_err(|_| "it takes too long")??;
        Ok(Verdict::succeeded(0_i64))
    });
    let said = waits.await.expect_err("the row is held").to_string();
    assert_eq!(said, "nothing was done: it takes too long");
    holder.commit().await.expect("it is still open");
    drop(client);
    connection.await.expect("it ends").expect("without an error");
    onefold
        .atomic(call("c1"), async |tx: &mut AnyTx| {
            Ok(Verdict::succeeded(tx.execute("UPDATE orders SET quantity = 4", &[]).await?))
        })
        .await
        .expect("the key is free, and so is the row");
}
