//! Relays that run while a database does what a file cannot: transactions that commit late or never, sessions that stay
//! in theirs, and a database that was restored from a dump.

use std::time::Duration;

use onefold_core::OutboxState;
use onefold_messages::{ActOnOutgoing, Messages, Which};
use onefold_store::Redrive;
use onefold_testkit::postgres::{Database, Isolation};
use tokio_postgres::{Client, IsolationLevel, NoTls};

use crate::rig::{Scripted, accepted, failed, key, message, postgresql};

const WHAT: &str = "relays on PostgreSQL";
const GRACE: Duration = Duration::from_secs(10);

async fn connect(database: &Database) -> Client {
    let (client, connection) = tokio_postgres::connect(&database.url(), NoTls).await.expect("it connects");
    tokio::spawn(connection);
    client
}

#[tokio::test]
async fn b90_what_commits_late_is_sent_by_the_relay_that_has_looked_past_it_and_a_gap_stalls_nothing() {
    let Some(database) = Database::create(WHAT, Isolation::ReadCommitted).await else { return };
    let outbox = postgresql(&database.url(), None).await;
    let sink = Scripted::new(|_, _| accepted());
    let relay = outbox.relay(vec![sink.destination("shop")]);
    let (mut late, mut never) = (connect(&database).await, connect(&database).await);
    let late = late.transaction().await.expect("it begins");
    assert!(outbox.database().enqueue_in(&late, message("101", "shop", None)).await.expect("it is made"));
    let never = never.transaction().await.expect("it begins");
    assert!(outbox.database().enqueue_in(&never, message("gap", "shop", None)).await.expect("it is made"));
    // Far behind all that a claim looks at otherwise.
    late.execute("UPDATE onefold.outbox_open SET due_at = due_at - 3600000", &[]).await.expect("it is old");
    for n in 102..120 {
        let id = n.to_string();
        outbox.put(vec![message(&id, "shop", None)]).await;
        outbox.becomes(&id, OutboxState::Delivered).await;
    }
    never.rollback().await.expect("it ends");
    assert_eq!(sink.times("101"), 0, "it is not committed");
    late.commit().await.expect("it commits");
    outbox.becomes("101", OutboxState::Delivered).await;
    assert_eq!((sink.times("101"), sink.times("gap")), (1, 0));
    assert_eq!(relay.stop(GRACE).await, 0);
}

#[tokio::test]
async fn b90_sessions_that_stay_in_their_transactions_hold_up_their_own_key_at_most() {
    let Some(database) = Database::create(WHAT, Isolation::ReadCommitted).await else { return };
    let outbox = postgresql(&database.url(), None).await;
    let (mut reader, mut writer) = (connect(&database).await, connect(&database).await);
    let reader = reader.build_transaction().isolation_level(IsolationLevel::RepeatableRead);
    let reader = reader.start().await.expect("it begins");
    reader.query("SELECT * FROM onefold.outbox_open", &[]).await.expect("it has a snapshot");
    let writer = writer.transaction().await.expect("it begins");
    let held = message("a-1", "shop", Some("a"));
    assert!(outbox.database().enqueue_in(&writer, held).await.expect("it is made"));
    let sink = Scripted::new(|_, _| accepted());
    let relay = outbox.relay(vec![sink.destination("shop")]);
    for n in 0..20 {
        let (keyed, free) = (format!("b-{n}"), format!("m-{n}"));
        outbox.put(vec![message(&keyed, "shop", Some("b")), message(&free, "shop", None)]).await;
        outbox.becomes(&keyed, OutboxState::Delivered).await;
        outbox.becomes(&free, OutboxState::Delivered).await;
    }
    assert_eq!(sink.times("a-1"), 0, "it is not committed");
    writer.commit().await.expect("it commits");
    outbox.becomes("a-1", OutboxState::Delivered).await;
    let of_b: Vec<_> = sink.order().into_iter().filter(|id| id.starts_with("b-")).collect();
    assert_eq!(of_b, (0..20).map(|n| format!("b-{n}")).collect::<Vec<_>>(), "in order");
    reader.rollback().await.expect("it ends");
    assert_eq!(relay.stop(GRACE).await, 0);
}

#[tokio::test]
async fn a_relay_over_a_restored_database_goes_on_where_the_other_was() {
    let Some(database) = Database::create(WHAT, Isolation::ReadCommitted).await else { return };
    let outbox = postgresql(&database.url(), None).await;
    let refusing = Scripted::new(|message, _| match message.id.as_str() {
        "a-1" => failed(),
        _ => accepted(),
    });
    let relay = outbox.relay(vec![refusing.destination("shop").attempts(Some(1))]);
    for id in ["a-1", "a-2", "a-3", "b-1"] {
        outbox.put(vec![message(id, "shop", Some(&id[..1]))]).await;
    }
    outbox.becomes("a-1", OutboxState::Dead).await;
    outbox.becomes("b-1", OutboxState::Delivered).await;
    assert_eq!(relay.stop(GRACE).await, 0);
    let Some(restored) = Database::restored_from(WHAT, &database).await else { return };
    let outbox = postgresql(&restored.url(), None).await;
    let sink = Scripted::new(|_, _| accepted());
    let relay = outbox.relay(vec![sink.destination("shop")]);
    for id in ["b-2", "m-1"] {
        outbox.put(vec![message(id, "shop", id.strip_suffix("-2"))]).await;
        outbox.becomes(id, OutboxState::Delivered).await;
    }
    let known = outbox.store.enqueue(vec![message("b-1", "shop", Some("b"))]).await;
    assert_eq!(known.expect("the store works"), 0, "what was delivered before is known");
    let discard = ActOnOutgoing {
        which: Which::Ids(vec![key("a-1")]),
        seen_attempt: None,
        redrive: Redrive::Discard,
        per_second: None,
        who: "ann".into(),
        reason: "it is of no more use".into(),
    };
    let acted =
        Messages::new(outbox.database().clone()).act_on_outgoing(discard).await.expect("the store works");
    assert_eq!(acted.done.len(), 1);
    for id in ["a-2", "a-3"] {
        outbox.becomes(id, OutboxState::Delivered).await;
    }
    assert_eq!(sink.order(), ["b-2", "m-1", "a-2", "a-3"]);
    assert_eq!(relay.stop(GRACE).await, 0);
}
