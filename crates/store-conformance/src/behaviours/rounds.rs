//! Versions of a projection in the round of a permit: what the permit brings again compares within the round, and
//! everything else stands.

use std::time::Duration;

use onefold_core::{InboxState, Kept};
use onefold_store::{
    Applied, Atomically, ConsumeStore, Consumed, Ended, Entry, Finish, NewPermit, OutboxStore,
};

use crate::fixture::claim_under;
use crate::messages::{Handler, Messages, key};

const TICK: Duration = Duration::from_millis(5);

fn version(version: i64) -> Handler {
    let end = || Ended::Finished { finish: Finish::Succeeded, kept: Kept::Nothing, resource: None };
    Handler::new(end).version(version)
}

/// Handles an event that brings a version: what it was told, and what its mark says.
async fn brings<S: ConsumeStore + OutboxStore>(
    m: &Messages<S>,
    event: &str,
    (round, build): (u32, &str),
    number: i64,
) -> (Applied, InboxState) {
    let handler = version(number);
    let consumed = m.consume_in_the_end(&m.mark(event, round, build), &handler).await;
    m.clock.pass(TICK);
    let Consumed::Done { state, .. } = consumed else { panic!("{event}: {consumed:?}") };
    (handler.told()[0], state)
}

async fn grant<S: ConsumeStore + OutboxStore>(
    m: &Messages<S>,
    damaged: Option<&str>,
    only: Option<&str>,
) -> u32 {
    let permit = NewPermit {
        consumer: "loyalty".into(),
        source: Some("shop".into()),
        damaged: damaged.map(Into::into),
        handler: None,
        message: only.map(key),
        who: "ann".into(),
        reason: "wrong prices".into(),
    };
    let granted = m.store.grant_permit(permit).await.expect("the store works").number;
    m.clock.pass(TICK);
    granted
}

const NEWER: (Applied, InboxState) = (Applied::Newer, InboxState::Processed);
const EQUAL: (Applied, InboxState) = (Applied::Equal, InboxState::Processed);
const LATE: (Applied, InboxState) = (Applied::Superseded, InboxState::Superseded);

/// As at the first time, also what came late then; and once more under another permit.
pub async fn rebuild_takes_an_entity_through_its_versions_again<S: ConsumeStore + OutboxStore>(
    m: Messages<S>,
) {
    let events = [("evt-1", 1, NEWER), ("evt-3", 3, NEWER), ("evt-2", 2, LATE), ("other-3", 3, EQUAL)];
    let mut by = (0, "41");
    for build in ["42", "43"] {
        for (event, version, expected) in events {
            assert_eq!(brings(&m, event, by, version).await, expected, "{event} in round {}", by.0);
        }
        by = (grant(&m, None, None).await, build);
    }
}

/// Whether it comes in the middle of the round, or after the permit and before the round.
pub async fn newer_event_wins_over_a_rebuild<S: ConsumeStore + OutboxStore>(m: Messages<S>) {
    for (event, version) in [("evt-1", 1), ("evt-2", 2), ("evt-3", 3)] {
        assert_eq!(brings(&m, event, (0, "41"), version).await, NEWER, "{event}");
    }
    let first = (grant(&m, None, None).await, "42");
    assert_eq!(brings(&m, "evt-1", first, 1).await, NEWER);
    assert_eq!(brings(&m, "evt-4", (0, "42"), 4).await, NEWER, "from another one, in the middle");
    assert_eq!(brings(&m, "evt-2", first, 2).await, LATE);
    assert_eq!(brings(&m, "evt-3", first, 3).await, LATE);
    assert_eq!(brings(&m, "evt-4", first, 4).await, NEWER, "it is no other than itself");
    let second = (grant(&m, None, None).await, "42");
    assert_eq!(brings(&m, "evt-5", (0, "42"), 5).await, NEWER, "before the round has begun");
    assert_eq!(brings(&m, "evt-1", second, 1).await, LATE);
    assert_eq!(brings(&m, "evt-5", second, 5).await, NEWER);
    assert_eq!(brings(&m, "evt-4", second, 4).await, LATE);
}

/// Whoever comes first in the round: older versions are not lost to one that is tried again.
pub async fn message_that_fails_in_a_round_is_believed_to_come_until_it_is_parked<
    S: ConsumeStore + OutboxStore,
>(
    m: Messages<S>,
) {
    for (event, version) in [("evt-1", 1), ("evt-2", 2), ("evt-3", 3)] {
        assert_eq!(brings(&m, event, (0, "41"), version).await, NEWER, "{event}");
    }
    let round = (grant(&m, None, None).await, "42");
    let latest = m.mark("evt-3", round.0, round.1);
    m.fail(&latest, 2).await;
    assert_eq!(brings(&m, "evt-1", round, 1).await, NEWER);
    assert_eq!(brings(&m, "evt-2", round, 2).await, NEWER);
    assert_eq!(brings(&m, "evt-3", round, 3).await, NEWER);
    let round = (grant(&m, None, None).await, "43");
    m.fail(&m.mark("evt-3", round.0, round.1), 1).await;
    assert_eq!(brings(&m, "evt-1", round, 1).await, LATE, "nobody tries the other again");
}

/// An entity is never put back behind what comes no second time.
pub async fn what_a_permit_does_not_bring_again_stands<S: ConsumeStore + OutboxStore>(m: Messages<S>) {
    for (event, build, version) in [("evt-1", "41", 1), ("evt-2", "41", 2), ("evt-3", "42", 3)] {
        assert_eq!(brings(&m, event, (0, build), version).await, NEWER, "{event}");
    }
    grant(&m, None, None).await;
    // In the rounds of these the one before says nothing.
    let damaged = (grant(&m, Some("41"), None).await, "42");
    assert_eq!(brings(&m, "evt-1", damaged, 1).await, LATE, "a sound build has brought a newer one");
    let one = (grant(&m, None, Some("evt-2")).await, "42");
    assert_eq!(brings(&m, "evt-2", one, 2).await, LATE, "the newer one is not asked for");
    let latest = (grant(&m, None, Some("evt-3")).await, "42");
    assert_eq!(brings(&m, "evt-3", latest, 3).await, NEWER, "its own state is repaired");
}

/// It asks about several versions of one entity, and stands against itself within the round.
pub async fn message_of_several_versions_is_told_the_same_in_every_round<S: ConsumeStore + OutboxStore>(
    m: Messages<S>,
) {
    let mut by = (0, "41");
    for build in ["42", "43"] {
        let handler = version(5).version(4).version(5).version(6);
        let consumed = m.consume_in_the_end(&m.mark("evt-1", by.0, by.1), &handler).await;
        assert!(matches!(consumed, Consumed::Done { state: InboxState::Processed, .. }), "{consumed:?}");
        let told = [Applied::Newer, Applied::Superseded, Applied::Equal, Applied::Newer];
        assert_eq!(handler.told(), told, "in round {}", by.0);
        m.clock.pass(TICK);
        by = (grant(&m, None, None).await, build);
    }
}

/// Operations are not repeated by permits.
pub async fn version_of_an_operation_stands_in_every_round<S: ConsumeStore + OutboxStore>(m: Messages<S>) {
    assert_eq!(brings(&m, "evt-1", (0, "41"), 1).await, NEWER);
    let by_hand = version(2);
    let claim = claim_under(&*m.store, "k-1");
    let ended = m.store.atomically(Entry::New(Box::new(claim)), &mut m.work(&by_hand)).await;
    assert!(matches!(ended, Ok(Atomically::Committed { .. })), "{ended:?}");
    assert_eq!(by_hand.told(), [Applied::Newer]);
    m.clock.pass(TICK);
    let round = (grant(&m, None, None).await, "42");
    assert_eq!(brings(&m, "evt-1", round, 1).await, LATE);
}
