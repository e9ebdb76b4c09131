//! The chapters in which every process lives and the callers or their connections do not.

use std::sync::Arc;

use tokio::time::sleep;

use crate::demo::caller::{Got, Order, Pause};
use crate::demo::chapter::{Chapter, Promise};
use crate::demo::stage::Stage;
use crate::demo::teller::Teller;
use crate::exit::Failure;

const DUPLICATES: usize = 50;

/// The answer is on its way when the connection breaks.
pub(crate) async fn answer_lost(stage: &mut Stage, tell: &Teller) -> Result<Chapter, Failure> {
    tell.chapter("The answer is lost after the commit, and the caller tries again");
    let order = Order { key: "checkout-1", item: "tea", quantity: 1, pause: Pause::None };
    let connection = stage.caller().send(&order).await.map_err(not_sent)?;
    stage.books().operation_in("succeeded", order.key).await?;
    drop(connection);
    tell.says(
        "The order is committed and its answer sent, but the connection breaks before the caller reads it.",
    );
    sleep(stage.pause(20..120)).await;
    let retried = stage.caller().ask_until_told(&order).await;
    tell.says(&format!("It sends the same request under the same key and gets {}.", last(&retried)));
    Ok(Chapter {
        title: "answer lost",
        item: "tea",
        keys: &["checkout-1"],
        got: [vec![Got::Nothing], retried].concat(),
        promise: Promise { orders: 1, answers: &[("no answer", 1), ("201 replayed", 1)], succeeded: 1 },
    })
}

/// Fifty connections, one request.
pub(crate) async fn fifty_at_once(stage: &mut Stage, tell: &Teller) -> Result<Chapter, Failure> {
    tell.chapter("50 duplicates at once");
    let pause = Pause::BeforeCommit(stage.pause(150..300));
    let order = Arc::new(Order { key: "checkout-2", item: "kettle", quantity: 1, pause });
    tell.says(
        "A double click, an eager proxy, a stuck queue: 50 connections send one request while it runs.",
    );
    let callers: Vec<_> = (0..DUPLICATES)
        .map(|_| {
            let (caller, order, pause) = (stage.caller(), order.clone(), stage.pause(0..20));
            tokio::spawn(async move {
                sleep(pause).await;
                caller.ask_until_told(&order).await
            })
        })
        .collect();
    let mut got = Vec::new();
    for caller in callers {
        got.extend(caller.await.expect("a caller does not panic"));
    }
    let replayed = got.iter().filter(|got| got.kind() == "201 replayed").count();
    tell.says(&format!(
        "One is performed. The others wait for it: {replayed} get its answer, marked as replayed."
    ));
    Ok(Chapter {
        title: "50 duplicates",
        item: "kettle",
        keys: &["checkout-2"],
        got,
        promise: Promise {
            orders: 1,
            answers: &[("201", 1), ("201 replayed", DUPLICATES - 1)],
            succeeded: 1,
        },
    })
}

/// A key is for one intention.
pub(crate) async fn other_request(stage: &mut Stage, tell: &Teller) -> Result<Chapter, Failure> {
    tell.chapter("The same key with another body");
    let order = Order { key: "checkout-3", item: "cup", quantity: 1, pause: Pause::None };
    let first = stage.caller().ask_until_told(&order).await;
    let hundred = Order { quantity: 100, ..order };
    let other = stage.caller().ask_until_told(&hundred).await;
    tell.says(&format!(
        "One cup is ordered. Then a hundred, under the key of the first order: {}, and the order service hears nothing of it.",
        last(&other)
    ));
    Ok(Chapter {
        title: "same key, other body",
        item: "cup",
        keys: &["checkout-3"],
        got: [first, other].concat(),
        promise: Promise { orders: 1, answers: &[("201", 1), ("422 key-conflict", 1)], succeeded: 1 },
    })
}

/// The operation does not belong to the connection that asked for it.
pub(crate) async fn caller_hangs_up(stage: &mut Stage, tell: &Teller) -> Result<Chapter, Failure> {
    tell.chapter("A caller that hangs up in the middle");
    let pause = Pause::BeforeCommit(stage.pause(600..800));
    let order = Order { key: "checkout-4", item: "spoon", quantity: 1, pause };
    let connection = stage.caller().send(&order).await.map_err(not_sent)?;
    stage.books().operation_in("processing", order.key).await?;
    drop(connection);
    tell.says("The order service is still at work when the caller leaves. The operation goes on without it.");
    let retried = stage.caller().ask_until_told(&order).await;
    tell.says(&format!("The caller comes back at once, waits for the end and gets {}.", last(&retried)));
    Ok(Chapter {
        title: "caller hangs up",
        item: "spoon",
        keys: &["checkout-4"],
        got: [vec![Got::Nothing], retried].concat(),
        promise: Promise { orders: 1, answers: &[("no answer", 1), ("201 replayed", 1)], succeeded: 1 },
    })
}

/// What is wanted twice is done twice.
pub(crate) async fn two_intentions(stage: &mut Stage, tell: &Teller) -> Result<Chapter, Failure> {
    tell.chapter("Two keys with equal bodies");
    let monday = Order { key: "checkout-7", item: "biscuits", quantity: 1, pause: Pause::None };
    let tuesday = Order { key: "checkout-8", ..monday.clone() };
    let mut got = stage.caller().ask_until_told(&monday).await;
    got.extend(stage.caller().ask_until_told(&tuesday).await);
    tell.says(&format!("Two keys are two intentions, however alike: {}, then {}.", got[0], last(&got)));
    Ok(Chapter {
        title: "two keys, same body",
        item: "biscuits",
        keys: &["checkout-7", "checkout-8"],
        got,
        promise: Promise { orders: 2, answers: &[("201", 2)], succeeded: 2 },
    })
}

/// What a caller has in the end.
pub(crate) fn last(got: &[Got]) -> &Got {
    got.last().unwrap_or(&Got::Nothing)
}

fn not_sent(error: std::io::Error) -> Failure {
    Failure::failed(format!("the gateway does not take a request: {error}"))
}
