//! What releases that share a store do with messages and unknown outcomes, and that each finds what the other has left.
//! The tests of rolling upgrades of each store use it, beside what they do with operations themselves.

use std::time::Duration;

use onefold_core::{InboxState, Kept, NotKept, OutboxState, Reconciliation, State};
use onefold_store::{
    Advance, Advanced, Also, Claimed, ConsumeStore, Ended, Failure, Finish, IfLost, NewPermit, OutboxStore,
    Sent, Settlement, Start, Step, Take, TakeProbes,
};

use crate::fixture::{RUNNING, claim_under};
use crate::messages::{Handler, is_processed, key, mark_under, message};

/// Where messages wait until [`sends_what_waits`].
const LATER: &str = "later";
const LEASE: Duration = Duration::from_secs(30);

fn take(destination: &str) -> Take {
    Take {
        destination: destination.into(),
        limit: 100,
        bytes: u64::MAX,
        lease: LEASE,
        if_lost: IfLost::SendAgain,
    }
}

fn succeeds() -> Handler {
    Handler::new(|| Ended::Finished { finish: Finish::Succeeded, kept: Kept::Nothing, resource: None })
}

fn effect(name: &str) -> String {
    format!("{name}/CONFIRMED")
}

/// Uses outbox, inbox, effects, permits, companions and probes, each once, under this name. Of several uses of one
/// store the later has the higher `nth`.
pub async fn works<S: ConsumeStore + OutboxStore>(
    store: &S,
    nth: i64,
    name: &str,
    work: impl Fn(Handler) -> S::Work,
) {
    let id = |what: &str| format!("{name} {what}");
    let mut waits = message(&id("waits"), Some(name));
    waits.destination = LATER.into();
    let made = store.enqueue(vec![message(&id("alone"), None), waits]).await;
    assert_eq!(made, Ok(2), "{name}");

    let evt = mark_under(store, &id("evt"), 0, "41");
    let handler = succeeds().message(message(&id("made"), None)).effect(&effect(name)).version(nth);
    let consumed = store.consume(evt.clone(), &mut work(handler.clone())).await.expect("the store works");
    assert!(is_processed(&consumed), "{name}: {consumed:?}");
    assert_eq!(handler.made(), [true], "{name}");
    let parked = mark_under(store, &id("parked"), 0, "41");
    let failed = store.fail(Failure { mark: parked, reason: "busy".into(), park_after: Some(1) }).await;
    assert_eq!(failed.expect("the store works").state, InboxState::Parked, "{name}");
    let hook = mark_under(store, &id("hook"), 0, "41");
    let accepted = store.accept(hook, vec![message(&id("forwarded"), None)]).await;
    assert!(is_processed(&accepted.expect("the store works")), "{name}");

    let permit = NewPermit {
        consumer: evt.identity.consumer.clone(),
        source: None,
        damaged: Some("41".into()),
        handler: None,
        message: Some(key(&id("evt"))),
        who: "ann".into(),
        reason: name.into(),
    };
    let round = store.grant_permit(permit).await.expect("the store works").number;
    let again = mark_under(store, &id("evt"), round, "42");
    let consumed = store.consume(again, &mut work(succeeds())).await.expect("the store works");
    assert!(is_processed(&consumed), "{name}: {consumed:?}");

    let sent = sends(store, "shop", &[id("alone"), id("forwarded")]).await;
    assert_eq!(sent.len(), 3, "{name}: the effect's as well: {sent:?}");
    store.note_companion(name).await.expect("the store works");
    reconciles(store, &id("lost")).await;
}

/// Finds what was left under this name, and has no effect a second time. `reader` is a name of its own.
pub async fn finds<S: ConsumeStore + OutboxStore>(
    store: &S,
    name: &str,
    reader: &str,
    work: impl Fn(Handler) -> S::Work,
) {
    let states = async |what: &str| {
        let mark = mark_under(store, &format!("{name} {what}"), 0, "41");
        let entries = store.entries(mark.id).await.expect("the store works");
        entries.into_iter().map(|entry| (entry.handler, entry.state)).collect::<Vec<_>>()
    };
    let by = |build: &str, state| (build.to_owned(), state);
    let twice = [by("41", InboxState::Processed), by("42", InboxState::Processed)];
    assert_eq!(states("evt").await, twice, "{name}");
    assert_eq!(states("parked").await, [by("41", InboxState::Parked)], "{name}");
    assert_eq!(states("hook").await, [by("41", InboxState::Processed)], "{name}");
    for (what, state) in [
        ("alone", OutboxState::Delivered),
        ("forwarded", OutboxState::Delivered),
        ("waits", OutboxState::Waiting),
    ] {
        let entry = store.outgoing(&key(&format!("{name} {what}"))).await.expect("the store works");
        assert_eq!(entry.map(|entry| entry.state), Some(state), "{name} {what}");
    }
    let once = succeeds().message(message("not used", None)).effect(&effect(name));
    let evt = mark_under(store, &format!("{name} evt for {reader}"), 0, "41");
    let consumed = store.consume(evt, &mut work(once.clone())).await.expect("the store works");
    assert!(is_processed(&consumed), "{name}: {consumed:?}");
    assert_eq!(once.made(), [false], "{name} had its effect");
    let permits = store.permits(Some("loyalty")).await.expect("the store works");
    assert!(permits.iter().any(|permit| permit.reason == name), "{name}: {permits:?}");
    assert!(store.has_companion(name).await.expect("the store works"), "{name}");
    let lost = store.read(claim_under(store, &format!("{name} lost")).id).await.expect("the store works");
    let lost = lost.record.expect("a record");
    assert_eq!((lost.state, lost.reconciliation), (State::Succeeded, Reconciliation::Settled), "{name}");
}

/// What waits under these names is given, whoever made it, and is delivered.
pub async fn sends_what_waits(store: &impl OutboxStore, names: &[&str]) {
    let ids: Vec<String> = names.iter().map(|name| format!("{name} waits")).collect();
    sends(store, LATER, &ids).await;
}

/// Sends all that waits there, these among it; what was sent.
async fn sends(store: &impl OutboxStore, destination: &str, ids: &[String]) -> Vec<String> {
    let mut ended: Vec<Settlement> = Vec::new();
    let mut sent = Vec::new();
    loop {
        let ends = std::mem::take(&mut ended);
        let (ours, taken) = store.settle_and_take(ends, take(destination)).await.expect("the store works");
        assert!(ours.into_iter().all(|ours| ours));
        if taken.is_empty() {
            break;
        }
        for taken in taken {
            sent.push(taken.message.id.as_str().to_owned());
            ended.push(Settlement { id: taken.message.id, attempt: taken.attempt, sent: Sent::Delivered });
        }
    }
    for id in ids {
        let entry = store.outgoing(&key(id)).await.expect("the store works");
        let delivered = entry.is_some_and(|entry| entry.state == OutboxState::Delivered);
        assert!(delivered && sent.contains(id), "{id} of {sent:?}");
    }
    sent
}

/// An outcome is lost, looked up, and settled by what was found.
async fn reconciles(store: &impl ConsumeStore, name: &str) {
    let claim = claim_under(store, name);
    let id = claim.id;
    assert!(matches!(store.claim(claim).await, Ok(Claimed::Won { .. })), "{name}");
    let step = async |states, step| {
        let start = Start { states, attempt: 1, also: Also::Nothing };
        let advance = Advance { id, start, step, event: None, if_superseded: None };
        let advanced = store.advance(advance).await.expect("the store works");
        assert!(matches!(advanced, Advanced::Done { .. }), "{name}: {advanced:?}");
    };
    step(RUNNING, Step::LoseOutcome).await;
    let wish = TakeProbes { operations: vec!["CreateOrder".into()], limit: 10, turn: LEASE };
    let turns = store.take_probes(wish).await.expect("the store works");
    assert!(turns.iter().any(|turn| turn.record.id == id), "{name}: {turns:?}");
    let kept = Kept::NotKept { status: None, why: NotKept::Reconciled };
    let found = Step::Reconcile { state: State::Succeeded, kept, resource: None };
    step(&[State::OutcomeUnknown], found).await;
}
