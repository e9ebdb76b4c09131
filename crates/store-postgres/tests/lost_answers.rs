//! An answer that is lost on its way: the store asks once more and recognises what it has done itself.

mod asking;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use asking::{claim, open, open_with, settle};
use onefold_core::contract::Retention;
use onefold_core::{EventKind, Kept, State};
use onefold_store::{
    Advanced, AtomicStore, Atomically, Claimed, ConsumeStore, Ended, Entry, Finish, InboxStore, Mark,
    NewEvent, OperationStore, StoreError,
};
use onefold_store_conformance::mark_under;
use onefold_store_postgres::{Options, PostgresStore, PostgresWork};
use onefold_testkit::postgres::{Database, Isolation};
use onefold_testkit::wait::{self, DEADLINE};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// A peer in the middle that hands everything on, until it is told to lose answers.
struct Middle {
    url: String,
    /// So many answers to statements are still to be lost, each with its connection.
    to_lose: Arc<AtomicUsize>,
    /// Whether new connections are handed on; they wait until then.
    open: watch::Sender<bool>,
}

impl Middle {
    async fn before(database: &Database) -> Middle {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let to = database.url();
        let (front, back) = to.split_once('@').expect("a user");
        let (server, name) = back.split_once('/').expect("a database");
        let url = format!("{front}@{}/{name}?sslmode=disable", listener.local_addr().expect("an address"));
        let (server, to_lose) = (server.to_owned(), Arc::new(AtomicUsize::new(0)));
        let (open, mut opens) = watch::channel(true);
        let lose = to_lose.clone();
        tokio::spawn(async move {
            loop {
                let Ok((client, _)) = listener.accept().await else { return };
                if opens.wait_for(|open| *open).await.is_err() {
                    return;
                }
                let server = TcpStream::connect(&server).await.expect("the server runs");
                tokio::spawn(hand_on(client, server, lose.clone()));
            }
        });
        Middle { url, to_lose, open }
    }

    fn lose(&self, answers: usize) {
        self.to_lose.store(answers, Ordering::SeqCst);
    }

    /// A work that succeeds, and the answer to whose commit is lost, if it is the first to run. Then nobody comes
    /// through until it is opened.
    fn work_whose_end_is_lost(&self) -> PostgresWork {
        let (to_lose, open, mut first) = (self.to_lose.clone(), self.open.clone(), true);
        PostgresWork::new(move |tx| {
            let (to_lose, open, lost) = (to_lose.clone(), open.clone(), std::mem::take(&mut first));
            Box::pin(async move {
                tx.execute("SELECT 1", &[]).await.expect("it is sent");
                if lost {
                    open.send_replace(false);
                    to_lose.store(1, Ordering::SeqCst);
                }
                Ended::Finished { finish: Finish::Succeeded, kept: Kept::Nothing, resource: None }
            })
        })
    }
}

/// An answer is lost once the server has given it: what it says has happened.
async fn hand_on(client: TcpStream, server: TcpStream, to_lose: Arc<AtomicUsize>) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let there = tokio::spawn(async move { tokio::io::copy(&mut from_client, &mut to_server).await });
    let mut buffer = vec![0; 1 << 16];
    while let Ok(read @ 1..) = from_server.read(&mut buffer).await {
        let one_less = |left: usize| left.checked_sub(1);
        if to_lose.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less).is_ok() {
            break;
        }
        if to_client.write_all(&buffer[..read]).await.is_err() {
            break;
        }
    }
    there.abort();
}

async fn one_connection(url: &str) -> PostgresStore {
    let options = Options { connections_max: 1, ..Options::default() };
    open_with(url, options).await.expect("the store opens")
}

fn late() -> Option<NewEvent> {
    Some(NewEvent {
        kind: EventKind::LateSuccess,
        who: "process-1".into(),
        reason: "late".into(),
        evidence: String::new(),
    })
}

#[tokio::test]
async fn claim_whose_answer_is_lost_is_known_to_be_won() {
    let what = "answers of PostgreSQL that are lost";
    let Some(database) = Database::create(what, Isolation::ReadCommitted).await else { return };
    let middle = Middle::before(&database).await;
    let store = open(&middle.url).await;
    store.claim(claim(&store, "before")).await.expect("connections are made");
    middle.lose(1);
    let claimed = store.claim(claim(&store, "k")).await.expect("it is asked once more");
    assert!(matches!(claimed, Claimed::Won { .. }), "{claimed:?}");
    let again = store.claim(claim(&store, "k")).await.expect("the store works");
    assert!(matches!(again, Claimed::Exists(_)), "another claim is not taken for one's own: {again:?}");
}

#[tokio::test]
async fn outcome_whose_answer_is_lost_is_known_to_be_settled_and_leaves_no_evidence_of_a_second() {
    let what = "answers of PostgreSQL that are lost";
    let Some(database) = Database::create(what, Isolation::ReadCommitted).await else { return };
    let middle = Middle::before(&database).await;
    let store = open(&middle.url).await;
    let new = claim(&store, "k");
    let id = new.id;
    store.claim(new).await.expect("the store works");
    store.advance(settle(onefold_core::OperationId::from_bytes([1; 32]), b"", None)).await.expect("connects");
    middle.lose(1);
    let advanced = store.advance(settle(id, b"done", late())).await.expect("it is asked once more");
    let record = store.read(id).await.expect("the store works").record.expect("the record");
    assert_eq!(record.state, State::Succeeded);
    let expected =
        Advanced::Done { now: record.completed_at.expect("completed"), expires_at: record.expires_at };
    assert_eq!(advanced, expected, "the first answer");
    assert_eq!(store.events(id).await.expect("the store works"), []);
    let again = store.advance(settle(id, b"again", late())).await.expect("the store works");
    assert!(
        matches!(again, Advanced::Superseded(_)),
        "another outcome is not taken for one's own: {again:?}"
    );
    assert_eq!(store.events(id).await.expect("the store works").len(), 1);
}

#[tokio::test]
async fn what_is_lost_again_and_again_is_unavailable() {
    let what = "answers of PostgreSQL that are lost";
    let Some(database) = Database::create(what, Isolation::ReadCommitted).await else { return };
    let middle = Middle::before(&database).await;
    let store = open(&middle.url).await;
    middle.lose(100);
    let lost = store.claim(claim(&store, "k")).await;
    assert!(matches!(lost, Err(StoreError::Unavailable(_))), "{lost:?}");
    middle.lose(0);
    let claimed = store.claim(claim(&store, "other")).await.expect("it works again");
    assert!(matches!(claimed, Claimed::Won { .. }), "{claimed:?}");
}

/// Whether it was committed nobody can know any longer: to run again would be a second effect.
#[tokio::test]
async fn handler_whose_mark_is_forgotten_before_its_fate_is_known_is_not_told_to_run_again() {
    let what = "answers of PostgreSQL that are lost";
    let Some(database) = Database::create(what, Isolation::ReadCommitted).await else { return };
    let middle = Middle::before(&database).await;
    let (store, beside) = (one_connection(&middle.url).await, open(&database.url()).await);
    let mark =
        Mark { retention: Retention::For(Duration::from_secs(1)), ..mark_under(&store, "evt-1", 0, "41") };
    let mut work = middle.work_whose_end_is_lost();
    let sweeping = async {
        let swept = async || (beside.sweep_inbox(100).await.expect("it sweeps") > 0).then_some(());
        wait::some(DEADLINE, "the mark is made and forgotten", swept).await;
        middle.open.send_replace(true);
    };
    let (consumed, ()) = tokio::join!(store.consume(mark, &mut work), sweeping);
    assert!(matches!(consumed, Err(StoreError::Unavailable(_))), "{consumed:?}");
}

#[tokio::test]
async fn work_whose_record_is_gone_before_its_fate_is_known_is_not_told_to_run_again() {
    let what = "answers of PostgreSQL that are lost";
    let Some(database) = Database::create(what, Isolation::ReadCommitted).await else { return };
    let middle = Middle::before(&database).await;
    let (store, beside) = (one_connection(&middle.url).await, open(&database.url()).await);
    first_work(&store).await;
    let mut new = claim(&store, "k");
    new.promise.retention = Retention::For(Duration::from_secs(1));
    new.promise.tombstone = Duration::ZERO;
    let mut work = middle.work_whose_end_is_lost();
    let sweeping = async {
        let swept = async || (beside.sweep(100).await.expect("it sweeps").deleted > 0).then_some(());
        wait::some(DEADLINE, "the record is made and gone", swept).await;
        middle.open.send_replace(true);
    };
    let (ended, ()) = tokio::join!(store.atomically(Entry::New(Box::new(new)), &mut work), sweeping);
    assert!(matches!(ended, Err(StoreError::Unavailable(_))), "{ended:?}");
}

#[tokio::test]
async fn work_whose_answer_is_lost_is_known_to_be_committed() {
    let what = "answers of PostgreSQL that are lost";
    let Some(database) = Database::create(what, Isolation::ReadCommitted).await else { return };
    let middle = Middle::before(&database).await;
    let store = one_connection(&middle.url).await;
    first_work(&store).await;
    let mut work = middle.work_whose_end_is_lost();
    let opening = async {
        let mut closed = middle.open.subscribe();
        closed.wait_for(|open| !open).await.expect("the middle is there");
        middle.open.send_replace(true);
    };
    let entry = Entry::New(Box::new(claim(&store, "k")));
    let (ended, ()) = tokio::join!(store.atomically(entry, &mut work), opening);
    assert!(matches!(ended, Ok(Atomically::Committed { .. })), "{ended:?}");
    assert_eq!(middle.to_lose.load(Ordering::SeqCst), 0, "an answer was lost");
}

/// Has the statements of atomic mode prepared, so that the answer that is lost later is that of the last ones.
async fn first_work(store: &PostgresStore) {
    let mut first = PostgresWork::new(|_| {
        Box::pin(async { Ended::Finished { finish: Finish::Succeeded, kept: Kept::Nothing, resource: None } })
    });
    let ended = store.atomically(Entry::New(Box::new(claim(store, "first"))), &mut first).await;
    assert!(matches!(ended, Ok(Atomically::Committed { .. })), "{ended:?}");
}
