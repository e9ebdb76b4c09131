//! What the end of a sending means for its message.

use std::time::Duration;

use onefold_core::OutboxState;
use onefold_messages::Sending;
use onefold_testkit::{Store, on_each_store};

use crate::rig::{Scripted, Step, accepted, failed, message, outbox};

on_each_store!(
    everything_is_delivered_once_and_in_the_order_of_its_key,
    failure_is_sent_again_and_given_up_after_so_many,
    patience_is_not_a_failure_and_a_refusal_is_the_end,
    sink_that_panics_or_is_too_slow_has_lost_its_answer,
    lost_answer_of_what_must_not_be_sent_twice_is_held,
);

const GRACE: Duration = Duration::from_secs(10);

async fn everything_is_delivered_once_and_in_the_order_of_its_key(store: &Store) {
    let outbox = outbox(store, None).await;
    let sink = Scripted::new(|_, _| accepted());
    let relay = outbox.relay(vec![sink.destination("shop")]);
    let ids: Vec<String> = (0..60).map(|n| format!("m{n:02}")).collect();
    for id in &ids {
        let of = if id.ends_with(['0', '5']) { Some("order-1") } else { None };
        outbox.put(vec![message(id, "shop", of)]).await;
    }
    for id in &ids {
        outbox.becomes(id, OutboxState::Delivered).await;
        assert_eq!(sink.times(id), 1, "{id}");
    }
    let of_one: Vec<String> = sink.order().into_iter().filter(|id| id.ends_with(['0', '5'])).collect();
    assert!(of_one.is_sorted(), "{of_one:?}");
    assert_eq!(relay.stop(GRACE).await, 0);
}

async fn failure_is_sent_again_and_given_up_after_so_many(store: &Store) {
    let outbox = outbox(store, None).await;
    let sink = Scripted::new(|message, before| match message.id.as_str() {
        "heals" if before == 2 => accepted(),
        _ => failed(),
    });
    let _relay = outbox.relay(vec![sink.destination("shop").attempts(Some(4))]);
    outbox.put(vec![message("heals", "shop", None), message("never", "shop", None)]).await;
    outbox.becomes("heals", OutboxState::Delivered).await;
    outbox.becomes("never", OutboxState::Dead).await;
    assert_eq!((sink.times("heals"), sink.times("never")), (3, 4));
    assert_eq!(outbox.entry("never").await.reason.as_deref(), Some("500"));
}

async fn patience_is_not_a_failure_and_a_refusal_is_the_end(store: &Store) {
    let outbox = outbox(store, None).await;
    let sink = Scripted::new(|message, before| match (message.id.as_str(), before) {
        ("patient", 5) => accepted(),
        ("patient", _) => {
            Step::Answer(Sending::NotYet { after: Some(Duration::from_millis(1)), reason: "503".into() })
        }
        _ => Step::Answer(Sending::Refused { reason: "no such queue".into() }),
    });
    let _relay = outbox.relay(vec![sink.destination("shop").attempts(Some(2))]);
    outbox.put(vec![message("patient", "shop", None), message("refused", "shop", None)]).await;
    outbox.becomes("patient", OutboxState::Delivered).await;
    outbox.becomes("refused", OutboxState::Dead).await;
    assert_eq!((sink.times("patient"), sink.times("refused")), (6, 1));
    assert_eq!(outbox.entry("patient").await.failures, 0);
}

async fn sink_that_panics_or_is_too_slow_has_lost_its_answer(store: &Store) {
    let outbox = outbox(store, None).await;
    let sink = Scripted::new(|message, before| match (message.id.as_str(), before) {
        ("panics", 0) => Step::Panic,
        ("hangs", 0) => Step::Hang,
        _ => accepted(),
    });
    let _relay = outbox.relay(vec![sink.destination("shop").timeout(Duration::from_millis(300))]);
    outbox.put(vec![message("panics", "shop", None), message("hangs", "shop", None)]).await;
    for id in ["panics", "hangs"] {
        outbox.becomes(id, OutboxState::Delivered).await;
        assert_eq!((sink.times(id), outbox.entry(id).await.failures), (2, 1), "{id}");
    }
}

async fn lost_answer_of_what_must_not_be_sent_twice_is_held(store: &Store) {
    let outbox = outbox(store, None).await;
    let sink = Scripted::new(|message, _| match message.id.as_str() {
        "panics" => Step::Panic,
        "hangs" => Step::Hang,
        _ => Step::Answer(Sending::Unknown { reason: "cut behind the final dot".into() }),
    });
    let sink = sink.holding();
    let _relay = outbox.relay(vec![sink.destination("mail").timeout(Duration::from_millis(300))]);
    for id in ["panics", "hangs", "cut"] {
        outbox.put(vec![message(id, "mail", None)]).await;
        outbox.becomes(id, OutboxState::Unknown).await;
    }
    outbox.put(vec![message("after", "mail", None)]).await;
    outbox.becomes("after", OutboxState::Unknown).await;
    for id in ["panics", "hangs", "cut"] {
        assert_eq!(sink.times(id), 1, "{id}");
    }
}
