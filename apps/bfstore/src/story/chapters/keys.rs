//! What a key is for: another checkout is another order, and a key that has expired is not a new one.

use anyhow::ensure;

use crate::ledgers::Query;
use crate::story::chapters::Chapter;
use crate::story::play::Play;
use crate::story::shopper::Got;

pub(super) const ANOTHER_CHECKOUT: Chapter = Chapter {
    name: "11",
    title: "the same basket is bought once more, later",
    books: &["
storefront.checkouts: ann lamp 1 2500
storefront.checkouts: ann lamp 1 2500
storefront.prices: chair 9900 0
storefront.prices: lamp 2500 0
order.baskets: lamp 1 2500
order.orders: 1 ann lamp 1 2500 confirmed 2
order.orders: 2 ann lamp 1 2500 confirmed 2
order.operations: PlaceOrder succeeded 2
order.operations: FulfilOrder succeeded 2
order.operations: ConfirmOrder succeeded 2
order.outgoing: loyalty delivered 2
order.outgoing: notification delivered 2
inventory.stock: chair 100
inventory.stock: lamp 98
inventory.reservations: 1 lamp 1
inventory.reservations: 2 lamp 1
inventory.operations: Reserve succeeded 2
payment.captures: 1 ann 2500
payment.captures: 2 ann 2500
payment.operations: Capture succeeded 2
payment.outgoing: notification delivered 2
notification.requests: 1 2 1
notification.requests: 2 2 1
notification.effects: order-1/ORDER_CONFIRMED
notification.effects: order-2/ORDER_CONFIRMED
notification.incoming: order processed 2
notification.incoming: payment processed 2
notification.outgoing: mail delivered 2
loyalty.points: ann 50
loyalty.effects: order-1/POINTS
loyalty.effects: order-2/POINTS
loyalty.incoming: order processed 2
outside.requests: 2
outside.captures: 1 2500 under its own key
outside.captures: 2 2500 under its own key
outside.mails: ann@example.org: Your order 1
outside.mails: ann@example.org: Your order 2
"],
};

pub(super) const AN_EXPIRED_KEY: Chapter = Chapter {
    name: "12",
    title: "a key is used again after it has expired, and after its record is gone",
    books: &[super::ONE_ORDER, super::ASKED_ONCE],
};

/// Long enough to buy something, short enough to wait for its end. Seconds.
const RETENTION: &str = "--retention=8";
/// What the sweeper leaves in the end, when the tombstone's time is over as well.
pub(crate) const FORGET: Query<'static> = Query {
    sqlite: "
        DELETE FROM onefold_outcomes WHERE seq IN (SELECT seq FROM onefold_operations WHERE operation = 'PlaceOrder');
        DELETE FROM onefold_operations WHERE operation = 'PlaceOrder'",
    postgres: "DELETE FROM onefold.operations WHERE operation = 'PlaceOrder'",
};

pub(super) async fn another_checkout(play: &mut Play) -> anyhow::Result<()> {
    let first = play.order_of(1, 1).await?;
    play.rest().await?;
    let second = play.shopper.again(&first).await?;
    let got = play.buy(&second).await;
    ensure!(got.order() == Some(2), "it is not another order: {got:?}");
    let again = play.buy(&first).await;
    ensure!(again.order() == Some(1), "the first checkout is another order now: {again:?}");
    Ok(())
}

pub(super) async fn expired_key(play: &mut Play) -> anyhow::Result<()> {
    play.deploy("order", &[RETENTION]).await?;
    let checkout_id = play.order_of(1, 1).await?;
    play.rest().await?;
    let is_expired = async |play: &Play| {
        let got = play.shopper.buy(&checkout_id).await;
        Ok(
            matches!(got, Got::Answer { status: 409, error: Some(error), .. } if error.contains("not kept any more")),
        )
    };
    play.until("the key has expired, and is refused", is_expired).await?;

    // Weeks later nothing of the record is left. What protects now is the order itself.
    play.kill("order").await?;
    play.ledgers.change("order", FORGET).await?;
    play.stage.set("order", &[]);
    play.stage.start_again("order").await?;
    let got = play.buy(&checkout_id).await;
    ensure!(got.order() == Some(1), "it is another order: {got:?}");
    Ok(())
}
