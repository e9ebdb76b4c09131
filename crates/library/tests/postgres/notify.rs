//! Notifications over PostgreSQL: one mail for each effect, made with the business, and settled once where nobody
//! knows.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use onefold::messages::{Destination, IfLost, Message, Relay, Sending, Sink, async_trait};
use onefold::notify::{Mail, NotificationAct, Notify, OutboxEntry, OutboxState, Redrive};
use onefold::postgres::{Options, PostgresStore, PostgresTx};
use onefold::{CallError, Onefold, Verdict};
use onefold_core::StoreTime;
use onefold_store::OutboxStore;
use onefold_store::clock::ManualClock;
use onefold_testkit::postgres::Isolation;
use onefold_testkit::wait;
use tokio::task::JoinSet;

use crate::shop::{Shop, call, insert};

const EFFECT: &str = "order-5001/ORDER_CONFIRMED";
const GRACE: Duration = Duration::from_secs(10);

/// An event that asks for the mail. True: it made the job.
async fn ask(onefold: &Onefold<PostgresStore>, event: &str) -> Result<bool, CallError> {
    let work = async move |tx: &mut PostgresTx| {
        insert(tx, "lamp").await?;
        let mail = Mail::new("ann@example.org", "Your order").text("Thank you.");
        Ok(Verdict::succeeded(Notify::by("mail").once_on_postgres(tx, EFFECT, &mail).await?))
    };
    Ok(*onefold.atomic(call(event, event), work).await?.value())
}

/// Answers by a list, the last one for ever, and keeps what it was given. Clones are one.
#[derive(Clone)]
struct MailServer {
    answers: Arc<Mutex<Vec<Sending>>>,
    given: Arc<Mutex<Vec<Message>>>,
}

impl MailServer {
    fn new(answers: &[Sending]) -> MailServer {
        MailServer { answers: Arc::new(Mutex::new(answers.to_vec())), given: Arc::default() }
    }

    fn given(&self) -> Vec<Message> {
        self.given.lock().unwrap().clone()
    }

    fn relay(&self, onefold: &Onefold<PostgresStore>) -> Relay {
        onefold.relay(vec![Destination::new("mail", self.clone())])
    }
}

#[async_trait]
impl Sink for MailServer {
    fn if_lost(&self) -> IfLost {
        IfLost::Hold
    }

    async fn send(&self, message: &Message) -> Sending {
        self.given.lock().unwrap().push(message.clone());
        let mut answers = self.answers.lock().unwrap();
        if answers.len() > 1 { answers.remove(0) } else { answers[0].clone() }
    }
}

async fn becomes(onefold: &Onefold<PostgresStore>, state: OutboxState) -> OutboxEntry {
    let entry = async || onefold.notification(EFFECT).await.unwrap().expect("the mail was asked for");
    let what = format!("the mail is {state}");
    wait::until_within(wait::DEADLINE, &what, async || entry().await.state == state).await;
    entry().await
}

fn act(attempt: u32, act: Redrive) -> NotificationAct {
    NotificationAct { attempt, act, who: "ann".into(), reason: "the server's log says so".into() }
}

#[tokio::test(flavor = "multi_thread")]
async fn events_that_ask_for_one_mail_in_two_processes_make_one_job() {
    let Some(shop) = Shop::open().await else { return };
    let other = shop.another_process().await;
    let mut asking = JoinSet::new();
    for event in 0..8 {
        let onefold = if event % 2 == 0 { shop.onefold.clone() } else { other.clone() };
        asking.spawn(async move { ask(&onefold, &format!("event-{event}")).await.unwrap() });
    }
    let made = asking.join_all().await;
    assert_eq!(made.iter().filter(|made| **made).count(), 1);
    assert_eq!(shop.count("orders").await, 8, "the business of every event is done");
    let server = MailServer::new(&[Sending::Accepted]);
    let relays = [server.relay(&shop.onefold), server.relay(&other)];
    becomes(&shop.onefold, OutboxState::Delivered).await;
    assert!(!ask(&other, "event-late").await.unwrap(), "also once it is delivered");
    for relay in relays {
        assert_eq!(relay.stop(GRACE).await, 0);
    }
    assert_eq!(server.given().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn mail_is_made_with_the_business_or_not_at_all() {
    let Some(shop) = Shop::open().await else { return };
    let failed = shop.onefold.atomic(call("event-1", "x"), async move |tx: &mut PostgresTx| {
        let mail = Mail::new("ann@example.org", "Your order").text("Thank you.");
        assert!(Notify::by("mail").once_on_postgres(tx, EFFECT, &mail).await?);
        Err::<Verdict<()>, _>("no stock".into())
    });
    assert!(matches!(failed.await, Err(CallError::NotDone { .. })));
    assert!(shop.onefold.notification(EFFECT).await.unwrap().is_none());
    assert!(ask(&shop.onefold, "event-2").await.unwrap(), "the effect is still free");
}

#[tokio::test(flavor = "multi_thread")]
async fn b67_unknown_mail_is_settled_once_by_a_person_and_never_again_once_it_is_swept() {
    let clock = Arc::new(ManualClock::at(StoreTime(1_700_000_000_000)));
    let options = Options { test_clock: Some(clock.clone()), ..Options::default() };
    let Some(shop) = Shop::open_with(Isolation::ReadCommitted, options).await else { return };
    assert!(ask(&shop.onefold, "event-1").await.unwrap());
    let lost = Sending::Unknown { reason: "the connection was lost behind the mail's end".into() };
    let server = MailServer::new(&[lost, Sending::Accepted]);
    let relay = server.relay(&shop.onefold);
    let unknown = becomes(&shop.onefold, OutboxState::Unknown).await;
    let retention = Duration::from_secs(5);
    clock.pass(Duration::from_secs(10));
    let store = shop.onefold.store();
    assert_eq!(store.sweep_outbox(retention, 100).await.unwrap(), 0, "it waits for a person");
    let mut pressing = JoinSet::new();
    for _ in 0..8 {
        let (onefold, again) = (shop.onefold.clone(), act(unknown.attempt, Redrive::SendAgain));
        pressing.spawn(async move { onefold.resolve_notification(EFFECT, again).await.unwrap() });
    }
    let pressed = pressing.join_all().await;
    assert_eq!(pressed.iter().filter(|done| **done).count(), 1);
    let delivered = becomes(&shop.onefold, OutboxState::Delivered).await;
    clock.pass(Duration::from_secs(10));
    assert_eq!(store.sweep_outbox(retention, 100).await.unwrap(), 1);
    for attempt in [unknown.attempt, delivered.attempt] {
        let retry = shop.onefold.resolve_notification(EFFECT, act(attempt, Redrive::SendAgain)).await;
        assert!(!retry.unwrap(), "what was swept is not sent again");
    }
    assert!(!ask(&shop.onefold, "event-2").await.unwrap(), "the effect is known for good");
    assert_eq!(relay.stop(GRACE).await, 0);
    let given = server.given();
    assert_eq!((given.len(), &given[0].id), (2, &given[1].id), "once by itself, and once by a person's word");
}
