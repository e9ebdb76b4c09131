//! What the inbox keeps of a message, and what a delivery of it may do.
//!
//! A message is known by the consumer that handles it, the source that sent it and the id that the source gave it:
//! that identity is digested as every other, so two sources never meet in one id. It is handled once. Handling it
//! again on purpose needs a permit, and each permit lets each message through once: that is the entry's *round*.
//! Round 0 is the first handling, whatever build of the handler does it, so two builds that run side by side during a
//! release never both handle one message.

use std::fmt;
use std::str::FromStr;

use crate::key::{Key, KeyTime};
use crate::{Fingerprint, Identity, IdentityKey, OperationId, Scope, StoreTime};

/// The name under which messages are digested beside operations.
const OPERATION: &str = "onefold/inbox";

/// Where a message stands with its consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum InboxState {
    /// The handler has failed so far; the next delivery runs it again.
    Failing,
    /// The handler's effect is committed.
    Processed,
    /// The handler refused it for good; no effect exists.
    Rejected,
    /// A newer version of its entity was there before: it came too late, and is not lost. What else its handler did
    /// is committed.
    Superseded,
    /// Given up after too many failures: a dead letter that waits for a person.
    Parked,
}

impl InboxState {
    /// Every state.
    pub const ALL: [InboxState; 5] = [
        InboxState::Failing,
        InboxState::Processed,
        InboxState::Rejected,
        InboxState::Superseded,
        InboxState::Parked,
    ];

    /// The name in JSON and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            InboxState::Failing => "failing",
            InboxState::Processed => "processed",
            InboxState::Rejected => "rejected",
            InboxState::Superseded => "superseded",
            InboxState::Parked => "parked",
        }
    }
}

impl fmt::Display for InboxState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// No state has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no state of a message that came in is called that; the states are failing, processed, rejected, superseded and parked"
)]
pub struct NotAnInboxState;

impl FromStr for InboxState {
    type Err = NotAnInboxState;
    fn from_str(text: &str) -> Result<InboxState, NotAnInboxState> {
        InboxState::ALL.into_iter().find(|state| state.name() == text).ok_or(NotAnInboxState)
    }
}

/// Who a message is to this consumer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageIdentity {
    /// Who handles it: one name for all replicas and builds of one handler.
    pub consumer: String,
    /// Who sent it: an account, an endpoint, a stream. Part of the identity, since ids are unique to a sender only.
    pub source: String,
    /// The id that the sender gave it, the same in every delivery.
    pub message: Key,
}

impl MessageIdentity {
    /// The digest under `secret`.
    pub fn id(&self, secret: &IdentityKey) -> OperationId {
        let scope = Scope::new([("consumer", self.consumer.as_str()), ("source", self.source.as_str())]);
        let identity = Identity { scope, operation: OPERATION.into(), key: self.message.clone() };
        identity.id(secret, KeyTime::Uuidv7)
    }
}

/// What is kept of a message in one round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InboxEntry {
    /// The digest of the identity.
    pub id: OperationId,
    /// 0, or the number of the permit.
    pub round: u32,
    /// Who the message is.
    pub identity: MessageIdentity,
    /// The build of the handler that brought it into its state.
    pub handler: String,
    /// Where it stands.
    pub state: InboxState,
    /// What was sent.
    pub fingerprint: Fingerprint,
    /// Failures of the handler since it began or was redriven.
    pub failures: u32,
    /// Deliveries that found it done. Written in batches; may lag.
    pub duplicates: u64,
    /// Deliveries of something else under its id.
    pub conflicts: u64,
    /// The first delivery of the round.
    pub received_at: StoreTime,
    /// When it came into its state; of one that a person let go on, when it is due.
    pub ended_at: StoreTime,
    /// When it is forgotten; `None` is never.
    pub expires_at: Option<StoreTime>,
    /// Why it is in its state: the last failure, the refusal.
    pub reason: Option<String>,
    /// Whether its body is kept, so that it can be handled again from here.
    pub kept: bool,
}

impl InboxEntry {
    /// When it is handled from its kept body, where a person let it go on and it was not tried since.
    pub fn due_at(&self) -> Option<StoreTime> {
        (self.state == InboxState::Failing && self.failures == 0).then_some(self.ended_at)
    }
}

/// A written permission to handle messages again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permit {
    /// Its number, from 1: the round in which it lets a message through.
    pub number: u32,
    /// For this consumer.
    pub consumer: String,
    /// Only messages of this source.
    pub source: Option<String>,
    /// Only messages that this build handled last.
    pub damaged: Option<String>,
    /// Only by this build. Without it, by any other build than the damaged one.
    pub handler: Option<String>,
    /// Only this message.
    pub message: Option<Key>,
    /// Who granted it.
    pub who: String,
    /// Why.
    pub reason: String,
    /// When.
    pub granted_at: StoreTime,
    /// It lets nothing through any longer from then on.
    pub revoked: Option<Revoked>,
}

/// The end of a permit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revoked {
    /// When.
    pub at: StoreTime,
    /// Who.
    pub who: String,
    /// Why.
    pub reason: String,
}

impl Permit {
    /// Whether it is for a message that stands like `last`, by whichever build.
    pub fn names(&self, last: &InboxEntry) -> bool {
        let same = |wanted: &Option<String>, is: &str| wanted.as_deref().is_none_or(|wanted| wanted == is);
        self.revoked.is_none()
            && self.consumer == last.identity.consumer
            && same(&self.source, &last.identity.source)
            && same(&self.damaged, &last.handler)
            && self.message.as_ref().is_none_or(|message| *message == last.identity.message)
    }

    /// Whether this build may handle what it is for.
    pub fn is_for(&self, handler: &str) -> bool {
        match &self.handler {
            Some(wanted) => wanted == handler,
            None => self.damaged.as_deref() != Some(handler),
        }
    }

    /// Whether it lets a message through that stands like `last`, for this build of the handler.
    pub fn covers(&self, last: &InboxEntry, handler: &str) -> bool {
        self.names(last) && self.is_for(handler)
    }

    /// Whether a message with these entries was done before this was granted, and is let through again by it, for this
    /// build, and is not done in the round: what it brought then counts for nothing there, since the round brings it
    /// again.
    pub fn brings_again(&self, entries: &[InboxEntry], handler: &str) -> bool {
        let comes_yet = |entry: &InboxEntry| entry.round == self.number && entry.state == InboxState::Failing;
        let mut in_the_round = entries.iter().filter(|entry| entry.round >= self.number);
        let before = entries.iter().filter(|entry| entry.round < self.number);
        before.max_by_key(|entry| entry.round).is_some_and(|last| {
            let done = !matches!(last.state, InboxState::Failing | InboxState::Parked);
            done && last.ended_at <= self.granted_at
                && self.covers(last, handler)
                && in_the_round.all(comes_yet)
        })
    }
}

/// What a delivery may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// Handle it in this round.
    Handle {
        /// 0, or the permit's number.
        round: u32,
    },
    /// It is done: acknowledge it.
    Duplicate,
    /// It was given up and waits for a person, who has it: acknowledge it.
    Parked,
    /// Another message has this id: keep it away from the handler and tell people.
    Conflict,
}

/// Judges a delivery: `entries` are those of its identity, `permits` those of its consumer.
///
/// A message that waits in the dead list is handled again by the redrive of that list, never by a mere delivery. One that
/// a person lets through under a permit waits for a build that the permit is for.
pub fn judge_delivery(
    entries: &[InboxEntry],
    fingerprint: &Fingerprint,
    handler: &str,
    permits: &[Permit],
) -> Delivery {
    let Some(last) = entries.iter().max_by_key(|entry| entry.round) else {
        return Delivery::Handle { round: 0 };
    };
    if last.fingerprint != *fingerprint {
        return Delivery::Conflict;
    }
    match last.state {
        InboxState::Failing if last.due_at().is_some() && !round_is_for(last.round, handler, permits) => {
            Delivery::Duplicate
        }
        InboxState::Failing => Delivery::Handle { round: last.round },
        InboxState::Parked => Delivery::Parked,
        InboxState::Processed | InboxState::Rejected | InboxState::Superseded => {
            let later = permits.iter().filter(|permit| permit.number > last.round);
            match later.filter(|permit| permit.covers(last, handler)).map(|permit| permit.number).min() {
                Some(round) => Delivery::Handle { round },
                None => Delivery::Duplicate,
            }
        }
    }
}

/// Whether this build may handle a message in this round.
pub fn round_is_for(round: u32, handler: &str, permits: &[Permit]) -> bool {
    permits.iter().find(|permit| permit.number == round).is_none_or(|permit| permit.is_for(handler))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FingerprintBuilder;

    fn fingerprint(body: &str) -> Fingerprint {
        FingerprintBuilder::new(&IdentityKey::none()).part("body", body.as_bytes()).finish()
    }

    fn entry(round: u32, handler: &str, state: InboxState) -> InboxEntry {
        let message = Key::new("evt_1").expect("a key");
        let identity = MessageIdentity { consumer: "loyalty".into(), source: "shop".into(), message };
        InboxEntry {
            id: identity.id(&IdentityKey::none()),
            round,
            identity,
            handler: handler.into(),
            state,
            fingerprint: fingerprint("a"),
            failures: 0,
            duplicates: 0,
            conflicts: 0,
            received_at: StoreTime(0),
            ended_at: StoreTime(0),
            expires_at: None,
            reason: None,
            kept: false,
        }
    }

    fn permit(number: u32, damaged: Option<&str>, handler: Option<&str>) -> Permit {
        Permit {
            number,
            consumer: "loyalty".into(),
            source: None,
            damaged: damaged.map(Into::into),
            handler: handler.map(Into::into),
            message: None,
            who: "ann".into(),
            reason: "build 41 gave too few points".into(),
            granted_at: StoreTime(0),
            revoked: None,
        }
    }

    fn judge(entries: &[InboxEntry], handler: &str, permits: &[Permit]) -> Delivery {
        judge_delivery(entries, &fingerprint("a"), handler, permits)
    }

    #[test]
    fn whoever_misspells_a_state_is_told_all_of_them() {
        let said = "dead".parse::<InboxState>().unwrap_err().to_string();
        assert!(InboxState::ALL.iter().all(|state| said.contains(state.name())), "{said}");
    }

    #[test]
    fn each_state_says_what_a_delivery_may_do() {
        assert_eq!(judge(&[], "41", &[]), Delivery::Handle { round: 0 });
        for (state, delivery) in [
            (InboxState::Failing, Delivery::Handle { round: 0 }),
            (InboxState::Processed, Delivery::Duplicate),
            (InboxState::Rejected, Delivery::Duplicate),
            (InboxState::Superseded, Delivery::Duplicate),
            (InboxState::Parked, Delivery::Parked),
        ] {
            let entries = [entry(0, "41", state)];
            assert_eq!(judge(&entries, "42", &[]), delivery, "{state}");
            let other = judge_delivery(&entries, &fingerprint("b"), "41", &[]);
            assert_eq!(other, Delivery::Conflict, "{state}");
        }
    }

    #[test]
    fn a_permit_lets_each_damaged_message_through_once_and_to_another_build() {
        let damaged = entry(0, "41", InboxState::Processed);
        let permits = [permit(3, Some("41"), None)];
        let whole = entry(0, "40", InboxState::Processed);
        assert_eq!(judge(&[whole], "42", &permits), Delivery::Duplicate);
        assert_eq!(judge(std::slice::from_ref(&damaged), "41", &permits), Delivery::Duplicate);
        assert_eq!(judge(std::slice::from_ref(&damaged), "42", &permits), Delivery::Handle { round: 3 });
        let again = [damaged.clone(), entry(3, "42", InboxState::Failing)];
        assert_eq!(judge(&again, "42", &permits), Delivery::Handle { round: 3 });
        let repaired = [damaged, entry(3, "42", InboxState::Processed)];
        assert_eq!(judge(&repaired, "42", &permits), Delivery::Duplicate);
    }

    #[test]
    fn a_permit_lets_nothing_through_again_in_its_own_round_or_in_a_later_one() {
        let permits = [permit(1, None, None), permit(2, None, None)];
        let done = |rounds: &[u32]| -> Vec<InboxEntry> {
            rounds.iter().map(|round| entry(*round, "42", InboxState::Processed)).collect()
        };
        assert_eq!(judge(&done(&[0]), "42", &permits), Delivery::Handle { round: 1 });
        assert_eq!(judge(&done(&[0, 1]), "42", &permits), Delivery::Handle { round: 2 });
        assert_eq!(judge(&done(&[0, 1, 2]), "42", &permits), Delivery::Duplicate);
        assert_eq!(judge(&done(&[0, 2]), "42", &permits), Delivery::Duplicate, "the first is over");
    }

    #[test]
    fn what_a_permit_names_must_be_so() {
        let entries = [entry(0, "41", InboxState::Processed)];
        let whole = permit(1, None, None);
        assert_eq!(judge(&entries, "41", std::slice::from_ref(&whole)), Delivery::Handle { round: 1 });
        for narrower in [
            Permit { source: Some("other".into()), ..whole.clone() },
            Permit { consumer: "other".into(), ..whole.clone() },
            Permit { handler: Some("43".into()), ..whole.clone() },
            Permit { message: Some(Key::new("evt_2").expect("a key")), ..whole.clone() },
            Permit {
                revoked: Some(Revoked { at: StoreTime(1), who: "ann".into(), reason: "done".into() }),
                ..whole
            },
        ] {
            assert_eq!(
                judge(&entries, "42", std::slice::from_ref(&narrower)),
                Delivery::Duplicate,
                "{narrower:?}"
            );
        }
    }

    #[test]
    fn a_permit_brings_again_what_was_done_before_it_and_what_it_lets_through() {
        let damaged = entry(0, "41", InboxState::Processed);
        let granted = Permit { granted_at: StoreTime(5), ..permit(3, Some("41"), None) };
        assert!(granted.brings_again(std::slice::from_ref(&damaged), "42"));
        let fails = [damaged.clone(), entry(3, "42", InboxState::Failing)];
        assert!(granted.brings_again(&fails, "42"), "it comes again until it is done or given up");
        let not_again: [(&str, &[InboxEntry]); 7] = [
            ("no mark stands", &[]),
            ("another build's", &[entry(0, "40", InboxState::Processed)]),
            ("done since", &[InboxEntry { ended_at: StoreTime(6), ..damaged.clone() }]),
            ("not done", &[entry(0, "41", InboxState::Failing)]),
            ("given up", &[entry(0, "41", InboxState::Parked)]),
            ("given up in the round", &[damaged.clone(), entry(3, "42", InboxState::Parked)]),
            ("done in the round", &[damaged, entry(3, "41", InboxState::Processed)]),
        ];
        for (why, entries) in not_again {
            assert!(!granted.brings_again(entries, "42"), "{why}");
        }
    }

    #[test]
    fn what_a_person_lets_through_waits_for_a_build_that_the_permit_is_for() {
        let permits = [permit(3, Some("41"), None), permit(4, None, Some("43"))];
        let let_through =
            |round| [entry(0, "41", InboxState::Processed), entry(round, "41", InboxState::Failing)];
        for (round, build, delivery) in [
            (3, "41", Delivery::Duplicate),
            (3, "42", Delivery::Handle { round: 3 }),
            (4, "42", Delivery::Duplicate),
            (4, "43", Delivery::Handle { round: 4 }),
        ] {
            assert_eq!(judge(&let_through(round), build, &permits), delivery, "{build} in round {round}");
        }
        // One that was tried comes by whoever delivers it, who may know no other build.
        let tried = InboxEntry { failures: 1, ..entry(3, "42", InboxState::Failing) };
        assert_eq!(judge(&[tried], "41", &permits), Delivery::Handle { round: 3 });
    }

    #[test]
    fn another_source_or_consumer_is_another_message() {
        let one = entry(0, "41", InboxState::Processed).identity;
        let id = |identity: &MessageIdentity| identity.id(&IdentityKey::none());
        assert_ne!(id(&one), id(&MessageIdentity { source: "gh/app2".into(), ..one.clone() }));
        assert_ne!(id(&one), id(&MessageIdentity { consumer: "mail".into(), ..one.clone() }));
    }
}
