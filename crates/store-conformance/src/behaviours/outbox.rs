//! The outbox: who gets a message and when, what settles it, and what holds up whom.

use std::sync::Arc;
use std::time::Duration;

use onefold_core::{ActKind, Message, OutboxState};
use onefold_store::{
    ConsumeStore, Hint, IfLost, OutboxQuery, OutboxStore, Redrive, Sent, Settlement, StoreError, Take,
};

use crate::messages::{Messages, SENDING, key, message};

fn dead() -> Sent {
    Sent::Dead { reason: "refused".into() }
}

/// A message that is long.
fn long(id: &str, ordering_key: Option<&str>) -> Message {
    Message { body: vec![b'x'; 1000], ..message(id, ordering_key) }
}

/// The ids of what is given within so many bytes.
async fn within<S: ConsumeStore + OutboxStore>(m: &Messages<S>, bytes: u64) -> Vec<String> {
    let if_lost = IfLost::SendAgain;
    let take = Take { destination: "shop".into(), limit: 10, bytes, lease: SENDING, if_lost };
    let taken = m.store.take(take).await.expect("the store works");
    taken.iter().map(|taken| taken.message.id.as_str().to_owned()).collect()
}

/// Those that wait behind others of their key do not count, and those whose sendings were lost do.
pub async fn no_more_bytes_are_given_than_are_asked_for_but_for_one_message<S: ConsumeStore + OutboxStore>(
    m: Messages<S>,
) {
    let all = [("a-1", Some("a")), ("a-2", Some("a")), ("b-1", None), ("c-1", None), ("d-1", None)];
    for (id, key) in all {
        m.enqueue(&[long(id, key)]).await;
        m.clock.pass(Duration::from_millis(1));
    }
    assert_eq!(within(&m, 10).await, ["a-1"], "the first whatever its length");
    assert_eq!(within(&m, 2500).await, ["b-1", "c-1"]);
    m.enqueue(&[message("e-1", None)]).await;
    assert_eq!(within(&m, 1500).await, ["d-1", "e-1"]);
    assert!(within(&m, 10).await.is_empty());
    m.clock.pass(SENDING);
    let mut again = Vec::new();
    loop {
        let given = within(&m, 2500).await;
        assert!(given.len() <= 3 && given.iter().filter(|id| *id != "e-1").count() <= 2, "{given:?}");
        if given.is_empty() {
            break;
        }
        again.extend(given);
    }
    again.sort();
    assert_eq!(again, ["a-1", "b-1", "c-1", "d-1", "e-1"]);
    assert!(m.settle("a-1", 2, Sent::Delivered).await);
    assert_eq!(within(&m, 10).await, ["a-2"]);
}

/// As it was, in every part.
pub async fn message_is_given_to_one_and_comes_back_as_it_was<S: ConsumeStore + OutboxStore>(m: Messages<S>) {
    let sent = message("m-1", None);
    assert_eq!(m.enqueue(&[sent.clone(), sent.clone()]).await, 1, "a known id is passed over");
    let taken = m.take(IfLost::SendAgain).await;
    assert_eq!((taken.len(), &taken[0].message, taken[0].attempt), (1, &sent, 1));
    assert!(m.ids().await.is_empty(), "somebody has it");
    assert!(m.settle("m-1", 1, Sent::Delivered).await);
    assert_eq!(m.state("m-1").await, Some(OutboxState::Delivered));
    assert!(!m.settle("m-1", 1, Sent::Delivered).await, "it is settled");
    assert_eq!(m.enqueue(&[sent]).await, 0, "also once it is done");
}

/// The number of the attempt is the fence.
pub async fn lost_sending_is_sent_again_and_the_late_settlement_changes_nothing<
    S: ConsumeStore + OutboxStore,
>(
    m: Messages<S>,
) {
    m.enqueue(&[message("m-1", None)]).await;
    m.ids().await;
    m.clock.pass(SENDING);
    assert_eq!(m.take(IfLost::SendAgain).await[0].attempt, 2);
    assert!(!m.settle("m-1", 1, dead()).await, "superseded");
    assert_eq!(m.state("m-1").await, Some(OutboxState::Sending));
    assert!(m.settle("m-1", 2, Sent::Delivered).await);
}

/// Also while a relay polls, and until its very end.
pub async fn sending_that_lives_is_nobody_elses<S: ConsumeStore + OutboxStore>(m: Messages<S>) {
    m.enqueue(&[message("m-1", None)]).await;
    m.ids().await;
    m.clock.pass(SENDING - Duration::from_millis(1));
    assert!(m.ids().await.is_empty());
    m.clock.pass(Duration::from_millis(1));
    assert_eq!(m.ids().await, ["m-1"]);
}

/// It waits for whoever knows.
pub async fn lost_sending_is_held_where_nobody_would_know_it_again<S: ConsumeStore + OutboxStore>(
    m: Messages<S>,
) {
    m.enqueue(&[message("m-1", None)]).await;
    m.ids().await;
    m.clock.pass(SENDING);
    assert!(m.take(IfLost::Hold).await.is_empty());
    assert_eq!(m.state("m-1").await, Some(OutboxState::Unknown));
    assert!(m.settle("m-1", 1, Sent::Delivered).await, "the attempt that holds the number may still report");
    assert_eq!(m.state("m-1").await, Some(OutboxState::Delivered));
}

/// And each act counts once.
pub async fn dead_head_holds_up_its_own_key_until_a_person_acts<S: ConsumeStore + OutboxStore>(
    m: Messages<S>,
) {
    m.enqueue(&[message("a-1", Some("a")), message("a-2", Some("a")), message("b-1", Some("b"))]).await;
    let mut ids = m.ids().await;
    ids.sort();
    assert_eq!(ids, ["a-1", "b-1"], "of each key the first");
    assert!(m.settle("a-1", 1, dead()).await);
    assert!(m.settle("b-1", 1, Sent::Delivered).await);
    m.enqueue(&[message("b-2", Some("b"))]).await;
    assert_eq!(m.ids().await, ["b-2"]);
    assert!(m.redrive("a-1", 1, Redrive::SendAgain).await);
    assert!(!m.redrive("a-1", 1, Redrive::SendAgain).await, "pressed twice");
    assert_eq!(m.ids().await, ["a-1"]);
    assert!(m.settle("a-1", 2, dead()).await);
    assert!(!m.redrive("a-1", 1, Redrive::SendAgain).await, "what was seen before it died again");
    assert!(m.redrive("a-1", 2, Redrive::Discard).await);
    assert_eq!(m.ids().await, ["a-2"]);
    let acts = m.store.outbox_acts(&key("a-1")).await.expect("the store works");
    let kinds: Vec<_> = acts.iter().map(|act| (act.kind, act.attempt, act.who.as_str())).collect();
    assert_eq!(kinds, [(ActKind::Redriven, 1, "ann"), (ActKind::Discarded, 2, "ann")]);
}

/// One at a time, however many relays ask.
pub async fn messages_of_one_key_leave_in_their_order<S: ConsumeStore + OutboxStore + 'static>(
    m: Messages<S>,
) {
    let m = Arc::new(m);
    let all: Vec<_> =
        (0..40).map(|n| message(&format!("m-{n:02}"), Some(if n % 4 == 0 { "a" } else { "b" }))).collect();
    m.enqueue(&all[..20]).await;
    m.enqueue(&all[20..]).await;
    let order = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let relays: Vec<_> = (0..4)
        .map(|_| {
            let (m, order) = (m.clone(), order.clone());
            tokio::spawn(async move {
                while order.lock().len() < 40 {
                    let taken = m.take(IfLost::SendAgain).await;
                    assert!(taken.len() <= 2, "of each key the first");
                    order.lock().extend(taken.iter().map(|taken| taken.message.clone()));
                    let ended = taken.iter().map(|taken| Settlement {
                        id: taken.message.id.clone(),
                        attempt: taken.attempt,
                        sent: Sent::Delivered,
                    });
                    let ended = m.store.settle_sent(ended.collect()).await.expect("the store works");
                    assert!(ended.iter().all(|ended| *ended));
                }
            })
        })
        .collect();
    for relay in relays {
        relay.await.expect("no relay fails");
    }
    for ordering_key in ["a", "b"] {
        let of_key = |messages: &[Message]| {
            let of = messages.iter().filter(|message| message.ordering_key.as_deref() == Some(ordering_key));
            of.map(|message| message.id.as_str().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(of_key(&order.lock()), of_key(&all), "{ordering_key}");
    }
}

/// However many of them wait.
pub async fn those_that_wait_behind_one_hold_up_no_other_key<S: ConsumeStore + OutboxStore>(m: Messages<S>) {
    let behind: Vec<_> = (0..1500).map(|n| message(&format!("a-{n:04}"), Some("a"))).collect();
    m.enqueue(&behind).await;
    assert_eq!(m.ids().await, ["a-0000"]);
    assert!(m.settle("a-0000", 1, dead()).await);
    m.enqueue(&[message("b-1", Some("b")), message("m-1", None)]).await;
    let mut ids = m.ids().await;
    ids.sort();
    assert_eq!(ids, ["b-1", "m-1"]);
    assert!(m.redrive("a-0000", 1, Redrive::Delivered).await);
    assert_eq!(m.ids().await, ["a-0001"]);
}

/// Another destination is another queue.
pub async fn destinations_hold_up_nothing_of_each_other<S: ConsumeStore + OutboxStore>(m: Messages<S>) {
    let other = Message { destination: "mail".into(), ..message("o-1", Some("a")) };
    m.enqueue(&[other.clone(), message("a-1", Some("a"))]).await;
    assert_eq!(m.ids().await, ["a-1"]);
    let take =
        Take { destination: "mail".into(), limit: 1, bytes: u64::MAX, lease: SENDING, if_lost: IfLost::Hold };
    assert_eq!(m.store.take(take).await.expect("the store works")[0].message, other);
}

/// To pass it over would lose it.
pub async fn id_of_a_message_that_goes_elsewhere_is_refused<S: ConsumeStore + OutboxStore>(m: Messages<S>) {
    let first = message("m-1", None);
    let of_another_place = [
        Message { destination: "mail".into(), ..first.clone() },
        Message { address: "returns".into(), ..first.clone() },
    ];
    m.enqueue(std::slice::from_ref(&first)).await;
    for state in [OutboxState::Waiting, OutboxState::Delivered] {
        for message in &of_another_place {
            let refused = m.store.enqueue(vec![message.clone()]).await;
            assert!(matches!(refused, Err(StoreError::Refused(why)) if why.contains("m-1")), "{state}");
        }
        let says_something_else = Message { body: b"another".to_vec(), ..first.clone() };
        assert_eq!(m.enqueue(&[says_something_else]).await, 0, "it was made before");
        if state == OutboxState::Waiting {
            assert_eq!(m.take(IfLost::SendAgain).await[0].message, first);
            assert!(m.settle("m-1", 1, Sent::Delivered).await);
        }
        assert_eq!(m.state("m-1").await, Some(OutboxState::Delivered));
    }
    let [to_mail, _] = of_another_place;
    let both = vec![message("m-2", None), Message { id: key("m-2"), ..to_mail }];
    let refused = m.store.enqueue(both).await;
    assert!(matches!(refused, Err(StoreError::Refused(_))), "made in one call: {refused:?}");
}

/// Counted or not, as it says.
pub async fn failure_is_sent_again_when_it_says<S: ConsumeStore + OutboxStore>(m: Messages<S>) {
    m.enqueue(&[message("m-1", None)]).await;
    m.ids().await;
    let again = |counted| Sent::Again { after: SENDING, counted, reason: "busy".into() };
    assert!(m.settle("m-1", 1, again(true)).await);
    assert!(m.ids().await.is_empty());
    m.clock.pass(SENDING);
    let taken = m.take(IfLost::SendAgain).await;
    assert_eq!((taken[0].attempt, taken[0].failures), (2, 1));
    assert!(m.settle("m-1", 2, again(false)).await);
    m.clock.pass(SENDING);
    let taken = m.take(IfLost::SendAgain).await;
    assert_eq!((taken[0].attempt, taken[0].failures), (3, 1));
    assert!(m.settle("m-1", 3, Sent::Unknown { reason: "silence".into() }).await);
    assert!(m.redrive("m-1", 3, Redrive::SendAgain).await);
    assert_eq!(m.take(IfLost::SendAgain).await[0].failures, 0, "since it was redriven");
}

/// The limit is the taker's.
pub async fn no_more_are_given_than_are_asked_for<S: ConsumeStore + OutboxStore>(m: Messages<S>) {
    let all: Vec<_> = (0..25).map(|n| message(&format!("m-{n:02}"), None)).collect();
    m.enqueue(&all).await;
    let mut given = Vec::new();
    for expected in [10, 10, 5, 0] {
        let ids = m.ids().await;
        assert_eq!(ids.len(), expected);
        given.extend(ids);
    }
    given.sort();
    given.dedup();
    assert_eq!(given.len(), 25);
}

/// What the ends let go is given with the rest, and each end is judged by itself.
pub async fn ends_and_what_they_let_go_are_one_call<S: ConsumeStore + OutboxStore>(m: Messages<S>) {
    m.enqueue(&[message("a-1", Some("a")), message("a-2", Some("a")), message("b-1", None)]).await;
    m.enqueue(&[message("c-1", None)]).await;
    assert_eq!(m.ids().await.len(), 3);
    let end = |id: &str, attempt, sent| Settlement { id: key(id), attempt, sent };
    let again = Sent::Again { after: Duration::ZERO, counted: true, reason: "busy".into() };
    let ends = vec![end("c-1", 1, again), end("a-1", 1, Sent::Delivered), end("b-1", 7, Sent::Delivered)];
    let take = Take {
        destination: "shop".into(),
        limit: 10,
        bytes: u64::MAX,
        lease: SENDING,
        if_lost: IfLost::SendAgain,
    };
    let (ended, taken) = m.store.settle_and_take(ends, take).await.expect("the store works");
    assert_eq!(ended, [true, true, false]);
    let mut given: Vec<_> =
        taken.iter().map(|taken| (taken.message.id.as_str(), taken.attempt, taken.failures)).collect();
    given.sort_unstable();
    assert_eq!(given, [("a-2", 1, 0), ("c-1", 2, 1)]);
    assert_eq!(m.state("a-1").await, Some(OutboxState::Delivered));
    assert_eq!(m.state("b-1").await, Some(OutboxState::Sending));
}

/// With every filter.
pub async fn pages_surveys_and_the_sweep_see_what_stands<S: ConsumeStore + OutboxStore>(m: Messages<S>) {
    // One by one, so that their order is that of the commits.
    for id in ["m-1", "m-2", "m-3"] {
        m.enqueue(&[message(id, (id == "m-3").then_some("a"))]).await;
    }
    assert_eq!(m.ids().await.len(), 3);
    m.settle("m-1", 1, Sent::Delivered).await;
    m.settle("m-2", 1, dead()).await;
    let survey = m.store.survey_outbox().await.expect("the store works");
    assert_eq!((survey[0].depth, survey[0].dead, survey[0].oldest), (1, 1, Some(Duration::ZERO)));
    let list = async |query: OutboxQuery| m.store.list_outbox(query).await.expect("the store works");
    let first = list(OutboxQuery { limit: 2, ..OutboxQuery::default() }).await;
    assert_eq!((first.entries.len(), first.next_cursor.is_some()), (2, true));
    assert_eq!(first.entries[0].message, message("m-1", None));
    let rest = list(OutboxQuery { limit: 2, cursor: first.next_cursor, ..OutboxQuery::default() }).await;
    assert_eq!((rest.entries[0].message.id.as_str(), rest.next_cursor), ("m-3", None));
    let state = |state| OutboxQuery { state: Some(state), limit: 9, ..OutboxQuery::default() };
    let dead = list(state(OutboxState::Dead)).await;
    assert_eq!((dead.entries.len(), dead.entries[0].reason.as_deref()), (1, Some("refused")));
    assert_eq!(list(state(OutboxState::Delivered)).await.entries.len(), 1);
    let of_key = OutboxQuery { ordering_key: Some("a".into()), limit: 9, ..OutboxQuery::default() };
    assert_eq!(list(of_key).await.entries.len(), 1);
    let nowhere = OutboxQuery { destination: Some("mail".into()), limit: 9, ..OutboxQuery::default() };
    assert!(list(nowhere).await.entries.is_empty());
    let old = OutboxQuery { older_than: Some(SENDING), limit: 9, ..OutboxQuery::default() };
    assert!(list(old.clone()).await.entries.is_empty());
    m.clock.pass(SENDING);
    assert_eq!(list(old).await.entries.len(), 3);
    assert_eq!(
        m.store.sweep_outbox(SENDING, 100).await.expect("the store works"),
        1,
        "what is done, and nothing else"
    );
    assert!(!m.is_made("m-1").await);
}

/// A redrive is forgotten with its message, and the bound is kept.
pub async fn sweep_is_bounded_and_takes_the_acts_along<S: ConsumeStore + OutboxStore>(m: Messages<S>) {
    let all: Vec<_> = (0..3).map(|n| message(&format!("m-{n}"), None)).collect();
    m.enqueue(&all).await;
    m.ids().await;
    for n in 0..3 {
        assert!(m.settle(&format!("m-{n}"), 1, dead()).await);
        assert!(m.redrive(&format!("m-{n}"), 1, Redrive::Discard).await);
    }
    let sweep = async |limit| m.store.sweep_outbox(Duration::ZERO, limit).await.expect("the store works");
    assert_eq!((sweep(2).await, sweep(2).await, sweep(2).await), (2, 1, 0));
    assert!(m.store.outbox_acts(&key("m-0")).await.expect("the store works").is_empty());
}

/// What this process commits.
pub async fn hint_is_given_for_what_is_committed<S: ConsumeStore + OutboxStore>(m: Messages<S>) {
    let mut hint: Hint = m.store.hint();
    m.enqueue(&[message("m-1", None)]).await;
    assert!(hint.waited(SENDING).await);
    assert!(!hint.waited(Duration::ZERO).await, "one hint wakes once");
}
