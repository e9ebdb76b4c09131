//! A service that is down for a while.

use std::time::Duration;

use anyhow::ensure;
use onefold::client::{BudgetSettings, limits};
use tokio::time::Instant;

use crate::rpc::Known;
use crate::story::chapters::Chapter;
use crate::story::play::Play;

pub(super) const PAYMENT_IS_DOWN: Chapter = Chapter {
    name: "13",
    title: "payment is down for a minute",
    books: &["
storefront.checkouts: ann lamp 1 2500
storefront.checkouts: ann lamp 1 2500
storefront.checkouts: ann lamp 1 2500
storefront.checkouts: ann lamp 1 2500
storefront.checkouts: ann lamp 1 2500
storefront.prices: chair 9900 0
storefront.prices: lamp 2500 0
order.baskets: lamp 1 2500
order.baskets: lamp 1 2500
order.baskets: lamp 1 2500
order.baskets: lamp 1 2500
order.baskets: lamp 1 2500
order.orders: 1 ann lamp 1 2500 confirmed 2
order.orders: 2 ann lamp 1 2500 confirmed 2
order.orders: 3 ann lamp 1 2500 confirmed 2
order.orders: 4 ann lamp 1 2500 confirmed 2
order.orders: 5 ann lamp 1 2500 confirmed 2
order.operations: PlaceOrder succeeded 5
order.operations: FulfilOrder succeeded 5
order.operations: ConfirmOrder succeeded 5
order.outgoing: loyalty delivered 5
order.outgoing: notification delivered 5
inventory.stock: chair 100
inventory.stock: lamp 95
inventory.reservations: 1 lamp 1
inventory.reservations: 2 lamp 1
inventory.reservations: 3 lamp 1
inventory.reservations: 4 lamp 1
inventory.reservations: 5 lamp 1
inventory.operations: Reserve succeeded 5
payment.captures: 1 ann 2500
payment.captures: 2 ann 2500
payment.captures: 3 ann 2500
payment.captures: 4 ann 2500
payment.captures: 5 ann 2500
payment.operations: Capture succeeded 5
payment.outgoing: notification delivered 5
notification.requests: 1 2 1
notification.requests: 2 2 1
notification.requests: 3 2 1
notification.requests: 4 2 1
notification.requests: 5 2 1
notification.effects: order-1/ORDER_CONFIRMED
notification.effects: order-2/ORDER_CONFIRMED
notification.effects: order-3/ORDER_CONFIRMED
notification.effects: order-4/ORDER_CONFIRMED
notification.effects: order-5/ORDER_CONFIRMED
notification.incoming: order processed 5
notification.incoming: payment processed 5
notification.outgoing: mail delivered 5
loyalty.points: ann 125
loyalty.effects: order-1/POINTS
loyalty.effects: order-2/POINTS
loyalty.effects: order-3/POINTS
loyalty.effects: order-4/POINTS
loyalty.effects: order-5/POINTS
loyalty.incoming: order processed 5
outside.requests: 5
outside.captures: 1 2500 under its own key
outside.captures: 2 2500 under its own key
outside.captures: 3 2500 under its own key
outside.captures: 4 2500 under its own key
outside.captures: 5 2500 under its own key
outside.mails: ann@example.org: Your order 1
outside.mails: ann@example.org: Your order 2
outside.mails: ann@example.org: Your order 3
outside.mails: ann@example.org: Your order 4
outside.mails: ann@example.org: Your order 5
"],
};

/// Orders while payment is down, after one that went well.
const MEANWHILE: i64 = 4;
pub(super) async fn payment_is_down(play: &mut Play) -> anyhow::Result<()> {
    play.order_of(1, 1).await?;
    play.rest().await?;
    play.kill("payment").await?;
    let begun = Instant::now();
    for number in 2..=MEANWHILE + 1 {
        // Nobody has to wait for the payment to be told of the order.
        play.order_of(1, number).await?;
    }
    let down_for = play.down_for;
    let left_alone = async |play: &Play| {
        let known = payment_as_order_sees_it(play).await?;
        Ok(known.refused > 0 && known.left_alone && begun.elapsed() >= down_for)
    };
    play.until("the budget is used up, and payment is left alone", left_alone).await?;
    let down = begun.elapsed();
    play.stage.start_again("payment").await?;
    play.rest().await?;

    let known = payment_as_order_sees_it(play).await?;
    let (attempts_max, retries_max) = bounds(down, begun.elapsed(), known.successes);
    ensure!(known.retries <= retries_max, "more than {retries_max} retries in {down:?}: {known:?}");
    ensure!(known.attempts <= attempts_max, "more than {attempts_max} attempts in {down:?}: {known:?}");
    Ok(())
}

async fn payment_as_order_sees_it(play: &Play) -> anyhow::Result<Known> {
    play.shopper.knows(play.stage.url("order"), play.stage.url("payment")).await
}

/// How many attempts and how many retries there may be after an outage of this length, `since` its beginning.
fn bounds(down: Duration, since: Duration, successes: u64) -> (u64, u64) {
    let budget = BudgetSettings::default();
    // The window moves by a tenth at a time.
    let windows = since.as_secs() / (budget.window.as_secs() * 9 / 10) + 1;
    let share = (successes as f64 * budget.share) as u64;
    let retries = windows * u64::from(budget.reserve).max(share);
    // Until it is left alone, by all orders at once; then one for each rest; then each order.
    let rests = down.as_secs() / limits::CIRCUIT_REST.as_secs() + 1;
    let attempts = u64::from(limits::CIRCUIT_FAILURES) + MEANWHILE as u64 + rests + successes;
    (attempts, retries)
}
