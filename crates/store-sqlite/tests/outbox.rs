//! The outbox on SQLite: who gets a message and when, and what settles it.

use std::sync::Arc;
use std::time::Duration;

use onefold_core::{ActKind, Key, Message, OutboxState, StoreTime};
use onefold_store::clock::ManualClock;
use onefold_store::{IfLost, OutboxQuery, OutboxStore, Redrive, Redriving, Sent, Settlement, Take, Taken};
use onefold_store_sqlite::{Options, SqliteStore};

const LEASE: Duration = Duration::from_secs(30);

struct Outbox {
    store: SqliteStore,
    clock: Arc<ManualClock>,
    directory: tempfile::TempDir,
}

fn outbox() -> Outbox {
    let directory = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::at(StoreTime(1_700_000_000_000)));
    let options = Options { clock: clock.clone(), seal_keys: vec![[7; 32]], ..Options::default() };
    let store = SqliteStore::open(directory.path().join("onefold.db"), options).unwrap();
    Outbox { store, clock, directory }
}

fn key(id: &str) -> Key {
    Key::new(id).unwrap()
}

fn message(id: &str, ordering_key: Option<&str>) -> Message {
    Message {
        id: key(id),
        destination: "shop".into(),
        address: "orders".into(),
        ordering_key: ordering_key.map(Into::into),
        headers: vec![("content-type".into(), "text/plain".into())],
        body: b"a body that nobody may read".to_vec(),
    }
}

impl Outbox {
    async fn enqueue(&self, messages: &[Message]) -> u64 {
        self.store.enqueue(messages.to_vec()).await.unwrap()
    }

    async fn take(&self, if_lost: IfLost) -> Vec<Taken> {
        let take = Take { destination: "shop".into(), limit: 10, lease: LEASE, if_lost };
        self.store.take(take).await.unwrap()
    }

    async fn ids(&self) -> Vec<String> {
        let taken = self.take(IfLost::SendAgain).await;
        taken.iter().map(|taken| taken.message.id.as_str().to_owned()).collect()
    }

    async fn settle(&self, id: &str, attempt: u32, sent: Sent) -> bool {
        let settlement = Settlement { id: key(id), attempt, sent };
        self.store.settle_sent(vec![settlement]).await.unwrap()[0]
    }

    async fn redrive(&self, id: &str, attempt: u32, redrive: Redrive) -> bool {
        let (who, reason) = ("ann".into(), "it is up again".into());
        let redriving = Redriving { id: key(id), attempt, redrive, after: Duration::ZERO, who, reason };
        self.store.redrive(redriving).await.unwrap()
    }

    async fn state(&self, id: &str) -> OutboxState {
        self.store.outgoing(&key(id)).await.unwrap().unwrap().state
    }
}

fn dead() -> Sent {
    Sent::Dead { reason: "refused".into() }
}

#[tokio::test]
async fn message_is_given_to_one_and_comes_back_as_it_was() {
    let o = outbox();
    let sent = message("m-1", None);
    assert_eq!(o.enqueue(&[sent.clone(), sent.clone()]).await, 1, "a known id is passed over");
    let taken = o.take(IfLost::SendAgain).await;
    assert_eq!((taken.len(), &taken[0].message, taken[0].attempt), (1, &sent, 1));
    assert!(o.ids().await.is_empty(), "somebody has it");
    assert!(o.settle("m-1", 1, Sent::Delivered).await);
    assert_eq!(o.state("m-1").await, OutboxState::Delivered);
    assert_eq!(o.enqueue(&[sent]).await, 0, "also once it is done");
}

#[tokio::test]
async fn lost_sending_is_sent_again_and_the_late_settlement_changes_nothing() {
    let o = outbox();
    o.enqueue(&[message("m-1", None)]).await;
    o.ids().await;
    o.clock.pass(LEASE);
    assert_eq!(o.take(IfLost::SendAgain).await[0].attempt, 2);
    assert!(!o.settle("m-1", 1, dead()).await, "superseded");
    assert_eq!(o.state("m-1").await, OutboxState::Sending);
    assert!(o.settle("m-1", 2, Sent::Delivered).await);
}

#[tokio::test]
async fn lost_sending_is_held_where_nobody_would_know_it_again() {
    let o = outbox();
    o.enqueue(&[message("m-1", None)]).await;
    o.ids().await;
    o.clock.pass(LEASE);
    assert!(o.take(IfLost::Hold).await.is_empty());
    assert_eq!(o.state("m-1").await, OutboxState::Unknown);
    assert!(o.settle("m-1", 1, Sent::Delivered).await, "the attempt that holds the number may still report");
    assert_eq!(o.state("m-1").await, OutboxState::Delivered);
}

#[tokio::test]
async fn leap_of_the_clock_ends_no_lease() {
    let o = outbox();
    o.enqueue(&[message("m-1", None)]).await;
    o.ids().await;
    o.clock.set_wall(StoreTime(1_800_000_000_000));
    assert!(o.ids().await.is_empty());
    o.clock.pass(LEASE);
    assert_eq!(o.ids().await, ["m-1"]);
}

#[tokio::test]
async fn dead_head_holds_up_its_own_key_until_a_person_acts() {
    let o = outbox();
    o.enqueue(&[message("a-1", Some("a")), message("a-2", Some("a")), message("b-1", Some("b"))]).await;
    assert_eq!(o.ids().await, ["a-1", "b-1"], "of each key the first");
    assert!(o.settle("a-1", 1, dead()).await);
    assert!(o.settle("b-1", 1, Sent::Delivered).await);
    o.enqueue(&[message("b-2", Some("b"))]).await;
    assert_eq!(o.ids().await, ["b-2"]);
    assert!(o.redrive("a-1", 1, Redrive::SendAgain).await);
    assert!(!o.redrive("a-1", 1, Redrive::SendAgain).await, "pressed twice");
    assert_eq!(o.ids().await, ["a-1"]);
    assert!(o.settle("a-1", 2, dead()).await);
    assert!(!o.redrive("a-1", 1, Redrive::SendAgain).await, "what was seen before it died again");
    assert!(o.redrive("a-1", 2, Redrive::Discard).await);
    assert_eq!(o.ids().await, ["a-2"]);
    let acts = o.store.outbox_acts(&key("a-1")).await.unwrap();
    let kinds: Vec<_> = acts.iter().map(|act| (act.kind, act.attempt, act.who.as_str())).collect();
    assert_eq!(kinds, [(ActKind::Redriven, 1, "ann"), (ActKind::Discarded, 2, "ann")]);
}

#[tokio::test]
async fn failure_is_sent_again_when_it_says() {
    let o = outbox();
    o.enqueue(&[message("m-1", None)]).await;
    o.ids().await;
    let again = Sent::Again { after: LEASE, counted: true, reason: "busy".into() };
    assert!(o.settle("m-1", 1, again).await);
    assert!(o.ids().await.is_empty());
    o.clock.pass(LEASE);
    let taken = o.take(IfLost::SendAgain).await;
    assert_eq!((taken[0].attempt, taken[0].failures), (2, 1));
}

#[tokio::test]
async fn pages_surveys_and_the_sweep_see_what_stands() {
    let o = outbox();
    o.enqueue(&[message("m-1", None), message("m-2", None), message("m-3", None)]).await;
    o.ids().await;
    o.settle("m-1", 1, Sent::Delivered).await;
    o.settle("m-2", 1, dead()).await;
    let survey = o.store.survey_outbox().await.unwrap();
    assert_eq!((survey[0].depth, survey[0].dead, survey[0].oldest), (1, 1, Some(Duration::ZERO)));
    let first = o.store.list_outbox(OutboxQuery { limit: 2, ..OutboxQuery::default() }).await.unwrap();
    assert_eq!((first.entries.len(), first.next_cursor.is_some()), (2, true));
    let rest = OutboxQuery { limit: 2, cursor: first.next_cursor, ..OutboxQuery::default() };
    let rest = o.store.list_outbox(rest).await.unwrap();
    assert_eq!((rest.entries[0].message.id.as_str(), rest.next_cursor), ("m-3", None));
    let dead = OutboxQuery { state: Some(OutboxState::Dead), limit: 9, ..OutboxQuery::default() };
    assert_eq!(o.store.list_outbox(dead).await.unwrap().entries.len(), 1);
    o.clock.pass(LEASE);
    assert_eq!(o.store.sweep_outbox(LEASE, 100).await.unwrap(), 1, "what is done, and nothing else");
    assert_eq!(o.store.outgoing(&key("m-1")).await.unwrap(), None);
}

#[tokio::test]
async fn content_never_stands_plain_in_the_files() {
    let o = outbox();
    o.enqueue(&[message("m-1", None)]).await;
    for entry in std::fs::read_dir(o.directory.path()).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        assert!(!bytes.windows(11).any(|part| part == b"nobody may "));
    }
    assert_eq!(o.take(IfLost::SendAgain).await[0].message.body, message("m-1", None).body);
}

#[tokio::test]
async fn hint_is_given_for_what_is_committed() {
    let o = outbox();
    let mut hint = o.store.hint();
    o.enqueue(&[message("m-1", None)]).await;
    assert!(hint.waited(LEASE).await);
    assert!(!hint.waited(Duration::ZERO).await, "one hint wakes once");
}
