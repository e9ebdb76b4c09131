//! The inbox on SQLite: a message is handled once, and its mark and what it brings about are one commit.

mod asking;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use onefold_core::contract::Retention;
use onefold_core::{
    ActKind, Delivery, Fingerprint, FingerprintBuilder, IdentityKey, InboxEntry, InboxState, Kept, Key,
    Message, MessageIdentity, OutboxState, StoreTime, judge_delivery,
};
use onefold_store::clock::ManualClock;
use onefold_store::{
    AtomicStore, Atomically, ConsumeStore, Consumed, DeliveryCounts, Ended, Entry, Failure, Finish, IfLost,
    InboxQuery, InboxStore, KeptMessage, Mark, NewPermit, OperationStore, OutboxStore, Sent, Settlement,
    StoreError, Take, Versioned,
};
use onefold_store_sqlite::{FileUse, Options, SqliteStore, SqliteTx, SqliteWork};
use tokio::time::Instant;

const DAY: Duration = Duration::from_secs(24 * 3600);
const SECRET: &[u8] = b"nobody may read this";

struct Inbox {
    store: Arc<SqliteStore>,
    clock: Arc<ManualClock>,
    path: PathBuf,
    directory: tempfile::TempDir,
}

fn inbox() -> Inbox {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("shop.db");
    let clock = Arc::new(ManualClock::at(StoreTime(1_700_000_000_000)));
    let options = Options {
        clock: clock.clone(),
        seal_keys: vec![[7; 32]],
        file_use: FileUse::Shared,
        ..Options::default()
    };
    let store = Arc::new(SqliteStore::open(&path, options).unwrap());
    let points = "CREATE TABLE customers (id INTEGER PRIMARY KEY);
        CREATE TABLE points (customer TEXT);
        CREATE TABLE parcels (customer INTEGER REFERENCES customers (id) DEFERRABLE INITIALLY DEFERRED)";
    rusqlite::Connection::open(&path).unwrap().execute_batch(points).unwrap();
    Inbox { store, clock, path, directory }
}

fn fingerprint(body: &[u8]) -> Fingerprint {
    FingerprintBuilder::new(&IdentityKey::none()).part("body", body).finish()
}

fn outgoing(id: &str) -> Message {
    Message {
        id: Key::new(id).unwrap(),
        destination: "shop".into(),
        address: String::new(),
        ordering_key: None,
        headers: Vec::new(),
        body: b"points".to_vec(),
    }
}

fn version(version: i64) -> Option<Versioned> {
    Some(Versioned { entity: "product-7".into(), version })
}

impl Inbox {
    fn mark(&self, message: &str, round: u32, handler: &str) -> Mark {
        let message = Key::new(message).unwrap();
        let identity = MessageIdentity { consumer: "loyalty".into(), source: "shop".into(), message };
        Mark {
            id: identity.id(self.store.identity_key()),
            round,
            identity,
            handler: handler.into(),
            fingerprint: fingerprint(b"a"),
            retention: Retention::For(DAY),
            too_old_at: None,
            body: None,
        }
    }

    async fn accept(&self, mark: &Mark, messages: &[&str]) -> Consumed {
        let messages = messages.iter().map(|id| outgoing(id)).collect();
        self.store.accept(mark.clone(), None, messages).await.unwrap()
    }

    async fn accept_version(&self, mark: &Mark, version: Option<Versioned>, message: &str) -> InboxState {
        let accepted = self.store.accept(mark.clone(), version, vec![outgoing(message)]).await.unwrap();
        let Consumed::Done { state, .. } = accepted else { panic!("{accepted:?}") };
        state
    }

    async fn fail(&self, mark: &Mark, park_after: u32) -> InboxEntry {
        let failure = Failure { mark: mark.clone(), reason: "busy".into(), park_after: Some(park_after) };
        self.store.fail(failure).await.unwrap()
    }

    async fn judge(&self, mark: &Mark) -> Delivery {
        let entries = self.store.entries(mark.id).await.unwrap();
        let permits = self.store.permits(Some("loyalty")).await.unwrap();
        judge_delivery(&entries, &mark.fingerprint, &mark.handler, &permits)
    }

    async fn consume(
        &self,
        mark: &Mark,
        handler: impl FnMut(&mut SqliteTx<'_>) -> Ended + Send + 'static,
    ) -> Consumed {
        self.store.consume(mark.clone(), &mut SqliteWork::new(handler)).await.unwrap()
    }

    /// Runs it in one transaction with a message that is accepted.
    async fn beside_another<A>(&self, job: impl Future<Output = A>) -> A {
        let lock = rusqlite::Connection::open(&self.path).unwrap();
        lock.execute_batch("BEGIN IMMEDIATE").unwrap();
        let other = self.mark("another", 0, "41");
        let unlock = async {
            let deadline = Instant::now() + Duration::from_secs(5);
            while self.store.stats().waiting < 2 {
                assert!(Instant::now() < deadline, "both are on their way");
                tokio::task::yield_now().await;
            }
            lock.execute_batch("COMMIT").unwrap();
        };
        let (done, other, ()) = tokio::join!(job, self.accept(&other, &[]), unlock);
        assert!(is_done(&other));
        done
    }

    async fn send_and_forget(&self) {
        let take = Take { destination: "shop".into(), limit: 9, lease: DAY, if_lost: IfLost::SendAgain };
        let taken = self.store.take(take).await.unwrap();
        assert_eq!(taken.len(), 1);
        let settlement = Settlement { id: taken[0].message.id.clone(), attempt: 1, sent: Sent::Delivered };
        assert_eq!(self.store.settle_sent(vec![settlement]).await.unwrap(), [true]);
        assert_eq!(self.store.sweep_outbox(Duration::ZERO, 100).await.unwrap(), 1);
    }

    fn points(&self) -> i64 {
        let connection = rusqlite::Connection::open(&self.path).unwrap();
        connection.query_row("SELECT count(*) FROM points", [], |row| row.get(0)).unwrap()
    }

    async fn made(&self, id: &str) -> bool {
        self.store.outgoing(&Key::new(id).unwrap()).await.unwrap().is_some()
    }

    fn files_hold(&self, text: &[u8]) -> bool {
        let files = std::fs::read_dir(self.directory.path()).unwrap();
        files
            .map(|file| std::fs::read(file.unwrap().path()).unwrap())
            .any(|bytes| bytes.windows(text.len()).any(|part| part == text))
    }
}

fn is_done(consumed: &Consumed) -> bool {
    matches!(consumed, Consumed::Done { state: InboxState::Processed, .. })
}

fn permit(damaged: &str) -> NewPermit {
    NewPermit {
        consumer: "loyalty".into(),
        source: None,
        damaged: Some(damaged.into()),
        handler: None,
        message: None,
        who: "ann".into(),
        reason: "too few points".into(),
    }
}

#[tokio::test]
async fn mark_and_messages_are_made_once_and_together() {
    let i = inbox();
    let mark = i.mark("evt-1", 0, "41");
    assert!(is_done(&i.accept(&mark, &["m-1", "m-2"]).await));
    let Consumed::Found { entries, .. } = i.accept(&mark, &["m-3"]).await else { panic!("handled twice") };
    assert_eq!((entries.len(), entries[0].state), (1, InboxState::Processed));
    assert_eq!(i.judge(&mark).await, Delivery::Duplicate);
    assert!(i.made("m-1").await && i.made("m-2").await && !i.made("m-3").await);
    let other = Mark { fingerprint: fingerprint(b"b"), ..mark.clone() };
    assert!(matches!(i.accept(&other, &["m-3"]).await, Consumed::Found { .. }));
    assert_eq!(i.judge(&other).await, Delivery::Conflict);
    assert!(!i.made("m-3").await);
    let counts = DeliveryCounts { duplicates: 2, conflicts: 1 };
    i.store.count_deliveries(vec![(mark.id, 0, counts)]).await.unwrap();
    let page = i.store.list_inbox(InboxQuery { conflicts: true, limit: 9, ..InboxQuery::default() });
    let entry = &page.await.unwrap().entries[0];
    assert_eq!((entry.duplicates, entry.conflicts), (2, 1));
}

#[tokio::test]
async fn messages_that_cannot_be_made_leave_no_mark() {
    let i = inbox();
    let connection = rusqlite::Connection::open(&i.path).unwrap();
    let refuse = "CREATE TRIGGER no BEFORE INSERT ON onefold_outbox WHEN new.id = 'm-2'
        BEGIN SELECT RAISE(ABORT, 'no'); END";
    connection.execute_batch(refuse).unwrap();
    let mark = i.mark("evt-1", 0, "41");
    let messages = vec![outgoing("m-1"), outgoing("m-2")];
    let accepted = i.beside_another(i.store.accept(mark.clone(), version(1), messages)).await;
    assert!(matches!(accepted, Err(StoreError::Refused(_))), "{accepted:?}");
    assert!(i.store.entries(mark.id).await.unwrap().is_empty());
    assert!(!i.made("m-1").await);
    connection.execute_batch("DROP TRIGGER no").unwrap();
    assert_eq!(i.accept_version(&mark, version(1), "m-2").await, InboxState::Processed);
}

#[tokio::test]
async fn builds_side_by_side_and_parallel_deliveries_handle_a_message_once() {
    let i = Arc::new(inbox());
    let deliveries: Vec<_> = (0..24)
        .map(|n| {
            let i = i.clone();
            tokio::spawn(async move {
                let mark = i.mark("evt-1", 0, if n % 2 == 0 { "41" } else { "42" });
                is_done(&i.accept(&mark, &[&format!("m-{n}")]).await)
            })
        })
        .collect();
    let mut done = 0;
    for delivery in deliveries {
        done += u32::from(delivery.await.unwrap());
    }
    assert_eq!(done, 1);
    let made: u64 = i.store.survey_outbox().await.unwrap().iter().map(|of| of.depth).sum();
    assert_eq!(made, 1);
}

#[tokio::test]
async fn failures_count_up_to_the_dead_list_and_a_redrive_counts_once() {
    let i = inbox();
    let body = KeptMessage { headers: vec![("a".into(), "b".into())], body: SECRET.to_vec() };
    let mark = Mark { body: Some(body.clone()), ..i.mark("evt-1", 0, "41") };
    assert_eq!(i.fail(&mark, 2).await.state, InboxState::Failing);
    let other = Mark { fingerprint: fingerprint(b"b"), ..mark.clone() };
    assert_eq!(i.fail(&other, 2).await.failures, 1, "of something else");
    let parked = i.fail(&mark, 2).await;
    assert_eq!(
        (parked.state, parked.failures, parked.reason.as_deref()),
        (InboxState::Parked, 2, Some("busy"))
    );
    assert_eq!(i.fail(&mark, 2).await.failures, 2, "a dead letter stays as it is");
    assert_eq!(i.judge(&mark).await, Delivery::Parked);
    assert!(matches!(i.accept(&mark, &["m-1"]).await, Consumed::Found { .. }));
    assert_eq!(i.store.kept_message(mark.id, 0).await.unwrap(), Some(body));
    assert!(!i.files_hold(SECRET), "sealed");
    let survey = i.store.survey_inbox().await.unwrap();
    assert_eq!((survey.failing, survey.parked, survey.parked_oldest), (0, 1, Some(Duration::ZERO)));
    assert!(i.store.unpark(mark.id, 0, "ann", "mended").await.unwrap());
    assert!(!i.store.unpark(mark.id, 0, "ann", "mended").await.unwrap(), "pressed twice");
    let acts = i.store.inbox_acts(mark.id).await.unwrap();
    assert_eq!(acts.iter().map(|act| act.kind).collect::<Vec<_>>(), [ActKind::Redriven]);
    let failing = InboxQuery { state: Some(InboxState::Failing), limit: 1, ..InboxQuery::default() };
    assert_eq!(i.store.list_inbox(failing).await.unwrap().entries[0].failures, 0);
    assert!(is_done(&i.accept(&i.mark("evt-1", 0, "42"), &["m-1"]).await));
    let entry = &i.store.entries(mark.id).await.unwrap()[0];
    assert_eq!((entry.handler.as_str(), entry.kept), ("42", false));
}

#[tokio::test]
async fn permit_lets_each_message_through_once() {
    let i = inbox();
    i.accept(&i.mark("evt-1", 0, "41"), &["m-1"]).await;
    let granted = i.store.grant_permit(permit("41")).await.unwrap();
    assert_eq!(i.store.permits(None).await.unwrap(), std::slice::from_ref(&granted));
    let Delivery::Handle { round } = i.judge(&i.mark("evt-1", 0, "42")).await else {
        panic!("not let through")
    };
    assert_eq!(round, granted.number);
    let again = i.mark("evt-1", round, "42");
    assert!(is_done(&i.accept(&again, &["m-2"]).await));
    assert!(!is_done(&i.accept(&again, &["m-3"]).await));
    assert_eq!(i.judge(&i.mark("evt-1", 0, "43")).await, Delivery::Duplicate);
    i.accept(&i.mark("evt-2", 0, "41"), &["m-4"]).await;
    assert!(i.store.revoke_permit(granted.number, "ann", "done").await.unwrap());
    assert!(!i.store.revoke_permit(granted.number, "ann", "done").await.unwrap());
    assert_eq!(i.judge(&i.mark("evt-2", 0, "42")).await, Delivery::Duplicate);
    assert_eq!(i.store.grant_permit(permit("41")).await.unwrap().number, granted.number + 1);
}

#[tokio::test]
async fn older_and_equal_versions_of_others_are_superseded_and_lost_to_nobody() {
    let i = inbox();
    assert_eq!(i.accept_version(&i.mark("evt-2", 0, "41"), version(2), "m-2").await, InboxState::Processed);
    assert_eq!(i.accept_version(&i.mark("evt-1", 0, "41"), version(1), "m-1").await, InboxState::Superseded);
    assert_eq!(i.accept_version(&i.mark("evt-3", 0, "41"), version(2), "m-3").await, InboxState::Superseded);
    assert!(!i.made("m-1").await && !i.made("m-3").await);
    assert_eq!(i.accept_version(&i.mark("evt-3", 1, "42"), version(2), "m-3").await, InboxState::Superseded);
    let again = i.mark("evt-2", 1, "42");
    assert_eq!(i.accept_version(&again, version(2), "m-4").await, InboxState::Processed);
    assert!(i.made("m-4").await, "a message does not supersede itself");
}

#[tokio::test]
async fn marks_go_when_their_time_is_over_and_their_messages_are_done() {
    let i = inbox();
    let (mark, parked) = (i.mark("evt-1", 0, "41"), i.mark("evt-2", 0, "41"));
    i.accept(&mark, &["m-1"]).await;
    i.fail(&parked, 1).await;
    assert_eq!(i.store.sweep_inbox(100).await.unwrap(), 0);
    i.clock.pass(DAY);
    assert_eq!(i.store.sweep_inbox(100).await.unwrap(), 0, "its message waits");
    let take = Take { destination: "shop".into(), limit: 9, lease: DAY, if_lost: IfLost::SendAgain };
    assert_eq!(i.store.take(take).await.unwrap().len(), 1);
    let id = Key::new("m-1").unwrap();
    let settlement = Settlement { id: id.clone(), attempt: 1, sent: Sent::Delivered };
    i.store.settle_sent(vec![settlement]).await.unwrap();
    assert_eq!(i.store.outgoing(&id).await.unwrap().unwrap().state, OutboxState::Delivered);
    assert_eq!(i.store.sweep_inbox(100).await.unwrap(), 1);
    assert!(i.store.entries(mark.id).await.unwrap().is_empty());
    assert_eq!(i.store.entries(parked.id).await.unwrap().len(), 1, "a dead letter waits for a person");
    let late = Mark { too_old_at: Some(StoreTime(1_700_000_000_000)), ..mark };
    assert!(matches!(i.accept(&late, &["m-9"]).await, Consumed::TooOld { .. }));
    assert!(!i.made("m-9").await);
}

#[tokio::test]
async fn mark_of_a_later_round_stays_no_shorter_than_the_first() {
    let i = inbox();
    i.accept(&Mark { retention: Retention::For(3 * DAY), ..i.mark("evt-1", 0, "41") }, &[]).await;
    i.accept(&i.mark("evt-1", 1, "42"), &[]).await;
    let entries = i.store.entries(i.mark("evt-1", 0, "41").id).await.unwrap();
    assert_eq!(entries[1].expires_at, entries[0].expires_at);
}

#[tokio::test]
async fn mark_of_a_later_round_stands_in_the_way_of_a_round_that_is_forgotten() {
    let i = inbox();
    let first = i.mark("evt-1", 0, "41");
    i.accept(&first, &[]).await;
    i.accept(&Mark { retention: Retention::For(3 * DAY), ..i.mark("evt-1", 1, "42") }, &[]).await;
    i.clock.pass(DAY);
    assert_eq!(i.store.sweep_inbox(100).await.unwrap(), 1);
    assert!(matches!(i.accept(&first, &["m-1"]).await, Consumed::Found { .. }));
    assert!(!i.made("m-1").await);
}

fn award(tx: &mut SqliteTx<'_>) {
    tx.execute("INSERT INTO points VALUES ('ann')", []).unwrap();
}

fn finish(finish: Finish) -> Ended {
    Ended::Finished { finish, kept: Kept::Nothing, resource: None }
}

#[tokio::test]
async fn effect_and_mark_are_one_commit_and_happen_once() {
    let i = Arc::new(inbox());
    let deliveries: Vec<_> = (0..24)
        .map(|n| {
            let i = i.clone();
            tokio::spawn(async move {
                let mark = i.mark("evt-1", 0, if n % 2 == 0 { "41" } else { "42" });
                let handler = |tx: &mut SqliteTx<'_>| {
                    award(tx);
                    finish(Finish::Succeeded)
                };
                is_done(&i.consume(&mark, handler).await)
            })
        })
        .collect();
    let mut done = 0;
    for delivery in deliveries {
        done += u32::from(delivery.await.unwrap());
    }
    assert_eq!((done, i.points()), (1, 1));
}

#[tokio::test]
async fn handler_that_ends_otherwise_leaves_neither_effect_nor_message() {
    let i = inbox();
    let mark = i.mark("evt-1", 0, "41");
    let write = |tx: &mut SqliteTx<'_>| {
        award(tx);
        assert!(tx.enqueue(&outgoing("m-1")).unwrap());
    };
    let not_done = move |tx: &mut SqliteTx<'_>| {
        write(tx);
        Ended::NotDone
    };
    assert_eq!(i.beside_another(i.consume(&mark, not_done)).await, Consumed::NotDone);
    assert_eq!((i.points(), i.made("m-1").await), (0, false));
    let panics = move |tx: &mut SqliteTx<'_>| -> Ended {
        write(tx);
        panic!("a bug")
    };
    assert!(matches!(i.consume(&mark, panics).await, Consumed::Stopped(why) if why.contains("a bug")));
    let fenced = move |tx: &mut SqliteTx<'_>| {
        write(tx);
        assert!(tx.execute("DELETE FROM onefold_inbox", []).is_err());
        assert!(tx.execute("RELEASE job", []).is_err());
        assert!(tx.execute("RELEASE message", []).is_err());
        Ended::Again("busy".into())
    };
    assert_eq!(i.consume(&mark, fenced).await, Consumed::Contended("busy".into()));
    assert!(i.store.entries(mark.id).await.unwrap().is_empty());
    assert!(!i.made("m-1").await);
    let rejects = move |tx: &mut SqliteTx<'_>| {
        write(tx);
        finish(Finish::Rejected)
    };
    assert!(matches!(i.consume(&mark, rejects).await, Consumed::Done { state: InboxState::Rejected, .. }));
    assert_eq!((i.points(), i.made("m-1").await), (0, false));
    assert_eq!(i.judge(&mark).await, Delivery::Duplicate);
}

#[tokio::test]
async fn message_of_a_handler_keeps_the_mark_until_it_is_done() {
    let i = inbox();
    let mark = i.mark("evt-1", 0, "41");
    let handler = |tx: &mut SqliteTx<'_>| {
        assert!(tx.enqueue(&outgoing("m-1")).unwrap());
        assert!(!tx.enqueue(&outgoing("m-1")).unwrap(), "one id, one message");
        finish(Finish::Succeeded)
    };
    let mut hint = i.store.hint();
    assert!(is_done(&i.consume(&mark, handler).await));
    assert!(hint.waited(Duration::from_secs(30)).await, "relays are told");
    i.clock.pass(DAY);
    assert_eq!(i.store.sweep_inbox(100).await.unwrap(), 0);
}

#[tokio::test]
async fn two_events_that_ask_for_one_effect_make_one_message() {
    let i = inbox();
    for (event, made) in [("evt-1", true), ("evt-2", false), ("evt-3", false)] {
        if event == "evt-3" {
            i.send_and_forget().await;
        }
        let handler = move |tx: &mut SqliteTx<'_>| {
            let mail = outgoing("not used");
            assert_eq!(tx.enqueue_once("order-5001/CONFIRMED", mail).unwrap(), made);
            finish(Finish::Succeeded)
        };
        assert!(is_done(&i.consume(&i.mark(event, 0, "41"), handler).await));
    }
    assert!(i.store.survey_outbox().await.unwrap().is_empty(), "also once the message is forgotten");
}

#[tokio::test]
async fn effect_whose_message_cannot_be_made_is_not_noted() {
    let i = inbox();
    let connection = rusqlite::Connection::open(&i.path).unwrap();
    let refuse =
        "CREATE TRIGGER no BEFORE INSERT ON onefold_outbox_open BEGIN SELECT RAISE(ABORT, 'no'); END";
    connection.execute_batch(refuse).unwrap();
    let handler = |tx: &mut SqliteTx<'_>| {
        assert!(tx.enqueue_once("order-5001/CONFIRMED", outgoing("m-1")).is_err());
        finish(Finish::Succeeded)
    };
    assert!(is_done(&i.consume(&i.mark("evt-1", 0, "41"), handler).await));
    let rows = "SELECT (SELECT count(*) FROM onefold_effects) + (SELECT count(*) FROM onefold_outbox)";
    assert_eq!(connection.query_row(rows, [], |row| row.get::<_, i64>(0)).unwrap(), 0);
}

#[tokio::test]
async fn message_of_atomic_mode_goes_with_the_rollback_and_stays_with_the_commit() {
    let i = inbox();
    let run = async |key: &str, message: &'static str, ended: fn() -> Ended| {
        let closure = move |tx: &mut SqliteTx<'_>| {
            assert!(tx.enqueue(&outgoing(message)).unwrap());
            ended()
        };
        let entry = Entry::New(Box::new(asking::claim(key)));
        i.store.atomically(entry, &mut SqliteWork::new(closure)).await.unwrap()
    };
    assert!(matches!(run("k-1", "m-1", || Ended::NotDone).await, Atomically::NotDone));
    assert!(matches!(run("k-1", "m-1", || panic!("a bug")).await, Atomically::Stopped(_)));
    assert!(!i.made("m-1").await);
    let done = run("k-1", "m-1", || finish(Finish::Succeeded)).await;
    assert!(matches!(done, Atomically::Committed { .. }));
    assert!(i.made("m-1").await);
}

#[tokio::test]
async fn handler_that_leaves_a_deferred_constraint_broken_is_told_so_and_leaves_no_mark() {
    let i = inbox();
    let mark = i.mark("evt-1", 0, "41");
    let handler = |tx: &mut SqliteTx<'_>| {
        tx.execute("INSERT INTO parcels VALUES (7)", []).unwrap();
        finish(Finish::Succeeded)
    };
    let mut consumed = i.consume(&mark, handler).await;
    if matches!(consumed, Consumed::Contended(_)) {
        // It may have been somebody else in the transaction; now it is alone.
        consumed = i.consume(&mark, handler).await;
    }
    assert!(matches!(consumed, Consumed::Stopped(_)), "{consumed:?}");
    assert!(i.store.entries(mark.id).await.unwrap().is_empty());
}

#[tokio::test]
async fn key_that_a_kept_message_is_sealed_under_is_not_retired() {
    let i = inbox();
    let body = KeptMessage { headers: Vec::new(), body: SECRET.to_vec() };
    let mark = Mark { body: Some(body.clone()), ..i.mark("evt-1", 0, "41") };
    i.fail(&mark, 1).await;
    let Inbox { store, path, directory: _directory, .. } = i;
    drop(store);
    let open = |seal_keys| {
        let options = Options { seal_keys, file_use: FileUse::Shared, ..Options::default() };
        SqliteStore::open(&path, options)
    };
    drop(open(vec![[8; 32], [7; 32]]).unwrap());
    assert!(open(vec![[8; 32]]).is_err(), "a dead letter would be unreadable");
    let both = open(vec![[8; 32], [7; 32]]).unwrap();
    assert_eq!(both.kept_message(mark.id, 0).await.unwrap(), Some(body));
}
