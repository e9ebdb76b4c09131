//! Notifications: one mail for each effect, made with the business, and settled once where nobody knows.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use onefold::messages::{ActError, Destination, IfLost, Message, Relay, Sending, Sink, async_trait};
use onefold::notify::{Mail, NotificationAct, Notify, OutboxEntry, OutboxState, Redrive};
use onefold::{CallError, FileUse, Limits, Onefold, Operation, Options, Scope, Verdict};
use onefold_core::{ActKind, StoreTime};
use onefold_store::OutboxStore;
use onefold_store::clock::ManualClock;
use onefold_testkit::wait;
use tokio::task::JoinSet;

use crate::shop::{Shop, insert};

const EFFECT: &str = "order-5001/ORDER_CONFIRMED";
const GRACE: Duration = Duration::from_secs(10);

fn mail() -> Mail {
    Mail::new("ann@example.org", "Your order").text("Thank you.")
}

/// An event that asks for the mail. True: it made the job.
async fn ask(onefold: &Onefold, event: &str) -> Result<bool, CallError> {
    let operation = Operation::new("HandleEvent", "one order row for each event");
    let call = operation.call(Scope::new([("customer", "17")]), event, &()).unwrap();
    let done = onefold.atomic(call, |tx| {
        insert(tx, "lamp")?;
        Ok(Verdict::succeeded(Notify::by("mail").once(tx, EFFECT, &mail())?))
    });
    Ok(*done.await?.value())
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

    fn relay(&self, onefold: &Onefold) -> Relay {
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

fn lost() -> Sending {
    Sending::Unknown { reason: "the connection was lost behind the mail's end".into() }
}

async fn entry(onefold: &Onefold) -> OutboxEntry {
    onefold.notification(EFFECT).await.unwrap().expect("the mail was asked for")
}

async fn becomes(onefold: &Onefold, state: OutboxState) -> OutboxEntry {
    let what = format!("the mail is {state}");
    wait::until_within(wait::DEADLINE, &what, async || entry(onefold).await.state == state).await;
    entry(onefold).await
}

fn act(attempt: u32, act: Redrive) -> NotificationAct {
    NotificationAct { attempt, act, who: "ann".into(), reason: "the server's log says so".into() }
}

#[tokio::test(flavor = "multi_thread")]
async fn events_that_ask_for_one_mail_make_one_job() {
    let shop = Shop::open();
    let mut asking = JoinSet::new();
    for event in 0..8 {
        let onefold = shop.onefold.clone();
        asking.spawn(async move { ask(&onefold, &format!("event-{event}")).await.unwrap() });
    }
    let made = asking.join_all().await;
    assert_eq!(made.iter().filter(|made| **made).count(), 1);
    assert_eq!(shop.orders(), 8, "the business of every event is done");

    let server = MailServer::new(&[Sending::Accepted]);
    let relay = server.relay(&shop.onefold);
    becomes(&shop.onefold, OutboxState::Delivered).await;
    assert!(!ask(&shop.onefold, "event-late").await.unwrap(), "also once it is delivered");
    assert_eq!(relay.stop(GRACE).await, 0);
    let given = server.given();
    assert_eq!(given.len(), 1);
    assert_eq!(serde_json::from_slice::<Mail>(&given[0].body).unwrap(), mail());
}

#[tokio::test(flavor = "multi_thread")]
async fn mail_is_made_with_the_business_or_not_at_all() {
    let shop = Shop::open();
    let operation = Operation::new("HandleEvent", "one order row for each event");
    let call = operation.call(Scope::new([("customer", "17")]), "event-1", &()).unwrap();
    let failed = shop.onefold.atomic::<(), _>(call, |tx| {
        assert!(Notify::by("mail").once(tx, EFFECT, &mail())?);
        Err("no stock".into())
    });
    assert!(matches!(failed.await, Err(CallError::NotDone { .. })));
    assert!(shop.onefold.notification(EFFECT).await.unwrap().is_none());
    assert!(ask(&shop.onefold, "event-2").await.unwrap(), "the effect is still free");
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_mail_is_settled_once_by_a_person_with_a_reason() {
    let shop = Shop::open();
    ask(&shop.onefold, "event-1").await.unwrap();
    let server = MailServer::new(&[lost(), Sending::Accepted]);
    let relay = server.relay(&shop.onefold);
    let unknown = becomes(&shop.onefold, OutboxState::Unknown).await;

    for silent in ["", " "] {
        let nobody = NotificationAct { who: silent.into(), ..act(unknown.attempt, Redrive::SendAgain) };
        let no_reason = NotificationAct { reason: silent.into(), ..act(unknown.attempt, Redrive::SendAgain) };
        let refused = shop.onefold.resolve_notification(EFFECT, no_reason).await;
        assert!(matches!(refused, Err(ActError::ReasonMissing)), "{refused:?}");
        let refused = shop.onefold.resolve_notification(EFFECT, nobody).await;
        assert!(matches!(refused, Err(ActError::Invalid(_))), "{refused:?}");
    }
    let mut pressing = JoinSet::new();
    for _ in 0..8 {
        let (onefold, again) = (shop.onefold.clone(), act(unknown.attempt, Redrive::SendAgain));
        pressing.spawn(async move { onefold.resolve_notification(EFFECT, again).await.unwrap() });
    }
    let pressed = pressing.join_all().await;
    assert_eq!(pressed.iter().filter(|done| **done).count(), 1);
    becomes(&shop.onefold, OutboxState::Delivered).await;
    for late in [Redrive::SendAgain, Redrive::Delivered, Redrive::Discard] {
        assert!(!shop.onefold.resolve_notification(EFFECT, act(unknown.attempt, late)).await.unwrap());
    }
    assert_eq!(relay.stop(GRACE).await, 0);

    let given = server.given();
    assert_eq!(given.len(), 2, "once by itself, and once by a person's word");
    assert_eq!(given[0].id, given[1].id, "a server or a reader may know it again");
    let acts = shop.onefold.store().outbox_acts(&unknown.message.id).await.unwrap();
    let kept: Vec<_> = acts.iter().map(|act| (act.kind, act.who.as_str(), act.reason.as_str())).collect();
    assert_eq!(kept, [(ActKind::Redriven, "ann", "the server's log says so")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn b67_retry_long_afterwards_finds_the_mail_or_does_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::at(StoreTime(1_700_000_000_000)));
    let options = Options { file_use: FileUse::Shared, clock: clock.clone(), ..Options::default() };
    let path = directory.path().join("shop.db");
    let onefold = Onefold::open(&path, options, Limits::default()).unwrap();
    let shop = rusqlite::Connection::open(&path).unwrap();
    shop.execute_batch("CREATE TABLE orders (number INTEGER PRIMARY KEY, sku TEXT)").unwrap();
    ask(&onefold, "event-1").await.unwrap();
    let server = MailServer::new(&[Sending::Refused { reason: "550".into() }, Sending::Accepted]);
    let relay = server.relay(&onefold);
    let dead = becomes(&onefold, OutboxState::Dead).await;

    let retention = Duration::from_secs(5);
    clock.pass(Duration::from_secs(10));
    assert_eq!(onefold.store().sweep_outbox(retention, 100).await.unwrap(), 0, "it waits for a person");
    assert!(onefold.resolve_notification(EFFECT, act(dead.attempt, Redrive::SendAgain)).await.unwrap());
    let delivered = becomes(&onefold, OutboxState::Delivered).await;

    clock.pass(Duration::from_secs(10));
    assert_eq!(onefold.store().sweep_outbox(retention, 100).await.unwrap(), 1);
    assert!(onefold.notification(EFFECT).await.unwrap().is_none());
    for attempt in [dead.attempt, delivered.attempt] {
        let retry = onefold.resolve_notification(EFFECT, act(attempt, Redrive::SendAgain)).await;
        assert!(!retry.unwrap(), "what was swept is not sent again");
    }
    assert!(!ask(&onefold, "event-2").await.unwrap(), "the effect is known for good");
    assert_eq!(relay.stop(GRACE).await, 0);
    assert_eq!(server.given().len(), 2);
}
