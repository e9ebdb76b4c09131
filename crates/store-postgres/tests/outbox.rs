//! The outbox on PostgreSQL beside its conformance suite: transactions that commit late or never, one that stays
//! open, a restored database, a sequence of nobody's, and messages in transactions of their owners.

mod asking;

use std::time::Duration;

use asking::{claim, open};
use onefold_core::{Key, Message, OutboxState};
use onefold_store::{IfLost, OutboxStore, Redrive, Redriving, Sent, Settlement, Take};
use onefold_store_postgres::PostgresStore;
use onefold_testkit::postgres::{Database, Isolation};
use onefold_testkit::wait;
use tokio_postgres::{Client, NoTls};

const WHAT: &str = "the outbox on PostgreSQL";

async fn connect(database: &Database) -> Client {
    let (client, connection) = tokio_postgres::connect(&database.url(), NoTls).await.expect("it connects");
    tokio::spawn(connection);
    client
}

fn message(id: &str, ordering_key: Option<&str>) -> Message {
    Message {
        id: Key::new(id).expect("tests use valid keys"),
        destination: "shop".into(),
        address: "orders".into(),
        ordering_key: ordering_key.map(Into::into),
        headers: Vec::new(),
        body: id.as_bytes().to_vec(),
    }
}

async fn put(store: &PostgresStore, id: &str, ordering_key: Option<&str>) {
    assert_eq!(store.enqueue(vec![message(id, ordering_key)]).await.expect("the store works"), 1);
}

async fn take(store: &PostgresStore) -> Vec<String> {
    take_within(store, u64::MAX).await
}

async fn take_within(store: &PostgresStore, bytes: u64) -> Vec<String> {
    let lease = Duration::from_secs(30);
    let take = Take { destination: "shop".into(), limit: 100, bytes, lease, if_lost: IfLost::SendAgain };
    let taken = store.take(take).await.expect("the store works");
    taken.iter().map(|taken| taken.message.id.as_str().to_owned()).collect()
}

/// Takes until these have come, in this order.
async fn takes(store: &PostgresStore, ids: &[&str]) {
    let mut taken = Vec::new();
    wait::until_within(wait::DEADLINE, &format!("{ids:?} are given"), async || {
        taken.extend(take(store).await);
        taken.len() >= ids.len()
    })
    .await;
    assert_eq!(taken, ids);
}

async fn settle(store: &PostgresStore, id: &str, attempt: u32, sent: Sent) {
    let id = Key::new(id).expect("tests use valid keys");
    let settlement = Settlement { id, attempt, sent };
    assert_eq!(store.settle_sent(vec![settlement]).await.expect("the store works"), [true]);
}

async fn deliver(store: &PostgresStore, id: &str) {
    settle(store, id, 1, Sent::Delivered).await;
}

/// Waits until somebody waits for a lock in this database.
async fn somebody_waits(database: &Database) {
    let blocked = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'
        AND datname = current_database()";
    wait::until_within(wait::DEADLINE, "somebody waits", async || database.ask(blocked).await != "0").await;
}

#[tokio::test]
async fn b90_message_that_is_committed_late_is_sent_late_and_not_skipped() {
    let Some(database) = Database::create(WHAT, Isolation::ReadCommitted).await else { return };
    let store = open(&database.url()).await;
    let (mut late, mut never) = (connect(&database).await, connect(&database).await);
    let late = late.transaction().await.expect("it begins");
    assert!(store.enqueue_in(&late, message("late", None)).await.expect("it is made"));
    let never = never.transaction().await.expect("it begins");
    assert!(store.enqueue_in(&never, message("gap", None)).await.expect("it is made"));
    put(&store, "m-1", None).await;
    takes(&store, &["m-1"]).await;
    deliver(&store, "m-1").await;
    never.rollback().await.expect("it ends");
    // Far behind all that a claim looks at otherwise.
    late.execute("UPDATE onefold.outbox_open SET due_at = due_at - 3600000", &[]).await.expect("it is old");
    put(&store, "m-2", None).await;
    takes(&store, &["m-2"]).await;
    late.commit().await.expect("it commits");
    takes(&store, &["late"]).await;
    assert!(take(&store).await.is_empty());
    assert_eq!(database.ask("SELECT count(*) FROM onefold.outbox WHERE id = 'gap'").await, "0");
}

#[tokio::test]
async fn messages_of_one_key_have_the_order_of_their_commits() {
    // SERIALIZABLE ends the second transaction instead, and its owner runs it again.
    for isolation in [Isolation::ReadCommitted, Isolation::RepeatableRead] {
        let Some(database) = Database::create(WHAT, isolation).await else { return };
        let store = std::sync::Arc::new(open(&database.url()).await);
        let (mut first, mut second) = (connect(&database).await, connect(&database).await);
        let second = second.transaction().await.expect("it begins");
        // Its snapshot, where it has one, is older than what the first commits.
        second.query_one("SELECT 1", &[]).await.expect("it is begun");
        let first = first.transaction().await.expect("it begins");
        store.enqueue_in(&first, message("m-1", Some("a"))).await.expect("it is made");
        let waits = async {
            let made = store.enqueue_in(&second, message("m-2", Some("a"))).await;
            assert!(made.expect("it is made"), "{isolation:?}");
            second.commit().await.expect("it commits");
        };
        let commits = async {
            somebody_waits(&database).await;
            store.enqueue_in(&first, message("m-3", Some("a"))).await.expect("it is made");
            assert!(take(&store).await.is_empty(), "nothing is committed");
            first.commit().await.expect("it commits");
        };
        tokio::join!(waits, commits);
        for id in ["m-1", "m-3", "m-2"] {
            takes(&store, &[id]).await;
            assert!(take(&store).await.is_empty(), "one at a time");
            deliver(&store, id).await;
        }
    }
}

#[tokio::test]
async fn session_that_stays_in_its_transaction_stalls_nobody() {
    let Some(database) = Database::create(WHAT, Isolation::ReadCommitted).await else { return };
    let store = open(&database.url()).await;
    let (mut reader, mut writer) = (connect(&database).await, connect(&database).await);
    let reader = reader.build_transaction().isolation_level(tokio_postgres::IsolationLevel::RepeatableRead);
    let reader = reader.start().await.expect("it begins");
    reader.query("SELECT * FROM onefold.outbox_open", &[]).await.expect("it has a snapshot");
    put(&store, "a-1", Some("a")).await;
    takes(&store, &["a-1"]).await;
    // It holds the key of the message that is on its way, and goes on holding it.
    let writer = writer.transaction().await.expect("it begins");
    store.enqueue_in(&writer, message("a-2", Some("a"))).await.expect("it is made");
    put(&store, "b-1", Some("b")).await;
    put(&store, "m-1", None).await;
    takes(&store, &["b-1", "m-1"]).await;
    for id in ["a-1", "b-1", "m-1"] {
        deliver(&store, id).await;
    }
    put(&store, "b-2", Some("b")).await;
    takes(&store, &["b-2"]).await;
    writer.commit().await.expect("it commits");
    takes(&store, &["a-2"]).await;
    reader.rollback().await.expect("it ends");
}

/// Between the look of a claim, which sets the second message aside, and its commit, the first one is settled.
#[tokio::test]
async fn message_that_is_set_aside_while_the_one_before_it_is_closed_is_let_go() {
    let Some(database) = Database::create(WHAT, Isolation::ReadCommitted).await else { return };
    let store = open(&database.url()).await;
    put(&store, "a-1", Some("a")).await;
    takes(&store, &["a-1"]).await;
    put(&store, "a-2", Some("a")).await;
    let mut other = connect(&database).await;
    let other = other.transaction().await.expect("it begins");
    let look = "SELECT count(id) FROM onefold.outbox_take(NULL, 'shop', 10, 10, 30000, false, '', NULL)";
    let given = other.query_one(look, &[]).await.expect("it looks");
    assert_eq!(given.get::<_, i64>(0), 0, "it sets the second one aside");
    let settles = deliver(&store, "a-1");
    let commits = async {
        somebody_waits(&database).await;
        other.commit().await.expect("it commits");
    };
    tokio::join!(settles, commits);
    takes(&store, &["a-2"]).await;
}

/// Where few bytes are left, what does not fit stays for other relays, who pass over what is locked.
#[tokio::test]
async fn claim_locks_few_messages_for_which_it_has_no_room() {
    const LENGTH: usize = 20_000;
    let Some(database) = Database::create(WHAT, Isolation::ReadCommitted).await else { return };
    let store = open(&database.url()).await;
    let long = |n| Message { body: vec![b'a'; LENGTH], ..message(&format!("m-{n}"), None) };
    assert_eq!(store.enqueue((0..100).map(long).collect()).await.expect("the store works"), 100);
    let mut relay = connect(&database).await;
    let relay = relay.transaction().await.expect("it begins");
    let take = format!(
        "SELECT count(id) FROM onefold.outbox_take(NULL, 'shop', 100, 500, 30000, false, '', NULL, {}, true)",
        3 * LENGTH
    );
    assert_eq!(relay.query_one(&take, &[]).await.expect("it takes").get::<_, i64>(0), 2);
    let other = connect(&database).await;
    let free = "SELECT count(*) FROM (SELECT FROM onefold.outbox_open FOR UPDATE SKIP LOCKED) f";
    let free: i64 = other.query_one(free, &[]).await.expect("it looks").get(0);
    assert!(free >= 68, "{free} of 100 are left to others");
}

/// Looks of few rows are as many as it takes.
#[tokio::test]
async fn claim_with_few_bytes_gives_all_that_fits_in_order() {
    let Some(database) = Database::create(WHAT, Isolation::ReadCommitted).await else { return };
    let store = open(&database.url()).await;
    let ids: Vec<String> = (0..300).map(|n| format!("m-{n}")).collect();
    let made = ids.iter().map(|id| message(id, None)).collect();
    assert_eq!(store.enqueue(made).await.expect("the store works"), 300);
    let (lease, if_lost) = (Duration::from_secs(30), IfLost::SendAgain);
    let take = Take { destination: "shop".into(), limit: 250, bytes: 65_536, lease, if_lost };
    let taken = store.take(take).await.expect("the store works");
    let taken: Vec<&str> = taken.iter().map(|taken| taken.message.id.as_str()).collect();
    assert_eq!(taken, ids[..250]);
}

#[tokio::test]
async fn restored_database_goes_on_where_it_was_whatever_its_counters_say() {
    let Some(database) = Database::create(WHAT, Isolation::ReadCommitted).await else { return };
    let store = open(&database.url()).await;
    for id in ["a-1", "a-2", "a-3"] {
        put(&store, id, Some("a")).await;
    }
    takes(&store, &["a-1"]).await;
    settle(&store, "a-1", 1, Sent::Dead { reason: "refused".into() }).await;
    put(&store, "m-1", None).await;
    takes(&store, &["m-1"]).await;
    deliver(&store, "m-1").await;
    drop(store);

    let Some(restored) = Database::restored_from(WHAT, &database).await else { return };
    let store = open(&restored.url()).await;
    put(&store, "a-4", Some("a")).await;
    put(&store, "m-2", None).await;
    takes(&store, &["m-2"]).await;
    let known = store.enqueue(vec![message("m-1", None)]).await.expect("the store works");
    assert_eq!(known, 0, "what was delivered before is known");
    let redriving = Redriving {
        id: Key::new("a-1").expect("a key"),
        attempt: 1,
        redrive: Redrive::Discard,
        after: Duration::ZERO,
        who: "ann".into(),
        reason: "it is of no more use".into(),
    };
    assert!(store.redrive(redriving).await.expect("the store works"));
    for id in ["a-2", "a-3", "a-4"] {
        takes(&store, &[id]).await;
        deliver(&store, id).await;
    }
    let state = store.outgoing(&Key::new("a-1").expect("a key")).await.expect("the store works");
    assert_eq!(state.map(|entry| entry.state), Some(OutboxState::Discarded));
}

/// A claim looks several times where many messages wait behind others: within one statement, and by several.
#[tokio::test]
async fn bytes_of_a_claim_are_counted_over_all_of_its_looks() {
    for behind in [150, 700] {
        let Some(database) = Database::create(WHAT, Isolation::ReadCommitted).await else { return };
        let store = open(&database.url()).await;
        let long = |id| Message { body: vec![b'x'; 1000], ..message(id, None) };
        let behind = (0..behind).map(|n| message(&format!("a-{n:03}"), Some("a"))).collect();
        for messages in [vec![long("m-1")], behind, vec![long("m-2")]] {
            store.enqueue(messages).await.expect("the store works");
        }
        assert_eq!(take_within(&store, 1500).await, ["m-1", "a-000"]);
        assert_eq!(take_within(&store, 1500).await, ["m-2"]);
    }
}

#[tokio::test]
async fn message_in_an_owners_transaction_goes_with_the_rollback_and_stays_with_the_commit() {
    for isolation in [Isolation::ReadCommitted, Isolation::RepeatableRead, Isolation::Serializable] {
        let Some(database) = Database::create(WHAT, isolation).await else { return };
        let store = open(&database.url()).await;
        let mut client = connect(&database).await;
        let by = claim(&store, "k").id;
        let mail = || message("not used", Some("order-1"));
        for (commits, made) in [(false, true), (true, true), (true, false)] {
            let transaction = client.transaction().await.expect("it begins");
            let once = store.enqueue_once_in(&transaction, by, "order-1/CONFIRMED", mail()).await;
            assert_eq!(once.expect("the store works"), made);
            let known = store.enqueue_in(&transaction, message("m-1", None)).await;
            assert_eq!(known.expect("the store works"), made, "one id, one message");
            let ended = if commits { transaction.commit().await } else { transaction.rollback().await };
            ended.expect("it ends");
            assert_eq!(take(&store).await.len(), if commits && made { 2 } else { 0 }, "{isolation:?}");
        }
    }
}

#[tokio::test]
async fn content_never_stands_plain_in_the_tables() {
    let Some(database) = Database::create(WHAT, Isolation::ReadCommitted).await else { return };
    let options = onefold_store_postgres::Options { seal_keys: vec![[7; 32]], ..Default::default() };
    let store = asking::open_with(&database.url(), options).await.expect("the store opens");
    put(&store, "a body that nobody may read", None).await;
    let plain = "SELECT count(*) FROM onefold.outbox WHERE position('nobody may'::bytea IN form) > 0";
    assert_eq!(database.ask(plain).await, "0");
    let whole = database.ask("SELECT count(*) FROM onefold.outbox WHERE get_byte(form, 0) = 1").await;
    assert_eq!(whole, "1", "it is sealed");
}
