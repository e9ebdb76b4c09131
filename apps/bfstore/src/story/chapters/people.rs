//! What people do to messages: they mend a handler and permit it to go over its messages again, they replay dead letters,
//! and they write into databases by hand.

use anyhow::ensure;
use onefold::Key;
use onefold::client::OperationKey;
use onefold::inbox::{Inbound, InboxState};

use crate::check;
use crate::events::Event;
use crate::story::chapters::Chapter;
use crate::story::play::Play;

pub(super) const A_BUG: Chapter = Chapter {
    name: "9",
    title: "build 41 has a bug; build 42 may go over its messages again",
    books: &["
storefront.checkouts: ann lamp 5 2500
storefront.checkouts: ann lamp 1 2500
storefront.checkouts: ann lamp 6 2500
storefront.prices: chair 9900 0
storefront.prices: lamp 2500 0
order.baskets: lamp 5 2500
order.baskets: lamp 1 2500
order.baskets: lamp 6 2500
order.orders: 1 ann lamp 5 12500 confirmed 2
order.orders: 2 ann lamp 1 2500 confirmed 2
order.orders: 3 ann lamp 6 15000 confirmed 2
order.operations: PlaceOrder succeeded 3
order.operations: FulfilOrder succeeded 3
order.operations: ConfirmOrder succeeded 3
order.outgoing: loyalty delivered 3
order.outgoing: notification delivered 3
inventory.stock: chair 100
inventory.stock: lamp 88
inventory.reservations: 1 lamp 5
inventory.reservations: 2 lamp 1
inventory.reservations: 3 lamp 6
inventory.operations: Reserve succeeded 3
payment.captures: 1 ann 12500
payment.captures: 2 ann 2500
payment.captures: 3 ann 15000
payment.operations: Capture succeeded 3
payment.outgoing: notification delivered 3
notification.requests: 1 2 1
notification.requests: 2 2 1
notification.requests: 3 2 1
notification.effects: order-1/ORDER_CONFIRMED
notification.effects: order-2/ORDER_CONFIRMED
notification.effects: order-3/ORDER_CONFIRMED
notification.incoming: order processed 3
notification.incoming: payment processed 3
notification.outgoing: mail delivered 3
loyalty.points: ann 300
loyalty.effects: order-1/POINTS
loyalty.effects: order-2/POINTS
loyalty.effects: order-3/POINTS
loyalty.incoming: order processed 5
loyalty.again: order processed by 42 2
loyalty.permits: loyalty of 41 by olga
outside.requests: 3
outside.captures: 1 12500 under its own key
outside.captures: 2 2500 under its own key
outside.captures: 3 15000 under its own key
outside.mails: ann@example.org: Your order 1
outside.mails: ann@example.org: Your order 2
outside.mails: ann@example.org: Your order 3
"],
};

pub(super) const A_DEAD_LETTER: Chapter = Chapter {
    name: "10",
    title: "dead letters are replayed when nobody remembers them any more",
    books: &[ONE_ORDER_AT_2900, super::ASKED_ONCE],
};

pub(super) const A_MARK_ALONE: Chapter = Chapter {
    name: "15",
    title: "a mark is written by hand, and its effect is not there",
    books: &["
storefront.checkouts: ann lamp 1 2500
storefront.checkouts: ann lamp 1 2500
storefront.prices: chair 9900 0
storefront.prices: lamp 2500 0
order.baskets: lamp 1 2500
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
loyalty.points: ann 25
loyalty.effects: order-1/POINTS
loyalty.incoming: order processed 2
outside.requests: 2
outside.captures: 1 2500 under its own key
outside.captures: 2 2500 under its own key
outside.mails: ann@example.org: Your order 1
outside.mails: ann@example.org: Your order 2
"],
};

/// The price that a person has let through; the one that nobody has is still in the dead list.
const ONE_ORDER_AT_2900: &str = "
storefront.checkouts: ann lamp 1 2900
storefront.prices: chair 9900 0
storefront.prices: lamp 2900 9
storefront.versions: product/lamp 9
storefront.incoming: catalogue parked 1
storefront.incoming: catalogue processed 1
storefront.acts: redriven olga 1
order.baskets: lamp 1 2900
order.orders: 1 ann lamp 1 2900 confirmed 2
order.operations: PlaceOrder succeeded 1
order.operations: FulfilOrder succeeded 1
order.operations: ConfirmOrder succeeded 1
order.outgoing: loyalty delivered 1
order.outgoing: notification delivered 1
inventory.stock: chair 100
inventory.stock: lamp 99
inventory.reservations: 1 lamp 1
inventory.operations: Reserve succeeded 1
payment.captures: 1 ann 2900
payment.operations: Capture succeeded 1
payment.outgoing: notification delivered 1
notification.requests: 1 2 1
notification.effects: order-1/ORDER_CONFIRMED
notification.incoming: order processed 1
notification.incoming: payment processed 1
notification.outgoing: mail delivered 1
loyalty.points: ann 29
loyalty.effects: order-1/POINTS
loyalty.incoming: order processed 1
outside.captures: 1 2900 under its own key
outside.mails: ann@example.org: Your order 1
";
/// Long enough to handle a message in, short enough to wait for its end. Seconds.
const RETENTION: &str = "--retention=8";
const PRICE: &str = "SELECT cents, version FROM prices WHERE product = 'lamp'";

pub(super) async fn bug(play: &mut Play) -> anyhow::Result<()> {
    play.deploy("loyalty", &["--build=40"]).await?;
    play.order_of(5, 1).await?;
    play.rest().await?;
    play.deploy("loyalty", &["--build=41"]).await?;
    play.order_of(1, 2).await?;
    play.order_of(6, 3).await?;
    play.rest().await?;
    let damaged = check::findings(&play.ledgers).await?;
    ensure!(
        damaged == ["loyalty: order-3/confirmed/loyalty: the message is processed, and there is no award"],
        "the check names something else: {damaged:?}"
    );

    // The repaired build alone changes nothing: what is marked is done.
    play.deploy("loyalty", &["--build=42"]).await?;
    let olga = play.operator("loyalty").await?;
    ensure!(olga.handled_by("41").await?.len() == 2, "build 41 has handled two messages");
    ensure!(olga.handled_by("42").await?.is_empty(), "something was handled again that nobody has permitted");
    olga.permit("loyalty", "41", "build 41 gave nothing for large orders").await?;
    // The second start finds nothing to do any more.
    for _ in 0..2 {
        play.deploy("loyalty", &["--build=42"]).await?;
        let again = async |_: &Play| Ok(olga.handled_by("42").await?.len() == 2);
        play.until("what build 41 has handled is handled again", again).await?;
    }
    let left = check::findings(&play.ledgers).await?;
    ensure!(left.is_empty(), "it is not repaired: {left:?}");
    Ok(())
}

pub(super) async fn dead_letter(play: &mut Play) -> anyhow::Result<()> {
    play.deploy("storefront", &[RETENTION]).await?;
    // Each id carries the time at which it was made. The first message is handled; the second does not get through, and
    // the catalogue keeps it as a dead letter.
    let [first, second] = [(); 2].map(|()| OperationKey::generate().as_str().to_owned());
    play.catalogue(&first, 2700, 7).await?;
    ensure!(play.line_of("storefront", PRICE).await? == "2700 7", "the price was not taken");
    let forgotten =
        async |play: &Play| Ok(play.line_of("storefront", "SELECT count(*) FROM {inbox}").await? == "0");
    play.until("the mark of the first message is forgotten", forgotten).await?;

    // Both are replayed. The storefront cannot know which of them it has handled, so neither is.
    play.catalogue(&first, 2700, 7).await?;
    play.catalogue(&second, 2900, 9).await?;
    ensure!(
        play.line_of("storefront", PRICE).await? == "2700 7",
        "a dead letter was handled, and nobody permitted it"
    );
    let olga = play.operator("storefront").await?;
    let parked = olga.messages(InboxState::Parked).await?;
    ensure!(parked.len() == 2, "they are not in the dead list: {parked:?}");
    let told = parked.iter().all(|entry| entry.reason.as_deref() == Some("it is older than the marks"));
    ensure!(told, "they are there for another reason: {parked:?}");

    // The second one is news to the storefront. Let through twice, handled once, and known from now on.
    play.deploy("storefront", &[]).await?;
    let news = parked.iter().find(|entry| entry.identity.message.as_str() == second);
    let news = news.map(|entry| entry.id).ok_or_else(|| anyhow::anyhow!("it is not there: {parked:?}"))?;
    let reason = "the catalogue says that it was never delivered";
    let pressed = [olga.unpark(news, reason).await?, olga.unpark(news, reason).await?];
    ensure!(pressed == [true, false], "pressed twice: {pressed:?}");
    let handled = async |play: &Play| Ok(play.line_of("storefront", PRICE).await? == "2900 9");
    play.until("the dead letter that is permitted is handled", handled).await?;
    play.catalogue(&second, 2900, 9).await?;
    play.order().await
}

pub(super) async fn mark_alone(play: &mut Play) -> anyhow::Result<()> {
    play.order_of(1, 1).await?;
    play.rest().await?;
    let before = check::findings(&play.ledgers).await?;
    ensure!(before.is_empty(), "there is nothing to find yet: {before:?}");

    play.kill("loyalty").await?;
    play.order_of(1, 2).await?;
    let event = Event::OrderConfirmed { order_id: 2, customer_id: "ann".into(), cents: 2500 };
    let planted = Inbound {
        source: "order".into(),
        id: Some(Key::new("order-2/confirmed/loyalty")?),
        ordering_key: Some("order-2".into()),
        headers: Vec::new(),
        body: serde_json::to_vec(&event)?,
    };
    play.operator("loyalty").await?.mark("loyalty", planted).await?;
    play.stage.start_again("loyalty").await?;
    // The event comes, is taken for a duplicate, and is gone.
    play.repeated("loyalty", 1).await?;
    play.rest().await?;
    let found = check::findings(&play.ledgers).await?;
    let wanted = "loyalty: order-2/confirmed/loyalty: the message is processed, and there is no award";
    ensure!(found == [wanted], "the check does not name it alone: {found:?}");
    Ok(())
}
