//! The intake: webhooks whose local effect is that they go on to a handler.
//!
//! *Promises.* The mark of a message and the outgoing message for its handler are one commit, so what was admitted is
//! forwarded, whatever crashes, and what was not admitted left nothing. Each message goes on under one key, which
//! follows from its identity; a permit that lets it through once more gives it another one. The same id with another
//! body goes to nobody: it is kept as a dead letter. Whoever calls has verified the sender.
//!
//! *It does not* know HTTP, and does not wait for the handler.

mod again;
mod keeper;
mod room;
mod signals;

use std::sync::Arc;

use onefold_core::contract::Retention;
use onefold_core::{
    CAUSATION_ID, Delivery, Fingerprint, IdentityKey, InboxEntry, InboxState, Key, Message, MessageIdentity,
    OperationId, Origin, OutboxState, downstream, judge_delivery, printable, to_hex,
};
use onefold_store::{Consumed, Failure, Mark, OutboxStore, Redrive, Redriving, StoreError, Versioned};

pub use keeper::IntakeKeeper;
pub use onefold_store::KeptMessage;
pub use room::Room;
pub use signals::{Decision, IntakeSignals, Verdict};

use crate::aside::OTHERS_ID_IS;
use crate::limits::{ADMIT_TRIES, EVIDENCE_MAX};
use crate::tally::{ONE_CONFLICT, ONE_DUPLICATE, Tally};
use crate::{Destination, MessageStore, Relay};
use room::Rooms;

/// The consumer under which webhooks are marked.
pub const CONSUMER: &str = "webhooks";
/// The build that is noted: which one the handler runs is not known here.
const HANDLER: &str = "forward";
/// The step whose key a message goes on under.
const STEP: &str = "onefold/forward";

/// A delivery that was verified.
#[derive(Clone, Debug)]
pub struct Arrival {
    /// Who sent it.
    pub source: String,
    /// The id that the sender gave the message.
    pub id: Key,
    /// What was sent: a delivery of something else under the id is a conflict.
    pub fingerprint: Fingerprint,
    /// What it is about: messages about one thing go on one after the other.
    pub entity: Option<String>,
    /// The version of that. Nothing without an entity.
    pub version: Option<i64>,
    /// How long the mark stays.
    pub retention: Retention,
    /// Header lines for the handler.
    pub headers: Vec<(String, String)>,
    /// The body, byte for byte.
    pub body: Vec<u8>,
}

/// What a kept message says of itself beside its id.
#[derive(Clone, Debug)]
pub struct Says {
    /// As in [`Arrival::entity`].
    pub entity: Option<String>,
    /// As in [`Arrival::version`].
    pub version: Option<i64>,
    /// As in [`Arrival::retention`].
    pub retention: Retention,
}

/// Reads a kept message of a source; `None` where that source is not taken in any more.
pub type Read = Box<dyn Fn(&str, &KeptMessage) -> Option<Says> + Send + Sync>;

/// What became of a delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admitted {
    /// It is durable, and goes on under this key.
    New(Key),
    /// It was durable before and is still on its way; given up before, it is on its way again.
    Underway(Key),
    /// It was durable before, and its handler has accepted it, or a person has taken it out.
    Done(Key),
    /// A newer version of its entity was there before: it is kept, and does not go on.
    Superseded,
    /// Another message has this id: it is kept as evidence, and does not go on.
    Conflict,
}

/// Takes webhooks into one store. Clones are one intake.
#[derive(Clone)]
pub struct Intake(Arc<Inner>);

struct Inner {
    store: Arc<dyn MessageStore>,
    signals: IntakeSignals,
    /// The keeper writes it.
    tally: Tally,
    rooms: Rooms,
}

/// The name of the destination that a source's messages go on to.
pub fn destination(source: &str) -> String {
    format!("inbox/{source}")
}

/// The key under which a message goes on in a round: the same in every delivery to the handler, in every process.
fn forward_key(id: OperationId, round: u32, secret: &IdentityKey) -> Key {
    let step = if round == 0 { STEP.to_owned() } else { format!("{STEP}/{round}") };
    Key::new(downstream::key(id, &step, secret)).expect("hex digits are a key")
}

impl Intake {
    /// An intake into a store. `surface` is a label of its metrics.
    pub fn new(store: Arc<dyn MessageStore>, surface: &'static str) -> Intake {
        let signals = IntakeSignals::new(surface, store.name());
        Intake(Arc::new(Inner { store, signals, tally: Tally::default(), rooms: Rooms::default() }))
    }

    /// What it counts.
    pub fn signals(&self) -> &IntakeSignals {
        &self.0.signals
    }

    /// The key under which a message goes on unless a permit lets it through again.
    pub fn key_of(&self, source: &str, id: &Key) -> Key {
        let secret = self.0.store.identity_key();
        forward_key(identity(source, id).id(secret), 0, secret)
    }

    /// Starts sending to these destinations.
    pub fn relay(&self, destinations: Vec<Destination>) -> Relay {
        let outbox: Arc<dyn OutboxStore> = self.0.store.clone();
        Relay::start(&outbox, destinations)
    }

    /// Takes a delivery in, for which there is room. Cancellation safe: a dropped future has committed the whole, commits it yet, or leaves
    /// nothing, and the sender delivers again.
    ///
    /// # Errors
    ///
    /// The store does not answer, or not in time; what was asked may have happened.
    pub async fn admit(&self, arrival: Arrival, room: Room) -> Result<Admitted, StoreError> {
        let source = arrival.source.clone();
        let admitted = self.0.admit(arrival).await?;
        if matches!(admitted, Admitted::New(_)) {
            room.taken();
        }
        self.0.signals.decided(&source, admitted.decision());
        Ok(admitted)
    }

    /// Where a message that went on under this key stands: done, or underway.
    ///
    /// # Errors
    ///
    /// The store does not answer.
    pub async fn is_done(&self, message: &Key) -> Result<bool, StoreError> {
        Ok(self.0.store.outgoing(message).await?.is_none_or(|entry| entry.state.is_done()))
    }
}

impl Admitted {
    fn decision(&self) -> Decision {
        match self {
            Admitted::New(_) => Decision::Accepted,
            Admitted::Underway(_) | Admitted::Done(_) => Decision::Duplicate,
            Admitted::Superseded => Decision::Superseded,
            Admitted::Conflict => Decision::Conflict,
        }
    }
}

fn identity(source: &str, id: &Key) -> MessageIdentity {
    MessageIdentity { consumer: CONSUMER.into(), source: source.into(), message: id.clone() }
}

impl Inner {
    async fn admit(&self, arrival: Arrival) -> Result<Admitted, StoreError> {
        let mut round = 0;
        for _ in 0..ADMIT_TRIES {
            let (mark, message) = self.mark_and_message(&arrival, round);
            let (id, key) = (mark.id, message.id.clone());
            let entries = match self.store.accept(mark, vec![message]).await? {
                Consumed::Done { state: InboxState::Superseded, .. } => return Ok(Admitted::Superseded),
                Consumed::Done { .. } => return Ok(Admitted::New(key)),
                Consumed::Found { entries, .. } => entries,
                // Nothing was written. The last two are not answered to a mark without an age and without a handler.
                Consumed::Contended(_)
                | Consumed::NotDone
                | Consumed::Stopped(_)
                | Consumed::TooOld { .. } => continue,
            };
            let permits = self.store.permits(Some(CONSUMER)).await?;
            match judge_delivery(&entries, &arrival.fingerprint, HANDLER, &permits) {
                Delivery::Handle { round: next } => round = next,
                Delivery::Conflict => return self.conflict(id, arrival, &entries).await,
                Delivery::Duplicate | Delivery::Parked => return self.duplicate(id, &entries).await,
            }
        }
        Err(StoreError::Unavailable("others were faster several times".into()))
    }

    fn mark_and_message(&self, arrival: &Arrival, round: u32) -> (Mark, Message) {
        let (identity, secret) = (identity(&arrival.source, &arrival.id), self.store.identity_key());
        let id = identity.id(secret);
        // What goes on is caused by what came, not by what that was caused by.
        let own = |name: &str| !name.eq_ignore_ascii_case(CAUSATION_ID);
        let cause = Some(arrival.id.as_str().to_owned());
        let message = Message {
            id: forward_key(id, round, secret),
            destination: destination(&arrival.source),
            address: String::new(),
            ordering_key: arrival.entity.clone(),
            headers: arrival.headers.iter().filter(|(name, _)| own(name)).cloned().collect(),
            body: arrival.body.clone(),
        };
        let message = message.coming_from(&Origin { causation_id: cause, ..Origin::default() });
        (self.mark(id, round, identity, arrival), message)
    }

    fn mark(&self, id: OperationId, round: u32, identity: MessageIdentity, arrival: &Arrival) -> Mark {
        Mark {
            id,
            round,
            identity,
            handler: HANDLER.into(),
            fingerprint: arrival.fingerprint,
            retention: arrival.retention,
            too_old_at: None,
            body: Some(KeptMessage { headers: arrival.headers.clone(), body: arrival.body.clone() }),
            versioned: versioned(arrival),
        }
    }

    /// A delivery of what is known. One that was given up goes on again: only the handler's acceptance, or a person,
    /// makes it done.
    async fn duplicate(&self, id: OperationId, entries: &[InboxEntry]) -> Result<Admitted, StoreError> {
        let Some(last) = entries.iter().max_by_key(|entry| entry.round) else {
            return Err(StoreError::Refused("a message was found that is not there".into()));
        };
        self.tally.add(id, last.round, ONE_DUPLICATE);
        if last.state == InboxState::Superseded {
            return Ok(Admitted::Superseded);
        }
        let key = forward_key(id, last.round, self.store.identity_key());
        let Some(outgoing) = self.store.outgoing(&key).await? else { return Ok(Admitted::Done(key)) };
        if outgoing.state == OutboxState::Dead {
            let redriving = Redriving {
                id: key.clone(),
                attempt: outgoing.attempt,
                redrive: Redrive::SendAgain,
                after: std::time::Duration::ZERO,
                who: "the sender".into(),
                reason: "delivered again".into(),
            };
            // False: somebody was faster, which comes to the same.
            self.store.redrive(redriving).await?;
        }
        Ok(if outgoing.state.is_done() { Admitted::Done(key) } else { Admitted::Underway(key) })
    }

    /// Another body under a known id: counted with the message, and kept beside it as a dead letter of its own.
    async fn conflict(
        &self,
        id: OperationId,
        arrival: Arrival,
        entries: &[InboxEntry],
    ) -> Result<Admitted, StoreError> {
        let round = entries.iter().map(|entry| entry.round).max().unwrap_or_default();
        let written: u64 = entries.iter().map(|entry| entry.conflicts).sum();
        self.tally.add(id, round, ONE_CONFLICT);
        // With those that are not written yet: a flood comes faster than they are.
        let conflicts = written + self.tally.gathered(id, round).conflicts;
        tracing::warn!(
            source = arrival.source,
            id = %id,
            "another body came under the id of a message; it is not forwarded"
        );
        if conflicts <= EVIDENCE_MAX {
            let digest = to_hex(&arrival.fingerprint.digest);
            let name = format!("conflict-{id}-{}", &digest[..32]);
            let identity = identity(&arrival.source, &Key::new(name).expect("digits and dashes are a key"));
            let evidence_id = identity.id(self.store.identity_key());
            let mark = self.mark(evidence_id, 0, identity, &arrival);
            let first = printable(arrival.id.as_str());
            let reason = format!("{OTHERS_ID_IS}: {first}");
            self.store.fail(Failure { mark, reason, park_after: Some(1) }).await?;
        }
        Ok(Admitted::Conflict)
    }
}

fn versioned(arrival: &Arrival) -> Option<Versioned> {
    Some(Versioned { entity: arrival.entity.clone()?, version: arrival.version? })
}
