//! Handlers: what they write, the messages that they make, and the mark of their message are one commit.

use std::sync::Arc;
use std::time::Duration;

use onefold_core::{Delivery, InboxState, Kept};
use onefold_store::{
    Atomically, ConsumeStore, Consumed, Ended, Entry, Finish, IfLost, InboxQuery, Mark, OutboxStore, Sent,
    Versioned, refusal,
};

use crate::fixture::claim_under;
use crate::messages::{DAY, ENTITY, Handler, Messages, is_processed, message};

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

/// A message about a version of the one entity.
fn versioned<S: ConsumeStore + OutboxStore>(m: &Messages<S>, event: &str, round: u32, version: i64) -> Mark {
    let versioned = Some(Versioned { entity: ENTITY.into(), version });
    Mark { versioned, ..m.mark(event, round, "41") }
}

fn state(consumed: &Consumed) -> InboxState {
    let Consumed::Done { state, .. } = consumed else { panic!("{consumed:?}") };
    *state
}

/// Where the source's contract says the version. It counts with what the handler writes.
pub async fn message_that_is_not_newer_reaches_no_handler<S: ConsumeStore + OutboxStore>(m: Messages<S>) {
    let handled = async |event, round, version| {
        let handler = succeeds().row(&format!("{event}/{round}"));
        state(&m.consume(&versioned(&m, event, round, version), &handler).await)
    };
    assert_eq!(handled("evt-2", 0, 2).await, InboxState::Processed);
    assert_eq!(handled("evt-1", 0, 1).await, InboxState::Superseded);
    assert_eq!(handled("evt-0", 0, 2).await, InboxState::Superseded, "of two with one version the first");
    assert_eq!(m.rows().await.len(), 1);
    assert_eq!(handled("evt-2", 1, 2).await, InboxState::Processed, "a message does not supersede itself");
    let failed = m.consume(&versioned(&m, "evt-4", 0, 4), &Handler::new(|| Ended::NotDone)).await;
    assert_eq!(failed, Consumed::NotDone);
    let refused = Handler::new(|| refusal("no such product"));
    let rejected = m.consume(&versioned(&m, "evt-5", 0, 5), &refused).await;
    assert_eq!(state(&rejected), InboxState::Rejected);
    assert_eq!(
        handled("evt-3", 0, 3).await,
        InboxState::Processed,
        "those that were not done left no version"
    );
    assert_eq!(m.rows().await.len(), 3);
}

/// However many come at once.
pub async fn one_handler_of_equal_versions_at_once_runs<S: ConsumeStore + OutboxStore + 'static>(
    m: Messages<S>,
) {
    let m = Arc::new(m);
    let deliveries: Vec<_> = (0..8)
        .map(|n| {
            let m = m.clone();
            tokio::spawn(async move {
                let mark = versioned(&m, &format!("evt-{n}"), 0, 1);
                state(&m.consume_in_the_end(&mark, &succeeds().row(&format!("evt-{n}"))).await)
            })
        })
        .collect();
    let mut processed = 0;
    for delivery in deliveries {
        processed += u32::from(delivery.await.expect("no delivery fails") == InboxState::Processed);
    }
    assert_eq!((processed, m.rows().await.len()), (1, 1));
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

/// What it did besides is committed.
pub async fn message_whose_handler_finds_a_newer_version_is_superseded<S: ConsumeStore + OutboxStore>(
    m: Messages<S>,
) {
    let state = async |event: &str, version: i64, row: &str| {
        let consumed = m.consume(&m.mark(event, 0, "41"), &succeeds().version(version).row(row)).await;
        let Consumed::Done { state, .. } = consumed else { panic!("{consumed:?}") };
        state
    };
    assert_eq!(state("evt-2", 2, "new").await, InboxState::Processed);
    assert_eq!(state("evt-1", 1, "old").await, InboxState::Superseded);
    assert_eq!(state("evt-3", 2, "equal").await, InboxState::Processed);
    assert_eq!(m.rows().await, ["equal", "new", "old"]);
    assert_eq!(m.judge(&m.mark("evt-1", 0, "41")).await, Delivery::Duplicate);
    let superseded = InboxQuery { state: Some(InboxState::Superseded), limit: 9, ..InboxQuery::default() };
    let page = m.store.list_inbox(superseded).await.expect("the store works");
    let ids: Vec<_> = page.entries.iter().map(|entry| entry.identity.message.as_str()).collect();
    assert_eq!(ids, ["evt-1"]);
}

/// The version of a projection stays.
pub async fn notes_of_late_versions_go_with_the_marks_of_what_brought_them<S: ConsumeStore + OutboxStore>(
    m: Messages<S>,
) {
    for (n, version) in [9, 1, 2, 3].into_iter().enumerate() {
        m.consume(&m.mark(&format!("evt-{n}"), 0, "41"), &succeeds().version(version)).await;
    }
    let late = |version| succeeds().version(version);
    let operation = claim_under(&*m.store, "late");
    let ended = m.store.atomically(Entry::New(Box::new(operation)), &mut m.work(&late(4))).await;
    assert!(matches!(ended, Ok(Atomically::Committed { .. })), "{ended:?}");
    let forgotten = async || {
        // Two of each step, and one call more, so that the place is at the front again.
        let mut sum = 0;
        for _ in 0..4 {
            sum += m.store.sweep_versions(2).await.expect("the store works");
        }
        sum
    };
    assert_eq!(forgotten().await, 0);
    m.clock.pass(DAY);
    assert_eq!(m.store.sweep_inbox(100).await.expect("the store works"), 4);
    assert_eq!(forgotten().await, 3, "the operation's record stands");
    let again = m.consume(&m.mark("evt-7", 0, "41"), &late(8)).await;
    assert!(matches!(again, Consumed::Done { state: InboxState::Superseded, .. }), "{again:?}");
}
