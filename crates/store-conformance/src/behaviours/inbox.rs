//! The inbox: a message is handled once, its mark and what it brings about are one commit, and people let it through
//! again.

use std::sync::Arc;
use std::time::Duration;

use onefold_core::contract::Retention;
use onefold_core::{ActKind, Delivery, InboxState, OutboxState};
use onefold_store::{
    ConsumeStore, Consumed, DeliveryCounts, IfLost, InboxQuery, KeptMessage, Mark, NewPermit, OutboxStore,
    Sent, Unparking, Versioned,
};

use crate::fixture::{START, fingerprint};
use crate::messages::{DAY, Handler, Messages, SENDING, is_processed, key};

const PAUSE: Duration = Duration::from_secs(7);

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

fn done(consumed: &Consumed) -> InboxState {
    let Consumed::Done { state, .. } = consumed else { panic!("{consumed:?}") };
    *state
}

/// A second delivery finds the mark; one of something else is a conflict.
pub async fn mark_and_messages_are_made_once_and_together<S: ConsumeStore + OutboxStore>(m: Messages<S>) {
    let mark = m.mark("evt-1", 0, "41");
    assert!(is_processed(&m.accept(&mark, &["m-1", "m-2"]).await));
    let Consumed::Found { entries, .. } = m.accept(&mark, &["m-3"]).await else { panic!("handled twice") };
    assert_eq!((entries.len(), entries[0].state), (1, InboxState::Processed));
    assert_eq!(entries[0].identity, mark.identity);
    assert_eq!(m.judge(&mark).await, Delivery::Duplicate);
    assert!(m.is_made("m-1").await && m.is_made("m-2").await && !m.is_made("m-3").await);
    let other = Mark { fingerprint: fingerprint("b"), ..mark.clone() };
    assert!(matches!(m.accept(&other, &["m-3"]).await, Consumed::Found { .. }));
    assert_eq!(m.judge(&other).await, Delivery::Conflict);
    assert!(!m.is_made("m-3").await);
}

/// As many as were told.
pub async fn deliveries_are_counted<S: ConsumeStore + OutboxStore>(m: Messages<S>) {
    let (mark, gone) = (m.mark("evt-1", 0, "41"), m.mark("evt-2", 0, "41"));
    m.accept(&mark, &[]).await;
    let one = DeliveryCounts { duplicates: 1, conflicts: 1 };
    let two = DeliveryCounts { duplicates: 1, conflicts: 0 };
    let counts = vec![(mark.id, 0, one), (gone.id, 0, one), (mark.id, 0, two)];
    m.store.count_deliveries(counts).await.expect("the store works");
    let query = InboxQuery { conflicts: true, limit: 9, ..InboxQuery::default() };
    let page = m.store.list_inbox(query).await.expect("the store works");
    assert_eq!((page.entries.len(), page.entries[0].duplicates, page.entries[0].conflicts), (1, 2, 1));
}

/// Whoever comes first.
pub async fn builds_side_by_side_and_parallel_deliveries_handle_a_message_once<
    S: ConsumeStore + OutboxStore + 'static,
>(
    m: Messages<S>,
) {
    let m = Arc::new(m);
    let deliveries: Vec<_> = (0..24)
        .map(|n| {
            let m = m.clone();
            tokio::spawn(async move {
                let mark = m.mark("evt-1", 0, if n % 2 == 0 { "41" } else { "42" });
                is_processed(&m.accept(&mark, &[&format!("m-{n}")]).await)
            })
        })
        .collect();
    let mut done = 0;
    for delivery in deliveries {
        done += u32::from(delivery.await.expect("no delivery fails"));
    }
    assert_eq!(done, 1);
    let surveys = m.store.survey_outbox().await.expect("the store works");
    assert_eq!(surveys.iter().map(|of| of.depth).sum::<u64>(), 1);
}

/// And a redrive counts once.
pub async fn failures_count_up_to_the_dead_list_and_a_redrive_counts_once<S: ConsumeStore + OutboxStore>(
    m: Messages<S>,
) {
    let body = KeptMessage { headers: vec![("a".into(), "b".into())], body: b"{}".to_vec() };
    let mark = Mark { body: Some(body.clone()), ..m.mark("evt-1", 0, "41") };
    assert_eq!(m.fail(&mark, 2).await.state, InboxState::Failing);
    assert_eq!(m.judge(&mark).await, Delivery::Handle { round: 0 });
    let other = Mark { fingerprint: fingerprint("b"), ..mark.clone() };
    assert_eq!(m.fail(&other, 2).await.failures, 1, "of something else");
    let parked = m.fail(&mark, 2).await;
    assert_eq!(
        (parked.state, parked.failures, parked.reason.as_deref()),
        (InboxState::Parked, 2, Some("busy"))
    );
    assert_eq!(m.fail(&mark, 2).await.failures, 2, "a dead letter stays as it is");
    assert_eq!(m.judge(&mark).await, Delivery::Parked);
    assert!(matches!(m.accept(&mark, &["m-1"]).await, Consumed::Found { .. }));
    let kept = m.store.kept_message(mark.id, 0).await.expect("the store works");
    assert_eq!(kept, Some(body));
    let survey = m.store.survey_inbox().await.expect("the store works");
    assert_eq!((survey.failing, survey.parked, survey.parked_oldest), (0, 1, Some(Duration::ZERO)));
    let unpark = async || {
        let (after, who, reason) = (PAUSE, "ann".into(), "mended".into());
        let unparking = Unparking { id: mark.id, round: 0, after, who, reason };
        m.store.unpark(unparking).await.expect("the store works")
    };
    let due_at = parked.ended_at.plus(PAUSE);
    assert!(unpark().await);
    assert!(!unpark().await, "pressed twice");
    let acts = m.store.inbox_acts(mark.id).await.expect("the store works");
    assert_eq!(acts.iter().map(|act| act.kind).collect::<Vec<_>>(), [ActKind::Redriven]);
    let failing = InboxQuery { state: Some(InboxState::Failing), limit: 1, ..InboxQuery::default() };
    let page = m.store.list_inbox(failing).await.expect("the store works");
    assert_eq!((page.entries[0].failures, page.entries[0].due_at()), (0, Some(due_at)));
    assert!(is_processed(&m.accept(&m.mark("evt-1", 0, "42"), &["m-1"]).await));
    let entry = &m.entries(&mark).await[0];
    assert_eq!((entry.handler.as_str(), entry.kept), ("42", false));
}

/// To another build, once each.
pub async fn permit_lets_each_message_through_once<S: ConsumeStore + OutboxStore>(m: Messages<S>) {
    m.accept(&m.mark("evt-1", 0, "41"), &["m-1"]).await;
    let granted = m.store.grant_permit(permit("41")).await.expect("the store works");
    assert_eq!(granted.number, 1);
    let permits = m.store.permits(None).await.expect("the store works");
    assert_eq!(permits, std::slice::from_ref(&granted));
    assert!(m.store.permits(Some("mail")).await.expect("the store works").is_empty());
    let round = granted.number;
    assert_eq!(m.judge(&m.mark("evt-1", 0, "42")).await, Delivery::Handle { round });
    let again = m.mark("evt-1", round, "42");
    assert!(is_processed(&m.accept(&again, &["m-2"]).await));
    assert!(!is_processed(&m.accept(&again, &["m-3"]).await));
    assert_eq!(m.judge(&m.mark("evt-1", 0, "43")).await, Delivery::Duplicate);
    m.accept(&m.mark("evt-2", 0, "41"), &["m-4"]).await;
    let revoke = async || m.store.revoke_permit(round, "ann", "done").await.expect("the store works");
    assert!(revoke().await);
    assert!(!revoke().await);
    assert_eq!(m.judge(&m.mark("evt-2", 0, "42")).await, Delivery::Duplicate);
    assert_eq!(m.store.grant_permit(permit("41")).await.expect("the store works").number, round + 1);
}

/// A message does not supersede itself in a later round.
pub async fn older_and_equal_versions_of_others_are_superseded_and_lost_to_nobody<
    S: ConsumeStore + OutboxStore,
>(
    m: Messages<S>,
) {
    let accept = async |event: &str, round, version, message: &str| {
        done(&m.accept_version(&m.mark(event, round, "41"), Some(version), &[message]).await)
    };
    assert_eq!(accept("evt-2", 0, 2, "m-2").await, InboxState::Processed);
    assert_eq!(accept("evt-1", 0, 1, "m-1").await, InboxState::Superseded);
    assert_eq!(accept("evt-3", 0, 2, "m-3").await, InboxState::Superseded);
    assert!(!m.is_made("m-1").await && !m.is_made("m-3").await);
    assert_eq!(accept("evt-3", 1, 2, "m-3").await, InboxState::Superseded);
    assert_eq!(accept("evt-2", 1, 2, "m-4").await, InboxState::Processed);
    assert!(m.is_made("m-4").await);
}

/// One of equal versions counts, however many come at once.
pub async fn one_of_equal_versions_at_once_counts<S: ConsumeStore + OutboxStore + 'static>(m: Messages<S>) {
    let m = Arc::new(m);
    let deliveries: Vec<_> = (0..8)
        .map(|n| {
            let m = m.clone();
            tokio::spawn(async move {
                let mark = m.mark(&format!("evt-{n}"), 0, "41");
                done(&m.accept_version(&mark, Some(1), &[&format!("m-{n}")]).await)
            })
        })
        .collect();
    let mut processed = 0;
    for delivery in deliveries {
        processed += u32::from(delivery.await.expect("no delivery fails") == InboxState::Processed);
    }
    assert_eq!(processed, 1);
}

/// Dead letters never expire.
pub async fn marks_go_when_their_time_is_over_and_their_messages_are_done<S: ConsumeStore + OutboxStore>(
    m: Messages<S>,
) {
    let (mark, parked) = (m.mark("evt-1", 0, "41"), m.mark("evt-2", 0, "41"));
    m.accept(&mark, &["m-1"]).await;
    m.fail(&parked, 1).await;
    let sweep = async || m.store.sweep_inbox(100).await.expect("the store works");
    let lag = async || m.store.survey_inbox().await.expect("the store works").sweep_lag;
    assert_eq!(sweep().await, 0);
    m.clock.pass(DAY + SENDING);
    assert_eq!((sweep().await, lag().await), (0, Duration::ZERO), "its message waits");
    assert_eq!(m.take(IfLost::SendAgain).await.len(), 1);
    assert!(m.settle("m-1", 1, Sent::Delivered).await);
    assert_eq!(m.state("m-1").await, Some(OutboxState::Delivered));
    assert_eq!((lag().await, sweep().await, lag().await), (SENDING, 1, Duration::ZERO));
    assert!(m.entries(&mark).await.is_empty());
    assert_eq!(m.entries(&parked).await.len(), 1, "a dead letter waits for a person");
    let late = Mark { too_old_at: Some(START), ..mark };
    assert!(matches!(m.accept(&late, &["m-9"]).await, Consumed::TooOld { .. }));
    assert!(!m.is_made("m-9").await);
}

/// Also while what it brought about before can still be looked at: what is marked as accepted goes on.
pub async fn message_that_comes_after_its_mark_is_forgotten_goes_on_again<S: ConsumeStore + OutboxStore>(
    m: Messages<S>,
) {
    let mark = m.mark("evt-1", 0, "41");
    for round in 0..2 {
        assert_eq!(done(&m.accept(&mark, &["m-1"]).await), InboxState::Processed);
        assert_eq!(m.ids().await, ["m-1"], "{round}");
        assert!(m.settle("m-1", 1, Sent::Delivered).await);
        m.clock.pass(DAY);
        assert_eq!(m.store.sweep_inbox(100).await.expect("the store works"), 1);
        assert_eq!(m.state("m-1").await, Some(OutboxState::Delivered));
    }
}

/// So that no permit lets a message through twice.
pub async fn mark_of_a_later_round_stays_no_shorter_than_the_first<S: ConsumeStore + OutboxStore>(
    m: Messages<S>,
) {
    let retention = |retention, event: &str, round| Mark { retention, ..m.mark(event, round, "41") };
    m.accept(&retention(Retention::For(3 * DAY), "evt-1", 0), &[]).await;
    m.accept(&m.mark("evt-1", 1, "42"), &[]).await;
    let entries = m.entries(&m.mark("evt-1", 0, "41")).await;
    assert_eq!(entries[1].expires_at, entries[0].expires_at);
    m.accept(&retention(Retention::Forever, "evt-2", 0), &[]).await;
    m.accept(&m.mark("evt-2", 1, "42"), &[]).await;
    assert_eq!(m.entries(&m.mark("evt-2", 0, "41")).await[1].expires_at, None);
}

/// Whatever has been forgotten.
pub async fn mark_of_a_later_round_stands_in_the_way_of_a_round_that_is_forgotten<
    S: ConsumeStore + OutboxStore,
>(
    m: Messages<S>,
) {
    let first = m.mark("evt-1", 0, "41");
    m.accept(&first, &[]).await;
    m.accept(&Mark { retention: Retention::For(3 * DAY), ..m.mark("evt-1", 1, "42") }, &[]).await;
    m.clock.pass(DAY);
    assert_eq!(m.store.sweep_inbox(100).await.expect("the store works"), 1);
    assert!(matches!(m.accept(&first, &["m-1"]).await, Consumed::Found { .. }));
    assert!(!m.is_made("m-1").await);
    let handler = Handler::new(|| panic!("it is handled")).row("ann");
    assert!(matches!(m.consume(&first, &handler).await, Consumed::Found { .. }));
}

/// Page by page, and by every filter.
pub async fn pages_show_every_entry_once<S: ConsumeStore + OutboxStore>(m: Messages<S>) {
    for n in 0..5 {
        let handler = if n < 3 { "41" } else { "42" };
        m.accept(&m.mark(&format!("evt-{n}"), 0, handler), &[]).await;
    }
    m.fail(&m.mark("evt-9", 0, "42"), 1).await;
    let list = async |query: InboxQuery| m.store.list_inbox(query).await.expect("the store works");
    let mut seen = Vec::new();
    let mut cursor = None;
    loop {
        let page = list(InboxQuery { limit: 2, cursor, ..InboxQuery::default() }).await;
        seen.extend(page.entries.iter().map(|entry| entry.identity.message.as_str().to_owned()));
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(seen, ["evt-0", "evt-1", "evt-2", "evt-3", "evt-4", "evt-9"]);
    let all = InboxQuery { limit: 9, ..InboxQuery::default() };
    for (query, count) in [
        (InboxQuery { handler: Some("41".into()), ..all.clone() }, 3),
        (InboxQuery { state: Some(InboxState::Parked), ..all.clone() }, 1),
        (InboxQuery { state: Some(InboxState::Processed), ..all.clone() }, 5),
        (InboxQuery { message: Some(key("evt-1")), ..all.clone() }, 1),
        (InboxQuery { source: Some("other".into()), ..all.clone() }, 0),
        (InboxQuery { consumer: Some("loyalty".into()), conflicts: true, ..all }, 0),
    ] {
        assert_eq!(list(query.clone()).await.entries.len(), count, "{query:?}");
    }
}

/// And no longer, or the table of versions would grow for ever.
pub async fn version_of_an_entity_is_known_as_long_as_the_mark_of_what_brought_it<
    S: ConsumeStore + OutboxStore,
>(
    m: Messages<S>,
) {
    let accept = async |event: &str, version: i64, message: &str| {
        done(&m.accept_version(&m.mark(event, 0, "41"), Some(version), &[message]).await)
    };
    let forgotten = async || m.store.sweep_versions(100).await.expect("the store works");
    assert_eq!(accept("evt-2", 2, "m-2").await, InboxState::Processed);
    assert_eq!(forgotten().await, 0);
    m.clock.pass(DAY / 2);
    assert_eq!(accept("evt-3", 3, "m-3").await, InboxState::Processed);
    for id in ["m-2", "m-3"] {
        m.take(IfLost::SendAgain).await;
        assert!(m.settle(id, 1, Sent::Delivered).await);
    }
    m.clock.pass(DAY / 2);
    // The one that brought the latest is younger.
    assert_eq!(m.store.sweep_inbox(100).await.expect("the store works"), 1);
    assert_eq!(forgotten().await, 0);
    assert_eq!(accept("evt-1", 1, "m-1").await, InboxState::Superseded);
    m.clock.pass(DAY / 2);
    assert_eq!(forgotten().await, 0, "its mark is due and stands");
    assert_eq!(m.store.sweep_inbox(100).await.expect("the store works"), 1);
    assert_eq!((forgotten().await, forgotten().await), (1, 0));
    assert_eq!(accept("evt-0", 0, "m-0").await, InboxState::Processed, "nothing is known of it any longer");
}

/// Whatever the size of a step.
pub async fn versions_are_looked_through_in_steps_that_come_to_all<S: ConsumeStore + OutboxStore>(
    m: Messages<S>,
) {
    for n in 0..6 {
        let versioned = Versioned { entity: format!("product-{n}"), version: 1 };
        let mark = Mark { versioned: Some(versioned), ..m.mark(&format!("evt-{n}"), 0, "41") };
        m.store.accept(mark, Vec::new()).await.expect("the store works");
    }
    m.clock.pass(DAY);
    assert_eq!(m.store.sweep_inbox(100).await.expect("the store works"), 6);
    let mut forgotten = Vec::new();
    while forgotten.iter().sum::<u64>() < 6 {
        forgotten.push(m.store.sweep_versions(2).await.expect("the store works"));
        assert!(forgotten.len() < 1000, "some are never looked at: {forgotten:?}");
    }
    assert!(forgotten.iter().all(|step| *step <= 2), "{forgotten:?}");
}
