//! The chapters, each with the whole state that should come of it. The first eight are here, on one order and one price;
//! [`keys`], [`people`], [`outages`] and [`locks`] have the others.

mod keys;
mod locks;
mod outages;
mod people;

pub(crate) use keys::FORGET;

use std::path::Path;
use std::time::Duration;

use anyhow::ensure;
use tonic::Code;

use crate::ground::Ground;
use crate::outside::Fault;
use crate::rpc::orders_client::OrdersClient;
use crate::rpc::{self, Basket, PlaceOrderRequest};
use crate::story::play::{Play, Played};
use crate::story::shopper::Got;

/// One chapter.
#[derive(Clone, Copy, Debug)]
pub struct Chapter {
    /// Its number and, where it has several parts, a letter.
    pub name: &'static str,
    /// What goes wrong.
    pub title: &'static str,
    /// Every table of every database, and what happened outside, as [`Books`](crate::story::Books) is printed.
    pub books: &'static [&'static str],
}

/// All of them.
pub const CHAPTERS: &[Chapter] = &[
    Chapter {
        name: "1",
        title: "the answer is lost after the commit, and asked for again",
        books: &[ONE_ORDER, ASKED_ONCE],
    },
    Chapter {
        name: "2",
        title: "the button is pressed eight times at once",
        books: &[ONE_ORDER, ASKED_ONCE],
    },
    Chapter {
        name: "3",
        title: "the same checkout with another basket",
        books: &[ONE_ORDER, ASKED_ONCE, OTHER_BASKET],
    },
    Chapter { name: "4", title: "nothing is ordered, three times", books: &[NOTHING] },
    Chapter {
        name: "5a",
        title: "captured, the answer is lost: the provider is asked",
        books: &[ONE_ORDER, ASKED_ONCE, LOOKED_UP],
    },
    Chapter {
        name: "5b",
        title: "it says \"not found\", and the original lands later",
        books: &[ONE_ORDER, NOT_FOUND_AT_FIRST],
    },
    Chapter { name: "5c", title: "the provider refuses: what was reserved is released", books: &[UNPAID] },
    Chapter {
        name: "6",
        title: "an event comes again: its consumer died before it said yes",
        books: &[ONE_ORDER, ASKED_ONCE],
    },
    Chapter {
        name: "7",
        title: "two events ask for one mail, whose answer is lost",
        books: &[ONE_ORDER, ASKED_ONCE, MAIL_LOOKED_UP],
    },
    Chapter { name: "8", title: "an old price comes after a new one", books: &[NEW_PRICE, ASKED_ONCE] },
    people::A_BUG,
    people::A_DEAD_LETTER,
    keys::ANOTHER_CHECKOUT,
    keys::AN_EXPIRED_KEY,
    outages::PAYMENT_IS_DOWN,
    locks::LOCKED,
    people::A_MARK_ALONE,
];

/// One order that went all the way.
const ONE_ORDER: &str = "
storefront.checkouts: ann lamp 1 2500
storefront.prices: chair 9900 0
storefront.prices: lamp 2500 0
order.baskets: lamp 1 2500
order.orders: 1 ann lamp 1 2500 confirmed 2
order.operations: PlaceOrder succeeded 1
order.operations: FulfilOrder succeeded 1
order.operations: ConfirmOrder succeeded 1
order.outgoing: loyalty delivered 1
order.outgoing: notification delivered 1
inventory.stock: chair 100
inventory.stock: lamp 99
inventory.reservations: 1 lamp 1
inventory.operations: Reserve succeeded 1
payment.captures: 1 ann 2500
payment.operations: Capture succeeded 1
payment.outgoing: notification delivered 1
notification.requests: 1 2 1
notification.effects: order-1/ORDER_CONFIRMED
notification.incoming: order processed 1
notification.incoming: payment processed 1
notification.outgoing: mail delivered 1
loyalty.points: ann 25
loyalty.effects: order-1/POINTS
loyalty.incoming: order processed 1
outside.captures: 1 2500 under its own key
outside.mails: ann@example.org: Your order 1
";
/// The provider was asked once.
const ASKED_ONCE: &str = "outside.requests: 1";
/// The basket is there, its order is not.
const OTHER_BASKET: &str = "order.baskets: chair 2 9900";
/// A checkout that was rejected.
const NOTHING: &str = "
storefront.checkouts: ann lamp 0 2500
storefront.prices: chair 9900 0
storefront.prices: lamp 2500 0
order.baskets: lamp 0 2500
order.operations: PlaceOrder rejected 1
inventory.stock: chair 100
inventory.stock: lamp 100
outside.requests: 0
";
/// What was unknown became known by the provider's own word.
const LOOKED_UP: &str = "
payment.evidence: happened 1
payment.evidence: unknown 1
";
/// "Not found" was no answer: it was asked for again, under the same key.
const NOT_FOUND_AT_FIRST: &str = "
payment.evidence: did_not_happen 1
payment.evidence: unknown 1
outside.requests: 2
";
/// An order that was not paid for: it says so, and its reservation was given back.
const UNPAID: &str = "
storefront.checkouts: ann lamp 1 2500
storefront.prices: chair 9900 0
storefront.prices: lamp 2500 0
order.baskets: lamp 1 2500
order.orders: 1 ann lamp 1 2500 unpaid 2
order.operations: PlaceOrder succeeded 1
order.operations: FulfilOrder rejected 1
order.operations: ConfirmOrder succeeded 1
inventory.stock: chair 100
inventory.stock: lamp 100
inventory.operations: Reserve succeeded 1
inventory.operations: Release succeeded 1
payment.operations: Capture rejected 1
outside.requests: 1
";
/// The mail was not sent again: it was found.
const MAIL_LOOKED_UP: &str = "notification.acts: delivered look-up 1";
/// One order at the newest price.
const NEW_PRICE: &str = "
storefront.checkouts: ann lamp 1 2700
storefront.prices: chair 9900 0
storefront.prices: lamp 2700 7
order.baskets: lamp 1 2700
order.orders: 1 ann lamp 1 2700 confirmed 2
order.operations: PlaceOrder succeeded 1
order.operations: FulfilOrder succeeded 1
order.operations: ConfirmOrder succeeded 1
order.outgoing: loyalty delivered 1
order.outgoing: notification delivered 1
inventory.stock: chair 100
inventory.stock: lamp 99
inventory.reservations: 1 lamp 1
inventory.operations: Reserve succeeded 1
payment.captures: 1 ann 2700
payment.operations: Capture succeeded 1
payment.outgoing: notification delivered 1
notification.requests: 1 2 1
notification.effects: order-1/ORDER_CONFIRMED
notification.incoming: order processed 1
notification.incoming: payment processed 1
notification.outgoing: mail delivered 1
loyalty.points: ann 27
loyalty.effects: order-1/POINTS
loyalty.incoming: order processed 1
outside.captures: 1 2700 under its own key
outside.mails: ann@example.org: Your order 1
storefront.incoming: catalogue processed 1
storefront.incoming: catalogue superseded 1
storefront.versions: product/lamp 7
storefront.superseded: product/lamp 5
";

impl Chapter {
    /// Its number, without the letter.
    pub fn number(&self) -> u8 {
        self.name.trim_end_matches(char::is_alphabetic).parse().unwrap_or_default()
    }

    /// Plays it on a stage of its own in this folder, on this ground, which is cleared when all went well. Where payment is
    /// down, it is so at least this long.
    pub async fn play(
        &self,
        binary: &Path,
        folder: &Path,
        ground: &Ground,
        down_for: Duration,
    ) -> anyhow::Result<Played> {
        let mut play = Play::start(binary, folder, ground, down_for).await?;
        let fallen = play.stage.fallen();
        tokio::select! {
            happened = self.happen(&mut play) => happened?,
            fallen = fallen => return Err(fallen),
        }
        play.end().await
    }

    async fn happen(&self, play: &mut Play) -> anyhow::Result<()> {
        match self.name {
            "1" => answer_lost(play).await?,
            "2" => at_once(play).await?,
            "3" => other_basket(play).await?,
            "4" => nothing(play).await?,
            "5a" => capture_answer_lost(play).await?,
            "5b" => capture_lands_late(play).await?,
            "5c" => capture_refused(play).await?,
            "6" => consumer_killed(play).await?,
            "7" => mail_answer_lost(play).await?,
            "8" => stale_price(play).await?,
            "9" => people::bug(play).await?,
            "10" => people::dead_letter(play).await?,
            "11" => keys::another_checkout(play).await?,
            "12" => keys::expired_key(play).await?,
            "13" => outages::payment_is_down(play).await?,
            "14" => locks::locked(play).await?,
            _ => people::mark_alone(play).await?,
        }
        play.rest().await
    }
}

async fn answer_lost(play: &mut Play) -> anyhow::Result<()> {
    let checkout_id = play.shopper.begin(1).await?;
    play.stage.line("storefront").lose_an_answer();
    let first = play.buy(&checkout_id).await;
    ensure!(first == Got::Nothing, "an answer arrived: {first:?}");
    let again = play.buy(&checkout_id).await;
    ensure!(again.order() == Some(1), "the order is not told: {again:?}");
    Ok(())
}

async fn at_once(play: &mut Play) -> anyhow::Result<()> {
    let checkout_id = play.shopper.begin(1).await?;
    let got = play.buy_at_once(&checkout_id, 8).await;
    ensure!(got.iter().all(|got| got.order() == Some(1)), "not everybody was told of the one order: {got:?}");
    Ok(())
}

async fn other_basket(play: &mut Play) -> anyhow::Result<()> {
    let checkout_id = play.shopper.begin(1).await?;
    let placed = play.buy(&checkout_id).await;
    ensure!(placed.order() == Some(1), "the order was not placed: {placed:?}");
    let mut orders = OrdersClient::new(rpc::peer(play.stage.url("order"))?);
    let basket = Basket { basket_id: "other".into(), product: "chair".into(), quantity: 2, cents: 9900 };
    orders.put_basket(basket).await?;
    let asked = PlaceOrderRequest {
        checkout_id: checkout_id.clone(),
        basket_id: "other".into(),
        customer_id: "ann".into(),
    };
    play.submits += 1;
    let refused = orders.place(rpc::under(&checkout_id, asked)?).await;
    let code = refused.as_ref().err().map(tonic::Status::code);
    ensure!(code == Some(Code::FailedPrecondition), "it was not refused: {refused:?}");
    Ok(())
}

async fn nothing(play: &mut Play) -> anyhow::Result<()> {
    let checkout_id = play.shopper.begin(0).await?;
    let first = play.buy(&checkout_id).await;
    ensure!(matches!(first, Got::Answer { status: 422, .. }), "it was not rejected: {first:?}");
    for _ in 0..2 {
        let again = play.buy(&checkout_id).await;
        ensure!(again == first, "another answer: {again:?} after {first:?}");
    }
    Ok(())
}

async fn capture_answer_lost(play: &mut Play) -> anyhow::Result<()> {
    play.shopper.tell(Fault::CaptureAnswerLost).await?;
    play.order().await
}

async fn capture_lands_late(play: &mut Play) -> anyhow::Result<()> {
    play.shopper.tell(Fault::CaptureLandsLate).await?;
    play.order().await?;
    // The look-up has said "not found", and it was asked again under the same key.
    play.rest().await?;
    play.shopper.land().await
}

async fn consumer_killed(play: &mut Play) -> anyhow::Result<()> {
    play.stage.lose_its_word("loyalty")?;
    play.order().await?;
    let lost = async |play: &Play| {
        let handled = play.ledgers.count("loyalty", "SELECT count(*) FROM points").await? == 1;
        Ok(handled && play.stage.has_lost_its_word("loyalty")?)
    };
    play.until("loyalty has handled the event and its word of it is lost", lost).await?;
    play.kill("loyalty").await?;
    play.stage.take_word_back("loyalty").await?;
    play.stage.start_again("loyalty").await?;
    play.repeated("loyalty", 1).await
}

async fn mail_answer_lost(play: &mut Play) -> anyhow::Result<()> {
    play.shopper.tell(Fault::MailAnswerLost).await?;
    play.order().await
}

async fn stale_price(play: &mut Play) -> anyhow::Result<()> {
    for (id, cents, version) in [("price-7", 2700, 7), ("price-5", 2600, 5), ("price-7", 2700, 7)] {
        play.catalogue(id, cents, version).await?;
    }
    // Whoever orders now pays the newest price.
    play.order().await
}

async fn capture_refused(play: &mut Play) -> anyhow::Result<()> {
    play.shopper.tell(Fault::CaptureRefused).await?;
    play.order().await
}
