//! Messages in transactions of sqlx, and the relay over their database.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use onefold::Key;
use onefold::messages::{Destination, Message, Sending, Sink, async_trait};
use onefold::sqlx::{Claimed, Error};
use onefold_testkit::postgres::Isolation;
use onefold_testkit::wait;
use tokio::task::JoinSet;

use crate::shop::{LEVELS, Shop, call, insert};

const UNDELIVERED: &str = "onefold.outbox_open";

fn message(id: &str, key: Option<&str>) -> Message {
    Message {
        id: Key::new(id).unwrap(),
        destination: "shop".into(),
        address: "orders".into(),
        ordering_key: key.map(str::to_owned),
        headers: vec![("x-note".into(), "a".into())],
        body: id.into(),
    }
}

/// Keeps what it was given; the first sending of each message fails where `stumbles`. Clones are one.
#[derive(Clone, Default)]
struct Broker {
    stumbles: bool,
    given: Arc<Mutex<Vec<Message>>>,
    tries: Arc<Mutex<HashMap<Key, u32>>>,
}

#[async_trait]
impl Sink for Broker {
    async fn send(&self, message: &Message) -> Sending {
        let mut tries = self.tries.lock().unwrap();
        let tries = tries.entry(message.id.clone()).or_default();
        *tries += 1;
        if self.stumbles && *tries == 1 {
            return Sending::Failed { reason: "the first time".into() };
        }
        self.given.lock().unwrap().push(message.clone());
        Sending::Accepted
    }
}

impl Broker {
    fn destination(&self) -> Vec<Destination> {
        vec![Destination::new("shop", self.clone())]
    }

    fn given(&self) -> Vec<String> {
        let given = self.given.lock().unwrap();
        given.iter().map(|message| message.id.as_str().to_owned()).collect()
    }
}

async fn until_sent(shop: &Shop) {
    wait::until_within(wait::DEADLINE, "everything is sent", async || shop.count(UNDELIVERED).await == 0)
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_goes_out_with_its_transaction_and_not_without_it() {
    for level in LEVELS {
        let Some(shop) = Shop::open(level).await else { return };
        let broker = Broker::default();
        let relay = shop.boundary.relay(broker.destination());
        let mut never = shop.pool.begin().await.unwrap();
        insert(&mut never).await.unwrap();
        assert!(shop.boundary.enqueue(&mut never, message("never", None)).await.unwrap());
        never.rollback().await.unwrap();
        let mut tx = shop.pool.begin().await.unwrap();
        insert(&mut tx).await.unwrap();
        assert!(shop.boundary.enqueue(&mut tx, message("m-1", None)).await.unwrap());
        assert!(!shop.boundary.enqueue(&mut tx, message("m-1", None)).await.unwrap(), "it is one message");
        assert_eq!((shop.count("onefold.outbox").await, broker.given().len()), (0, 0), "nobody sees it yet");
        tx.commit().await.unwrap();
        wait::until_within(wait::DEADLINE, "it is sent", async || broker.given().len() == 1).await;
        until_sent(&shop).await;
        drop(relay);
        assert_eq!(broker.given(), ["m-1"]);
        assert_eq!(*broker.given.lock().unwrap(), [message("m-1", None)]);
        assert_eq!((shop.orders().await, shop.count("onefold.outbox").await), (1, 1));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_is_made_with_an_operation_is_one_however_often_the_call_is_made() {
    let Some(shop) = Shop::open(Isolation::ReadCommitted).await else { return };
    let shop = Arc::new(shop);
    let mut calls = JoinSet::new();
    for n in 0..20 {
        let shop = shop.clone();
        // Two operations ask for one effect, each of them ten times.
        let key = format!("event-{}", n % 2);
        calls.spawn(async move {
            let mut tx = shop.pool.begin().await?;
            match shop.boundary.claim::<bool>(&mut tx, &call(&key, "lamp")).await? {
                Claimed::Known(_) => {}
                Claimed::Begun(claim) => {
                    let (by, mail) = (claim.id(), message("by its effect", None));
                    let first = shop.boundary.enqueue_once(&mut tx, by, "order 1/CONFIRMED", mail).await?;
                    claim.succeed(&mut tx, first).await?;
                }
            }
            tx.commit().await?;
            Ok::<(), Error>(())
        });
    }
    for done in calls.join_all().await {
        done.unwrap();
    }
    let broker = Broker::default();
    let _relay = shop.boundary.relay(broker.destination());
    wait::until_within(wait::DEADLINE, "it is sent", async || broker.given().len() == 1).await;
    until_sent(&shop).await;
    assert_eq!((broker.given().len(), shop.records().await), (1, 2));
    assert_eq!((shop.count("onefold.effects").await, shop.count("onefold.outbox").await), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_of_one_key_are_sent_in_the_order_of_their_commits_by_two_relays() {
    let Some(shop) = Shop::open(Isolation::ReadCommitted).await else { return };
    let broker = Broker { stumbles: true, ..Broker::default() };
    let _relays = [shop.boundary.relay(broker.destination()), shop.boundary.relay(broker.destination())];
    let mut first = shop.pool.begin().await.unwrap();
    shop.boundary.enqueue(&mut first, message("a-1", Some("a"))).await.unwrap();
    let (pool, boundary) = (shop.pool.clone(), shop.boundary.clone());
    let second = tokio::spawn(async move {
        let mut second = pool.begin().await.unwrap();
        boundary.enqueue(&mut second, message("a-2", Some("a"))).await.unwrap();
        second.commit().await.unwrap();
    });
    let waiting = "SELECT count(*)::text FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock'";
    wait::until_within(wait::DEADLINE, "the second waits for the key", async || {
        shop.database.ask(waiting).await == "1"
    })
    .await;
    let mut other = shop.pool.begin().await.unwrap();
    shop.boundary.enqueue(&mut other, message("b-1", Some("b"))).await.unwrap();
    other.commit().await.unwrap();
    wait::until_within(wait::DEADLINE, "another key waits for nobody", async || broker.given() == ["b-1"])
        .await;
    first.commit().await.unwrap();
    second.await.unwrap();
    wait::until_within(wait::DEADLINE, "all are sent", async || broker.given().len() == 3).await;
    until_sent(&shop).await;
    assert_eq!(broker.given(), ["b-1", "a-1", "a-2"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_in_a_transaction_that_an_error_has_ended_is_an_error() {
    let Some(shop) = Shop::open(Isolation::ReadCommitted).await else { return };
    let mut tx = shop.pool.begin().await.unwrap();
    sqlx::query("SELECT 1 / 0").execute(&mut *tx).await.unwrap_err();
    let error = shop.boundary.enqueue(&mut tx, message("m-1", None)).await.unwrap_err();
    assert!(matches!(&error, Error::Database(error) if error.to_string().contains("aborted")), "{error}");
    tx.commit().await.expect("what the driver says of the commit of an aborted transaction");
    assert_eq!(shop.count("onefold.outbox").await, 0);
}
