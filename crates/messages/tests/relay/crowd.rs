//! Many messages, several destinations, several relays.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use onefold_core::budget::BudgetSettings;
use onefold_core::{OutboxState, StoreTime};
use onefold_messages::{Message, Sending};
use onefold_store::clock::ManualClock;
use onefold_testkit::{Store, on_each_store, sql, wait};

use crate::rig::{Scripted, Step, accepted, failed, message, outbox};

on_each_store!(
    b91_poison_at_the_head_starves_nobody,
    dead_letter_holds_up_its_own_key_and_nobody_else,
    destination_that_fails_is_not_flooded_with_retries,
    b95_several_relays_never_send_one_message_at_once,
    b96_slow_destination_holds_up_nobody_else,
    no_more_bytes_are_on_their_way_than_may_be_and_one_message_more,
    of_long_messages_no_more_are_on_their_way_than_64_mebibytes_and_one,
    messages_longer_than_may_be_on_their_way_are_sent_one_after_the_other,
);

const GRACE: Duration = Duration::from_secs(10);
/// Retries are not what the case is about.
const AMPLE: BudgetSettings = BudgetSettings { share: 1.0, reserve: 1000, window: Duration::from_secs(10) };

async fn b91_poison_at_the_head_starves_nobody(store: &Store) {
    let outbox = outbox(store, None).await;
    let sink = Scripted::new(|message, _| match message.id.as_str().starts_with("poison") {
        true => failed(),
        false => accepted(),
    });
    let poison = (0..10).map(|n| message(&format!("poison{n}"), "shop", None));
    let good: Vec<Message> = (0..100).map(|n| message(&format!("good{n}"), "shop", None)).collect();
    outbox.put(poison.chain(good).collect()).await;
    let _relay = outbox.relay(vec![sink.destination("shop").concurrency(10).attempts(Some(3))]);
    for n in 0..100 {
        outbox.becomes(&format!("good{n}"), OutboxState::Delivered).await;
    }
    for n in 0..10 {
        let id = format!("poison{n}");
        outbox.becomes(&id, OutboxState::Dead).await;
        assert_eq!(sink.times(&id), 3);
    }
}

async fn dead_letter_holds_up_its_own_key_and_nobody_else(store: &Store) {
    let outbox = outbox(store, None).await;
    let sink = Scripted::new(|message, _| match message.id.as_str() {
        "a1" => failed(),
        _ => accepted(),
    });
    let of = |id: &str| message(id, "shop", Some(&id[..1]));
    outbox.put(["a1", "a2", "b1", "b2"].into_iter().map(of).collect()).await;
    let relay = outbox.relay(vec![sink.destination("shop").attempts(Some(2))]);
    outbox.becomes("a1", OutboxState::Dead).await;
    outbox.becomes("b2", OutboxState::Delivered).await;
    assert_eq!(relay.stop(GRACE).await, 0);
    assert_eq!((outbox.entry("a2").await.state, sink.times("a2")), (OutboxState::Waiting, 0));
}

async fn destination_that_fails_is_not_flooded_with_retries(store: &Store) {
    let outbox = outbox(store, None).await;
    let sink = Scripted::new(|_, _| failed());
    let ids = ["a", "b", "c", "d", "e"];
    outbox.put(ids.iter().map(|id| message(id, "shop", None)).collect()).await;
    let budget = BudgetSettings { share: 0.2, reserve: 3, window: Duration::from_secs(600) };
    let _relay = outbox.relay(vec![sink.destination("shop").attempts(None).budget(budget)]);
    for id in ids {
        let what = format!("{id} is held back");
        wait::until_within(wait::DEADLINE, &what, async || {
            outbox.entry(id).await.reason.is_some_and(|reason| reason.starts_with("held back"))
        })
        .await;
    }
    assert_eq!(sink.order().len(), ids.len() + 3, "each once, and as many retries as are lent");
}

async fn b95_several_relays_never_send_one_message_at_once(store: &Store) {
    const ALL: usize = 1000;
    let clock = Arc::new(ManualClock::at(StoreTime(1_700_000_000_000)));
    let outbox = outbox(store, Some(clock.clone())).await;
    let sink = Scripted::new(|_, _| Step::Later(Duration::from_millis(50), Sending::Accepted));
    let ids: Vec<String> = (0..ALL).map(|n| format!("m{n}")).collect();
    outbox.put(ids.iter().map(|id| message(id, "shop", None)).collect()).await;
    let relay =
        |name| outbox.relay(vec![sink.in_hands_of(name).destination("shop").concurrency(16).budget(AMPLE)]);
    let (killed, others) = (relay("killed"), [relay("b"), relay("c")]);
    wait::until("half of them have gone", || sink.order().len() >= ALL / 2).await;
    drop(killed);
    let restarted = relay("restarted");
    wait::until_within(wait::DEADLINE, "nothing waits", async || {
        outbox.in_state(OutboxState::Waiting).await.is_empty()
    })
    .await;
    for relay in others.into_iter().chain([restarted]) {
        assert_eq!(relay.stop(GRACE).await, 0);
    }
    // What is left was in the hands of the relay that was killed.
    let left = outbox.in_state(OutboxState::Sending).await;
    let by_killed = sink.sent_by("killed");
    let twice: HashSet<&String> = left.iter().filter(|id| by_killed.contains(*id)).collect();
    assert!(!twice.is_empty(), "it was killed while it sent");
    clock.pass(Duration::from_secs(3600));
    let last = relay("last");
    for id in &ids {
        outbox.becomes(id, OutboxState::Delivered).await;
        assert_eq!(sink.times(id), if twice.contains(id) { 2 } else { 1 }, "{id}");
    }
    assert!(!sink.crossed());
    assert!(!sink.sent_by("b").is_empty() && !sink.sent_by("c").is_empty(), "they share the work");
    assert_eq!(last.stop(GRACE).await, 0);
}

async fn no_more_bytes_are_on_their_way_than_may_be_and_one_message_more(store: &Store) {
    let outbox = outbox(store, None).await;
    let (slow, fast) = (Scripted::new(|_, _| Step::Hang), Scripted::new(|_, _| accepted()));
    let long = |n| Message { body: vec![b'x'; 400], ..message(&format!("long{n}"), "slow", None) };
    outbox.put((0..20).map(long).collect()).await;
    let _relay = outbox.relay(vec![slow.destination("slow").bytes(1000), fast.destination("fast")]);
    wait::until("some are on their way", || slow.order().len() >= 3).await;
    for n in 0..20 {
        let id = format!("fast{n}");
        outbox.put(vec![message(&id, "fast", None)]).await;
        outbox.becomes(&id, OutboxState::Delivered).await;
    }
    assert_eq!(slow.order().len(), 3);
}

/// Unless it is said otherwise.
async fn of_long_messages_no_more_are_on_their_way_than_64_mebibytes_and_one(store: &Store) {
    let outbox = outbox(store, None).await;
    let (slow, fast) = (Scripted::new(|_, _| Step::Hang), Scripted::new(|_, _| accepted()));
    for n in 0..3 {
        let long = Message { body: vec![b'x'; 33 << 20], ..message(&format!("long{n}"), "slow", None) };
        outbox.put(vec![long]).await;
    }
    let _relay = outbox.relay(vec![slow.destination("slow"), fast.destination("fast")]);
    wait::until("two are on their way", || slow.order().len() >= 2).await;
    for n in 0..10 {
        let id = format!("fast{n}");
        outbox.put(vec![message(&id, "fast", None)]).await;
        outbox.becomes(&id, OutboxState::Delivered).await;
    }
    assert_eq!(slow.order().len(), 2);
}

async fn messages_longer_than_may_be_on_their_way_are_sent_one_after_the_other(store: &Store) {
    let outbox = outbox(store, None).await;
    let sink = Scripted::new(|_, _| accepted());
    let long = |n| Message { body: vec![b'x'; 400], ..message(&format!("long{n}"), "shop", None) };
    outbox.put((0..5).map(long).collect()).await;
    let relay = outbox.relay(vec![sink.destination("shop").bytes(10)]);
    for n in 0..5 {
        outbox.becomes(&format!("long{n}"), OutboxState::Delivered).await;
    }
    assert_eq!(relay.stop(GRACE).await, 0);
}

async fn b96_slow_destination_holds_up_nobody_else(store: &Store) {
    let outbox = outbox(store, None).await;
    let (slow, fast) = (Scripted::new(|_, _| Step::Hang), Scripted::new(|_, _| accepted()));
    outbox.put((0..200).map(|n| message(&format!("slow{n}"), "slow", None)).collect()).await;
    let both = || vec![slow.destination("slow").concurrency(4), fast.destination("fast")];
    let relays = [outbox.relay(both()), outbox.relay(both())];
    for n in 0..20 {
        let id = format!("fast{n}");
        outbox.put(vec![message(&id, "fast", None)]).await;
        outbox.becomes(&id, OutboxState::Delivered).await;
    }
    assert_eq!(slow.order().len(), 8, "no more than its own places");
    nothing_is_locked(store).await;
    for relay in relays {
        assert_eq!(relay.stop(Duration::from_millis(200)).await, 4, "these are left to their leases");
    }
}

/// What is asked of the store now and then may hold a lock for a moment, but not for as long as a sending lasts.
async fn nothing_is_locked(store: &Store) {
    const OPEN: &str = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
        AND pid <> pg_backend_pid() AND backend_type = 'client backend' AND xact_start IS NOT NULL";
    match store.database() {
        None => sql::execute(store.url(), "CREATE TABLE beside (id INTEGER)").await,
        Some(database) => {
            wait::until_within(wait::DEADLINE, "no transaction is open", async || {
                database.ask(OPEN).await == "0"
            })
            .await;
        }
    }
}
