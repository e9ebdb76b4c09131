//! The inbox on SQLite beside its conformance suite: savepoints beside others in one transaction, the fence, and what
//! stands in its files.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use onefold_core::contract::Retention;
use onefold_core::{
    Delivery, Fingerprint, FingerprintBuilder, IdentityKey, InboxEntry, InboxState, Kept, Key, Message,
    MessageIdentity, StoreTime, judge_delivery,
};
use onefold_store::clock::ManualClock;
use onefold_store::{
    ConsumeStore, Consumed, Ended, Failure, Finish, InboxStore, KeptMessage, Mark, NewPermit, OperationStore,
    OutboxStore, StoreError, Versioned,
};
use onefold_store_sqlite::{FileUse, Options, SqliteStore, SqliteTx, SqliteWork};
use tokio::time::Instant;

const DAY: Duration = Duration::from_secs(24 * 3600);
const SECRET: &[u8] = b"nobody may read this";

struct Inbox {
    store: Arc<SqliteStore>,
    path: PathBuf,
    directory: tempfile::TempDir,
}

fn inbox() -> Inbox {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("shop.db");
    let clock = Arc::new(ManualClock::at(StoreTime(1_700_000_000_000)));
    let options =
        Options { clock, seal_keys: vec![[7; 32]], file_use: FileUse::Shared, ..Options::default() };
    let store = Arc::new(SqliteStore::open(&path, options).unwrap());
    let points = "CREATE TABLE customers (id INTEGER PRIMARY KEY);
        CREATE TABLE points (customer TEXT);
        CREATE TABLE parcels (customer INTEGER REFERENCES customers (id) DEFERRABLE INITIALLY DEFERRED)";
    rusqlite::Connection::open(&path).unwrap().execute_batch(points).unwrap();
    Inbox { store, path, directory }
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
            versioned: None,
        }
    }

    async fn accept(&self, mark: &Mark, messages: &[&str]) -> Consumed {
        let messages = messages.iter().map(|id| outgoing(id)).collect();
        self.store.accept(mark.clone(), messages).await.unwrap()
    }

    async fn accept_version(&self, mark: &Mark, version: Option<Versioned>, message: &str) -> InboxState {
        let accepted = self
            .store
            .accept(Mark { versioned: version, ..mark.clone() }, vec![outgoing(message)])
            .await
            .unwrap();
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

#[tokio::test]
async fn messages_that_cannot_be_made_leave_no_mark() {
    let i = inbox();
    let connection = rusqlite::Connection::open(&i.path).unwrap();
    let refuse = "CREATE TRIGGER no BEFORE INSERT ON onefold_outbox WHEN new.id = 'm-2'
        BEGIN SELECT RAISE(ABORT, 'no'); END";
    connection.execute_batch(refuse).unwrap();
    let mark = i.mark("evt-1", 0, "41");
    let messages = vec![outgoing("m-1"), outgoing("m-2")];
    let accepted =
        i.beside_another(i.store.accept(Mark { versioned: version(1), ..mark.clone() }, messages)).await;
    assert!(matches!(accepted, Err(StoreError::Refused(_))), "{accepted:?}");
    assert!(i.store.entries(mark.id).await.unwrap().is_empty());
    assert!(!i.made("m-1").await);
    connection.execute_batch("DROP TRIGGER no").unwrap();
    assert_eq!(i.accept_version(&mark, version(1), "m-2").await, InboxState::Processed);
}

fn award(tx: &mut SqliteTx<'_>) {
    tx.execute("INSERT INTO points VALUES ('ann')", []).unwrap();
}

fn finish(finish: Finish) -> Ended {
    Ended::Finished { finish, kept: Kept::Nothing, resource: None }
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
async fn message_that_cannot_be_made_leaves_nothing_and_its_handler_goes_on() {
    let i = inbox();
    let connection = rusqlite::Connection::open(&i.path).unwrap();
    let refuse =
        "CREATE TRIGGER no BEFORE INSERT ON onefold_outbox_open BEGIN SELECT RAISE(ABORT, 'no'); END";
    connection.execute_batch(refuse).unwrap();
    let handler = |tx: &mut SqliteTx<'_>| {
        assert!(tx.enqueue(&outgoing("m-1")).is_err());
        award(tx);
        finish(Finish::Succeeded)
    };
    assert!(is_done(&i.consume(&i.mark("evt-1", 0, "41"), handler).await));
    let rows = "SELECT count(*) FROM onefold_outbox";
    assert_eq!(connection.query_row(rows, [], |row| row.get::<_, i64>(0)).unwrap(), 0);
    assert_eq!(i.points(), 1);
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
    assert!(!i.files_hold(SECRET), "sealed");
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

/// A release that does not know of rounds changes the version, and not what says who brought it.
#[tokio::test]
async fn a_version_that_an_older_release_has_written_is_not_taken_for_one_that_a_permit_brings_again() {
    let i = inbox();
    let told = async |mark: Mark, version: i64| {
        let consumed = i.consume(&mark, move |tx| {
            tx.apply_if_newer("product-7", version).unwrap();
            Ended::Finished { finish: Finish::Succeeded, kept: Kept::Nothing, resource: None }
        });
        let Consumed::Done { state, .. } = consumed.await else { panic!("{version}") };
        state
    };
    assert_eq!(told(i.mark("evt-1", 0, "41"), 1).await, InboxState::Processed);
    assert_eq!(told(i.mark("evt-2", 0, "41"), 2).await, InboxState::Processed);
    let older = rusqlite::Connection::open(&i.path).unwrap();
    assert_eq!(older.execute("UPDATE onefold_projections SET version = 3", []).unwrap(), 1);
    let permit = NewPermit {
        consumer: "loyalty".into(),
        source: Some("shop".into()),
        damaged: None,
        handler: None,
        message: None,
        who: "ann".into(),
        reason: "wrong prices".into(),
    };
    let round = i.store.grant_permit(permit).await.unwrap().number;
    assert_eq!(told(i.mark("evt-1", round, "42"), 1).await, InboxState::Superseded);
    assert_eq!(
        told(i.mark("evt-2", round, "42"), 2).await,
        InboxState::Superseded,
        "also what it was brought by"
    );
}
