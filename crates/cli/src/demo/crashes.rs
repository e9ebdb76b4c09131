//! The chapters in which a process is killed between an effect and its answer: nobody can know what happened without
//! asking, so nothing is repeated, and a person settles it.

use crate::demo::books::OrderRow;
use crate::demo::caller::{Caller, Got, Order, Pause};
use crate::demo::chapter::{Chapter, Promise};
use crate::demo::mishaps::last;
use crate::demo::stage::Stage;
use crate::demo::teller::Teller;
use crate::exit::Failure;

/// SIGKILL for the gateway, after the order's commit and before its answer.
pub(crate) async fn gateway_killed(stage: &mut Stage, tell: &Teller) -> Result<Chapter, Failure> {
    tell.chapter("The gateway is killed with SIGKILL, and started again");
    let pause = Pause::AfterCommit(stage.pause(3000..4000));
    let order = Order { key: "checkout-5", item: "teapot", quantity: 1, pause };
    let asking = in_background(stage.caller(), &order);
    let made = stage.books().order_under(order.key).await?;
    stage.kill_gateway().await?;
    let mut got = vec![asking.await.expect("a caller does not panic")];
    stage.start_gateway().await?;
    tell.says(&format!(
        "Order {} is committed, and the gateway dies before it hears so. It comes back on the same store; the caller tries again.",
        made.id
    ));
    got.extend(stage.caller().ask_until_told(&order).await);
    tell.says(&format!(
        "Until its lease of 2 s ends, the dead attempt owns the operation and the caller is asked to wait. Then the answer is {}: it may have happened, so it is not done again.",
        last(&got)
    ));
    settle(stage, tell, &order, &made).await?;
    got.extend(stage.caller().ask_until_told(&order).await);
    tell.says(&format!("The next retry gets {}.", last(&got)));
    Ok(Chapter {
        title: "gateway killed",
        item: "teapot",
        keys: &["checkout-5"],
        got,
        promise: Promise {
            orders: 1,
            answers: &[("no answer", 1), ("409 outcome-unknown", 1), ("201 replayed", 1)],
            succeeded: 1,
        },
    })
}

/// SIGKILL for the order service, after its commit and before its answer.
pub(crate) async fn service_killed(stage: &mut Stage, tell: &Teller) -> Result<Chapter, Failure> {
    tell.chapter("The order service dies after the effect");
    let pause = Pause::AfterCommit(stage.pause(3000..4000));
    let order = Order { key: "checkout-6", item: "sugar", quantity: 1, pause };
    let asking = in_background(stage.caller(), &order);
    let made = stage.books().order_under(order.key).await?;
    stage.kill_orders().await?;
    let mut got = vec![asking.await.expect("a caller does not panic")];
    tell.says(&format!(
        "Order {} is committed, and the service dies before it answers. The caller gets {}.",
        made.id,
        last(&got)
    ));
    stage.start_orders().await?;
    got.extend(stage.caller().ask_until_told(&order).await);
    tell.says(&format!(
        "The service is back and would gladly take the order again. The retry does not reach it: {}.",
        last(&got)
    ));
    settle(stage, tell, &order, &made).await?;
    got.extend(stage.caller().ask_until_told(&order).await);
    tell.says(&format!("The next retry gets {}.", last(&got)));
    Ok(Chapter {
        title: "order service dies",
        item: "sugar",
        keys: &["checkout-6"],
        got,
        promise: Promise {
            orders: 1,
            answers: &[("502 outcome-unknown", 1), ("409 outcome-unknown", 1), ("201 replayed", 1)],
            succeeded: 1,
        },
    })
}

fn in_background(caller: Caller, order: &Order) -> tokio::task::JoinHandle<Got> {
    let order = order.clone();
    tokio::spawn(async move { caller.ask(&order).await })
}

/// What an operator does: finds the operation in the list, looks into the orders, and says what happened.
async fn settle(stage: &Stage, tell: &Teller, order: &Order, made: &OrderRow) -> Result<(), Failure> {
    let listed = stage.books().operation_in("outcome_unknown", order.key).await?;
    stage.books().resolve(&listed, made).await?;
    tell.says("An operator finds it and settles it:");
    tell.types("onefold operations list --state outcome_unknown");
    tell.types(&format!(
        "onefold operations resolve {}… --as succeeded --reason … --evidence \"order {} in the orders table\"",
        listed.id.get(..8).unwrap_or_default(),
        made.id
    ));
    Ok(())
}
