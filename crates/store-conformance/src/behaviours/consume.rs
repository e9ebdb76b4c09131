//! Handlers: what they write, the messages that they make, and the mark of their message are one commit.

use std::sync::Arc;
use std::time::Duration;

use onefold_core::{Delivery, InboxState, Kept};
use onefold_store::{
    Atomically, ConsumeStore, Consumed, Ended, Entry, Finish, IfLost, OutboxStore, Sent, refusal,
};

use crate::fixture::claim_under;
use crate::messages::{DAY, Handler, Messages, is_processed, message};

fn finished(finish: Finish) -> Ended {
    Ended::Finished { finish, kept: Kept::Nothing, resource: None }
}

fn succeeds() -> Handler {
    Handler::new(|| finished(Finish::Succeeded))
}

/// One of many deliveries, of two builds.
pub async fn effect_and_mark_are_one_commit_and_happen_once<S: ConsumeStore + OutboxStore + 'static>(
    m: Messages<S>,
) {
    let m = Arc::new(m);
    let deliveries: Vec<_> = (0..24)
        .map(|n| {
            let m = m.clone();
            tokio::spawn(async move {
                let mark = m.mark("evt-1", 0, if n % 2 == 0 { "41" } else { "42" });
                let handler = succeeds().row("points");
                is_processed(&m.consume_in_the_end(&mark, &handler).await)
            })
        })
        .collect();
    let mut done = 0;
    for delivery in deliveries {
        done += u32::from(delivery.await.expect("no delivery fails"));
    }
    assert_eq!((done, m.rows().await.len()), (1, 1));
}

/// And the id is not burnt by a failure.
pub async fn handler_that_ends_otherwise_leaves_neither_effect_nor_message<S: ConsumeStore + OutboxStore>(
    m: Messages<S>,
) {
    let mark = m.mark("evt-1", 0, "41");
    let writes = |end: fn() -> Ended| Handler::new(end).row("points").message(message("m-1", Some("a")));
    assert_eq!(m.consume(&mark, &writes(|| Ended::NotDone)).await, Consumed::NotDone);
    let panicked = m.consume(&mark, &writes(|| panic!("a bug"))).await;
    assert!(matches!(&panicked, Consumed::Stopped(why) if why.contains("a bug")), "{panicked:?}");
    let again = m.consume(&mark, &writes(|| Ended::Again("busy".into()))).await;
    assert_eq!(again, Consumed::Contended("busy".into()));
    assert!(m.entries(&mark).await.is_empty());
    assert_eq!((m.rows().await.len(), m.is_made("m-1").await), (0, false));
    let rejected = m.consume(&mark, &writes(|| refusal("no such customer"))).await;
    assert!(matches!(rejected, Consumed::Done { state: InboxState::Rejected, .. }), "{rejected:?}");
    assert_eq!((m.rows().await.len(), m.is_made("m-1").await), (0, false));
    assert_eq!(m.judge(&mark).await, Delivery::Duplicate);
    assert_eq!(m.entries(&mark).await[0].reason.as_deref(), Some("no such customer"));
}

/// A handler that succeeds after failures leaves one entry.
pub async fn message_that_failed_is_handled_and_its_failures_stay<S: ConsumeStore + OutboxStore>(
    m: Messages<S>,
) {
    let mark = m.mark("evt-1", 0, "41");
    m.fail(&mark, 9).await;
    assert!(is_processed(&m.consume(&mark, &succeeds().row("points")).await));
    let entries = m.entries(&mark).await;
    assert_eq!((entries.len(), entries[0].state, entries[0].failures), (1, InboxState::Processed, 1));
    let found = m.consume(&mark, &succeeds().row("more")).await;
    assert!(matches!(found, Consumed::Found { .. }), "{found:?}");
    assert_eq!(m.rows().await, ["points"]);
}

/// Its dead letter may be sent again.
pub async fn message_of_a_handler_keeps_the_mark_until_it_is_done<S: ConsumeStore + OutboxStore>(
    m: Messages<S>,
) {
    let handler = succeeds().message(message("m-1", None));
    let mut hint = m.store.hint();
    assert!(is_processed(&m.consume(&m.mark("evt-1", 0, "41"), &handler).await));
    assert!(hint.waited(Duration::from_secs(30)).await, "relays are told");
    let same = succeeds().message(message("m-1", None));
    assert!(is_processed(&m.consume(&m.mark("evt-2", 0, "41"), &same).await));
    assert_eq!((handler.made(), same.made()), (vec![true], vec![false]), "one id, one message");
    m.clock.pass(DAY);
    assert_eq!(m.store.sweep_inbox(100).await.expect("the store works"), 1, "the other one's");
    assert_eq!(m.entries(&m.mark("evt-1", 0, "41")).await.len(), 1);
}

/// Also once the message is forgotten.
pub async fn two_events_that_ask_for_one_effect_make_one_message<S: ConsumeStore + OutboxStore>(
    m: Messages<S>,
) {
    for (event, made) in [("evt-1", true), ("evt-2", false), ("evt-3", false)] {
        if event == "evt-3" {
            let taken = m.take(IfLost::SendAgain).await;
            assert_eq!(taken.len(), 1);
            assert!(m.settle(taken[0].message.id.as_str(), 1, Sent::Delivered).await);
            let swept = m.store.sweep_outbox(Duration::ZERO, 100).await;
            assert_eq!(swept.expect("the store works"), 1);
        }
        let handler = succeeds().message(message("not used", None)).effect("order-5001/CONFIRMED");
        assert!(is_processed(&m.consume(&m.mark(event, 0, "41"), &handler).await));
        assert_eq!(handler.made(), [made], "{event}");
    }
    assert!(m.store.survey_outbox().await.expect("the store works").is_empty());
}

/// In the order in which they are made.
pub async fn messages_of_handlers_keep_the_order_of_their_commits<S: ConsumeStore + OutboxStore>(
    m: Messages<S>,
) {
    for n in 0..6 {
        let handler = succeeds().message(message(&format!("m-{n}"), Some("a")));
        assert!(is_processed(&m.consume(&m.mark(&format!("evt-{n}"), 0, "41"), &handler).await));
    }
    for n in 0..6 {
        assert_eq!(m.ids().await, [format!("m-{n}")]);
        assert!(m.settle(&format!("m-{n}"), 1, Sent::Delivered).await);
    }
}

/// With the record of the operation.
pub async fn message_of_atomic_mode_goes_with_the_rollback_and_stays_with_the_commit<
    S: ConsumeStore + OutboxStore,
>(
    m: Messages<S>,
) {
    let run = async |end: fn() -> Ended| {
        let handler = Handler::new(end).message(message("m-1", None));
        let claim = claim_under(&*m.store, "k-1");
        m.store.atomically(Entry::New(Box::new(claim)), &mut m.work(&handler)).await.expect("the store works")
    };
    assert!(matches!(run(|| Ended::NotDone).await, Atomically::NotDone));
    assert!(matches!(run(|| panic!("a bug")).await, Atomically::Stopped(_)));
    assert!(!m.is_made("m-1").await);
    let mut hint = m.store.hint();
    let done = run(|| finished(Finish::Succeeded)).await;
    assert!(matches!(done, Atomically::Committed { .. }), "{done:?}");
    assert!(m.is_made("m-1").await);
    assert!(hint.waited(Duration::from_secs(30)).await, "relays are told");
}
