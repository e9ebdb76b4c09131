//! Closures that leave their connection in the middle of something.

mod asking;

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use asking::{claim, open, open_with, settle};
use bytes::BytesMut;
use onefold_core::contract::{OnStale, Retention};
use onefold_core::{Kept, Key, Message, Resource, State, StoreTime};
use onefold_store::{
    Advance, Advanced, Also, AtomicStore, Atomically, Claim, ConsumeStore, Consumed, Ended, Entry, Finish,
    InboxStore, Mark, OperationStore, Promise, Start, Step, StoreError, WriteStore, Written,
};
use onefold_store_conformance::mark_under;
use onefold_store_postgres::{Options, PostgresStore, PostgresWork, TxError};
use onefold_testkit::pgbouncer;
use onefold_testkit::postgres::{Database, Isolation};
use onefold_testkit::skipped::skipped;
use onefold_testkit::wait::DEADLINE;
use tokio::time::timeout;
use tokio_postgres::NoTls;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};

fn done() -> Ended {
    Ended::Finished { finish: Finish::Succeeded, kept: Kept::Nothing, resource: None }
}

fn new(store: &PostgresStore, key: &str) -> Entry {
    Entry::New(Box::new(claim(store, key)))
}

/// One connection, so that each closure gets what the one before has left.
fn one_connection() -> Options {
    Options { connections_max: 1, ..Options::default() }
}

#[tokio::test]
async fn statement_that_was_given_up_does_not_hold_up_the_rollback() {
    let what = "closures that give up a statement on PostgreSQL";
    let Some(database) = Database::create(what, Isolation::ReadCommitted).await else { return };
    database
        .execute("CREATE TABLE stock (sku text, left_over int); INSERT INTO stock VALUES ('lamp', 1)")
        .await;
    let (mut other, connection) = tokio_postgres::connect(&database.url(), NoTls).await.expect("it connects");
    tokio::spawn(connection);
    let held = other.transaction().await.expect("it begins");
    held.execute("UPDATE stock SET left_over = 0", &[]).await.expect("the row is locked");

    let store = open(&database.url()).await;
    let mut work = PostgresWork::new(|tx| {
        Box::pin(async move {
            let update = tx.execute("UPDATE stock SET left_over = left_over - 1", &[]);
            match tokio::time::timeout(Duration::from_millis(50), update).await {
                Ok(_) => Ended::Finished { finish: Finish::Succeeded, kept: Kept::Nothing, resource: None },
                Err(_) => Ended::NotDone,
            }
        })
    });
    let entry = || Entry::New(Box::new(claim(&store, "k")));
    let ended = tokio::time::timeout(DEADLINE, store.atomically(entry(), &mut work)).await;
    assert_eq!(ended.expect("it ends").expect("the store works"), Atomically::NotDone);

    held.rollback().await.expect("the row is free");
    let ended = loop {
        // The server ends what was given up only now.
        match store.atomically(entry(), &mut work).await.expect("the store works") {
            Atomically::NotDone | Atomically::Contended(_) | Atomically::Busy => {}
            ended => break ended,
        }
    };
    assert!(matches!(ended, Atomically::Committed { .. }), "{ended:?}");
    assert_eq!(database.ask("SELECT left_over FROM stock").await, "0");
}

/// `COMMIT` would end the transaction that has failed without a word.
#[tokio::test]
async fn handler_that_does_not_see_its_statement_fail_is_not_done() {
    let what = "handlers that give up a statement on PostgreSQL";
    let Some(database) = Database::create(what, Isolation::ReadCommitted).await else { return };
    database.execute("CREATE TABLE points (customer text PRIMARY KEY)").await;
    let (mut other, connection) = tokio_postgres::connect(&database.url(), NoTls).await.expect("it connects");
    tokio::spawn(connection);
    let held = other.transaction().await.expect("it begins");
    held.execute("INSERT INTO points VALUES ('ann')", &[]).await.expect("the row is made");

    let store = open(&database.url()).await;
    let (gave_up, given_up) = tokio::sync::oneshot::channel();
    let mut gave_up = Some(gave_up);
    let mut work = PostgresWork::new(move |tx| {
        let gave_up = gave_up.take();
        Box::pin(async move {
            let insert = tx.execute("INSERT INTO points VALUES ('ann')", &[]);
            assert!(timeout(Duration::from_millis(50), insert).await.is_err(), "it waits for the other");
            gave_up.map(|gave_up| gave_up.send(()));
            done()
        })
    });
    let mark = mark_under(&store, "evt-1", 0, "41");
    let id = mark.id;
    let consuming = store.consume(mark, &mut work);
    let committing = async {
        given_up.await.expect("the handler runs");
        held.commit().await.expect("the other one is faster");
    };
    let (consumed, ()) =
        timeout(DEADLINE, async { tokio::join!(consuming, committing) }).await.expect("it ends");
    assert!(!matches!(consumed, Ok(Consumed::Done { .. })), "{consumed:?}");
    assert!(store.entries(id).await.expect("the store works").is_empty(), "{consumed:?}");
}

/// A server works on for a connection that is gone; so does a pooler's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statement_whose_closure_is_over_is_ended_and_lets_its_locks_go() {
    let what = "statements of closures that are over, on PostgreSQL";
    for pooled in [false, true] {
        let Some(database) = Database::create(what, Isolation::ReadCommitted).await else { return };
        let url = match pgbouncer::shared() {
            Ok(pooler) if pooled => database.url_at(&pooler),
            Err(why) if pooled => return skipped(what, &why),
            _ => database.url(),
        };
        database.execute("CREATE TABLE stock (left_over int); INSERT INTO stock VALUES (1)").await;
        let options = Options { closure_time_max: Duration::from_millis(300), ..Options::default() };
        let store = open_with(&url, options).await.expect("the store opens");
        let mut work = PostgresWork::new(|tx| {
            Box::pin(async move {
                tx.execute("UPDATE stock SET left_over = 0", &[]).await.expect("it is written");
                let _ = tx.execute("SELECT pg_sleep(300)", &[]).await;
                done()
            })
        });
        let ended = store.atomically(new(&store, "k"), &mut work).await.expect("the store works");
        assert!(matches!(&ended, Atomically::Stopped(why) if why.contains("300ms")), "{ended:?}");
        let freed = database.execute("UPDATE stock SET left_over = left_over + 1");
        timeout(DEADLINE, freed).await.expect("the row is free again");
        assert_eq!(database.ask("SELECT left_over FROM stock").await, "2", "nothing of it was kept");
        let running = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(300)%'
            AND datname = current_database() AND state = 'active' AND pid <> pg_backend_pid()";
        assert_eq!(database.ask(running).await, "0");
    }
}

#[tokio::test]
async fn effect_that_was_given_up_in_the_middle_is_not_noted_without_its_message() {
    let what = "steps that closures give up on PostgreSQL";
    let Some(database) = Database::create(what, Isolation::ReadCommitted).await else { return };
    let store = open(&database.url()).await;
    let (mut other, connection) = tokio_postgres::connect(&database.url(), NoTls).await.expect("it connects");
    tokio::spawn(connection);
    let held = other.transaction().await.expect("it begins");
    held.execute("INSERT INTO onefold.effects (key, operation, at) VALUES ('e', '', 0)", &[])
        .await
        .expect("the effect is another's");
    let (given_up, sees) = tokio::sync::oneshot::channel::<()>();
    let given_up = std::sync::Arc::new(std::sync::Mutex::new(Some(given_up)));
    let mut work = PostgresWork::new(move |tx| {
        let given_up = given_up.lock().expect("nobody panics").take();
        Box::pin(async move {
            let message = Message {
                id: Key::new("m").expect("a key"),
                destination: "mail".into(),
                address: String::new(),
                ordering_key: None,
                headers: Vec::new(),
                body: Vec::new(),
            };
            assert!(timeout(Duration::from_millis(50), tx.enqueue_once("e", message)).await.is_err());
            given_up.map(|given_up| given_up.send(()));
            done()
        })
    });
    let entry = new(&store, "k");
    let both = async {
        tokio::join!(store.atomically(entry, &mut work), async {
            sees.await.expect("it was given up");
            held.rollback().await.expect("the effect is nobody's");
        })
    };
    let (ended, ()) = timeout(DEADLINE, both).await.expect("it ends");
    let ended = ended.expect("the store works");
    assert!(matches!(&ended, Atomically::Stopped(why) if why.contains("in the middle")), "{ended:?}");
    assert_eq!(database.ask("SELECT count(*) FROM onefold.effects").await, "0");
}

/// The next attempt of a record that is free.
async fn next(store: &PostgresStore, key: &str) -> Entry {
    let Claim { id, scope, key, owner, lease, fingerprint, ignored, .. } = claim(store, key);
    let promise = Promise {
        on_stale: OnStale::Unknown,
        retention: Retention::For(Duration::from_secs(3600)),
        tombstone: Duration::ZERO,
    };
    let start = Start { states: &[State::Failed], attempt: 1, also: Also::Nothing };
    let step = Step::Begin { scope, key, owner, lease, fingerprint, ignored, promise };
    Entry::Next(Box::new(Advance { id, start, step, event: None, if_superseded: None }))
}

async fn free(store: &PostgresStore, key: &str) {
    let claim = claim(store, key);
    let mut failed = settle(claim.id, b"", None);
    failed.step = Step::Settle { state: State::Failed, kept: Kept::Nothing, resource: None };
    store.claim(claim).await.expect("the store works");
    assert!(matches!(store.advance(failed).await, Ok(Advanced::Done { .. })));
}

#[tokio::test]
async fn trigger_that_refuses_at_the_commit_refuses_the_work_and_nothing_is_remembered() {
    let what = "deferred triggers on PostgreSQL";
    let Some(database) = Database::create(what, Isolation::ReadCommitted).await else { return };
    database
        .execute(
            "CREATE TABLE stock (left_over int);
            CREATE FUNCTION closed() RETURNS trigger LANGUAGE plpgsql AS
                $$ BEGIN RAISE EXCEPTION 'the shop is closed' USING ERRCODE = 'SHOP1'; END $$;
            CREATE CONSTRAINT TRIGGER closed AFTER INSERT ON stock DEFERRABLE INITIALLY DEFERRED
                FOR EACH ROW EXECUTE FUNCTION closed();",
        )
        .await;
    let store = open_with(&database.url(), one_connection()).await.expect("the store opens");
    free(&store, "again").await;
    for entry in [new(&store, "new"), next(&store, "again").await] {
        let mut work = PostgresWork::new(|tx| {
            Box::pin(async move {
                tx.execute("INSERT INTO stock VALUES (1)", &[]).await.expect("it is written");
                done()
            })
        });
        let ended = store.atomically(entry.clone(), &mut work).await.expect("the store is at no fault");
        assert!(
            matches!(&ended, Atomically::Stopped(why) if why.contains("the shop is closed")),
            "{ended:?}"
        );
        let record = store.read(entry.id()).await.expect("the store works").record;
        assert!(record.is_none_or(|record| record.state == State::Failed), "it is as free as before");
    }
    assert_eq!(database.ask("SELECT count(*) FROM stock").await, "0");
    let mut fine = PostgresWork::new(|_| Box::pin(async { done() }));
    let ended = store.atomically(new(&store, "new"), &mut fine).await;
    assert!(matches!(ended, Ok(Atomically::Committed { .. })), "{ended:?}");
}

#[tokio::test]
async fn connection_that_takes_no_writes_at_the_end_is_not_the_next_ones() {
    let what = "connections that became read-only on PostgreSQL";
    let Some(database) = Database::create(what, Isolation::ReadCommitted).await else { return };
    let store = open_with(&database.url(), one_connection()).await.expect("the store opens");
    let (told, mut pids) = tokio::sync::mpsc::channel(3);
    for (key, read_only) in [("first", "on"), ("second", "off"), ("third", "off")] {
        let told = told.clone();
        let mut work = PostgresWork::new(move |tx| {
            let told = told.clone();
            Box::pin(async move {
                let pid = tx.query_opt("SELECT pg_backend_pid()", &[]).await.expect("it answers");
                told.try_send(pid.expect("a row").get::<_, i32>(0)).expect("it is heard");
                let set = format!("SET LOCAL transaction_read_only = {read_only}");
                let _ = tx.execute(&set, &[]).await;
                done()
            })
        });
        let ended = store.atomically(new(&store, key), &mut work).await;
        assert_eq!(ended.is_ok(), read_only == "off", "{key}: {ended:?}");
    }
    let mut next = || pids.try_recv().expect("it was told");
    let (first, second, third) = (next(), next(), next());
    assert_ne!(first, second, "it was closed");
    assert_eq!(second, third, "and else it is used again");
}

#[tokio::test]
async fn result_that_is_too_long_is_refused_with_the_writes_and_the_connection_is_kept() {
    let what = "long results on PostgreSQL";
    let Some(database) = Database::create(what, Isolation::ReadCommitted).await else { return };
    database.execute("CREATE TABLE stock (left_over int)").await;
    let options = Options { record_bytes_max: 1000, ..one_connection() };
    let store = open_with(&database.url(), options).await.expect("the store opens");
    let mut long = PostgresWork::new(|tx| {
        Box::pin(async move {
            tx.execute("INSERT INTO stock VALUES (1)", &[]).await.expect("it is written");
            let resource = Some(Resource { kind: "order".into(), id: "9".repeat(1000) });
            Ended::Finished { finish: Finish::Succeeded, kept: Kept::Nothing, resource }
        })
    });
    let ended = store.atomically(new(&store, "k"), &mut long).await;
    assert!(matches!(ended, Err(StoreError::Refused(_))), "{ended:?}");
    assert_eq!(database.ask("SELECT count(*) FROM stock").await, "0");
    let reserved = claim(&store, "reserved");
    let id = reserved.id;
    store.claim(reserved).await.expect("the store works");
    let settled = store.advance(settle(id, &[b'x'; 1000], None)).await;
    assert!(matches!(settled, Err(StoreError::Refused(_))), "{settled:?}");
    assert!(matches!(store.advance(settle(id, b"short", None)).await, Ok(Advanced::Done { .. })));
}

/// What the driver cannot write.
#[derive(Debug)]
struct Unwritable;

impl ToSql for Unwritable {
    fn to_sql(&self, _: &Type, _: &mut BytesMut) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        Err("it is too long".into())
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

#[tokio::test]
async fn statement_that_was_never_sent_is_no_lost_connection() {
    let what = "statements that cannot be written, on PostgreSQL";
    let Some(database) = Database::create(what, Isolation::ReadCommitted).await else { return };
    let store = open_with(&database.url(), one_connection()).await.expect("the store opens");
    let mut work = PostgresWork::new(|tx| {
        Box::pin(async move {
            let sent = tx.execute_typed("SELECT $1::integer", &[(&Unwritable, Type::INT4)]).await;
            assert!(sent.is_err());
            Ended::NotDone
        })
    });
    let ended = store.atomically(new(&store, "k"), &mut work).await.expect("the store works");
    assert_eq!(ended, Atomically::NotDone);
}

/// What is refused is not sent, nor is the limit that would have gone with it.
#[tokio::test]
async fn statement_behind_one_that_was_refused_has_its_time_limit() {
    let what = "statements of closures that are refused, on PostgreSQL";
    let Some(database) = Database::create(what, Isolation::ReadCommitted).await else { return };
    let store = open(&database.url()).await;
    let limit = Arc::new(Mutex::new(String::new()));
    let seen = limit.clone();
    let mut work = PostgresWork::new(move |tx| {
        let seen = seen.clone();
        Box::pin(async move {
            let refused = tx.execute("COMMIT", &[]).await;
            assert!(matches!(refused, Err(TxError::Refused(_))), "{refused:?}");
            let rows =
                tx.query("SELECT current_setting('statement_timeout')", &[]).await.expect("it is sent");
            *seen.lock().expect("nobody panics") = rows[0].get(0);
            done()
        })
    });
    // A transaction that is begun without a limit.
    let written = store.write(&mut work).await.expect("the store works");
    assert_eq!(written, Written::Done);
    let limit = limit.lock().expect("nobody panics").clone();
    assert!(!limit.is_empty() && limit != "0", "{limit}");
}

/// A mark that is made when its handler begins.
#[tokio::test]
async fn retention_of_a_mark_counts_from_the_end_of_its_handler() {
    let what = "marks of slow handlers on PostgreSQL";
    let Some(database) = Database::create(what, Isolation::ReadCommitted).await else { return };
    let store = open(&database.url()).await;
    let end_ms = Arc::new(AtomicI64::new(0));
    let seen = end_ms.clone();
    let mut work = PostgresWork::new(move |tx| {
        let seen = seen.clone();
        Box::pin(async move {
            let sql = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint FROM pg_sleep(0.2)";
            let rows = tx.query(sql, &[]).await.expect("it is sent");
            seen.store(rows[0].get(0), Ordering::Relaxed);
            done()
        })
    });
    let mark =
        Mark { retention: Retention::For(Duration::from_secs(1)), ..mark_under(&store, "evt-1", 0, "41") };
    let id = mark.id;
    let consumed = store.consume(mark, &mut work).await.expect("the store works");
    assert!(matches!(consumed, Consumed::Done { .. }), "{consumed:?}");
    let entry = store.entries(id).await.expect("the store works").pop().expect("the mark");
    let end_ms = end_ms.load(Ordering::Relaxed);
    assert!(entry.ended_at.0 >= end_ms, "{entry:?} ended at {end_ms} or later");
    assert_eq!(entry.expires_at, Some(StoreTime(entry.ended_at.0 + 1000)));
}
