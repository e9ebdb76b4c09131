//! The way of one delivery.

use std::sync::Arc;
use std::time::Duration;

use onefold_canon::{BodyHasher, BodyKind};
use onefold_core::contract::Retention;
use onefold_core::{
    Delivery, Fingerprint, FingerprintBuilder, InboxEntry, InboxState, Key, MessageIdentity, OperationId,
    judge_delivery, to_hex,
};
use onefold_store::{ConsumeStore, Consumed, Failure, KeptMessage, Mark, StoreError, Versioned};

use super::handled::{Said, cut};
use super::{Handling, Inbox, InboxSettings, Incoming, Inner, WithoutId, Word};
use crate::aside::{NO_ID, OTHERS_ID, TOO_OLD};
use crate::limits::{
    CONTENDED_PAUSE, CONTENDED_RUNS_MAX, NOT_YET_MAX, POLL_MIN, STORE_PAUSE_FIRST, STORE_PAUSE_MAX,
};
use crate::tally::{ONE_CONFLICT, ONE_DUPLICATE};
use crate::{Inbound, Told, wire};

/// A message and how it is known.
pub(super) struct Subject {
    pub(super) id: OperationId,
    pub(super) identity: MessageIdentity,
    pub(super) told: Told,
    pub(super) incoming: Arc<Incoming>,
}

/// Where a message came from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum From {
    /// Somebody delivers it, and again if need be.
    Delivery,
    /// The inbox itself: nobody else has it any longer, so after so many tries that fail it is parked.
    Inbox(u32),
}

impl<S: ConsumeStore + 'static> Inbox<S> {
    /// Handles a delivery: `work` makes the store's work of a message, whose end tells the word. What is significant of
    /// it is its body: JSON by what it says, everything else byte for byte.
    ///
    /// The answer says what is durable, and how to settle with whoever delivered (`Settle::from`). A store that does
    /// not answer is [`Handling::Again`]. Cancellation safe: a dropped future has committed the whole, commits it
    /// yet, or leaves nothing; the delivery comes again.
    pub async fn handle(
        &self,
        inbound: Inbound,
        work: impl FnOnce(Arc<Incoming>, Word) -> S::Work,
    ) -> Handling {
        let mut hasher = BodyHasher::new(BodyKind::Json, &[]);
        hasher.update(&inbound.body);
        let fingerprint = Fingerprint::of_message(&hasher.finish().digest, self.inner.store.identity_key());
        self.handle_as(inbound, Told { fingerprint, version: None }, work).await
    }

    /// Handles a delivery as [`Inbox::handle`] does, but for what its source's contract says of it.
    pub async fn handle_as(
        &self,
        inbound: Inbound,
        told: Told,
        work: impl FnOnce(Arc<Incoming>, Word) -> S::Work,
    ) -> Handling {
        let inner = &self.inner;
        let (key, has_id) = match &inbound.id {
            Some(id) => (id.clone(), true),
            None => (inner.made_id("content", &[&inbound.body]), false),
        };
        let subject = inner.subject(key, inbound, told);
        let _turn = inner.locks.take(subject.id).await;
        if !has_id && inner.settings.without_id == WithoutId::Park {
            return inner.park(&subject, 0, NO_ID).await;
        }
        inner.run(&subject, From::Delivery, work).await
    }
}

impl<S: ConsumeStore + 'static> Inner<S> {
    /// An id that is made from content.
    fn made_id(&self, kind: &str, parts: &[&[u8]]) -> Key {
        let builder = FingerprintBuilder::new(self.store.identity_key()).part("made", kind.as_bytes());
        let digest = parts.iter().fold(builder, |builder, part| builder.part("part", part)).finish().digest;
        Key::new(format!("{kind}:{}", to_hex(&digest))).expect("short and not blank")
    }

    pub(super) fn subject(&self, key: Key, inbound: Inbound, told: Told) -> Subject {
        let Inbound { source, id, ordering_key, mut headers, body } = inbound;
        // What is not in the headers would be lost with a dead letter. A version is what the contract says, and nobody else; so
        // is the entity that it is of.
        let ours = |name: &str| {
            name.eq_ignore_ascii_case(wire::VERSION)
                || (ordering_key.is_some() && name.eq_ignore_ascii_case(wire::ORDERING_KEY))
        };
        headers.retain(|(name, _)| !ours(name));
        let places = [
            (wire::MESSAGE_ID, id.map(|id| id.as_str().to_owned())),
            (wire::ORDERING_KEY, ordering_key.clone()),
            (wire::VERSION, told.version.map(|version| version.to_string())),
        ];
        for (name, value) in places {
            if let (Some(value), None) = (value, wire::line(&headers, name)) {
                headers.push((name.to_owned(), value));
            }
        }
        let consumer = self.settings.consumer.clone();
        let identity = MessageIdentity { consumer, source: source.clone(), message: key.clone() };
        let secret = self.store.identity_key();
        Subject {
            id: identity.id(secret),
            identity,
            told,
            incoming: Arc::new(Incoming { id: key, source, ordering_key, headers, body }),
        }
    }

    fn mark(&self, subject: &Subject, round: u32, keep: bool) -> Mark {
        let Incoming { headers, body, ordering_key, .. } = &*subject.incoming;
        let versioned = ordering_key.clone().zip(subject.told.version);
        let made_at = subject.identity.message.time(self.settings.key_time);
        let too_old_at = match self.settings.retention {
            Retention::For(retention) => made_at.map(|made_at| made_at.plus(retention)),
            Retention::Forever => None,
        };
        Mark {
            id: subject.id,
            round,
            identity: subject.identity.clone(),
            handler: self.settings.build.clone(),
            fingerprint: subject.told.fingerprint,
            retention: self.settings.retention,
            too_old_at,
            body: keep.then(|| KeptMessage { headers: headers.clone(), body: body.clone() }),
            versioned: versioned.map(|(entity, version)| Versioned { entity, version }),
        }
    }

    /// Consumes it, and judges what stands in its way. The caller has the message's turn.
    pub(super) async fn run(
        self: &Arc<Self>,
        subject: &Subject,
        from: From,
        work: impl FnOnce(Arc<Incoming>, Word) -> S::Work,
    ) -> Handling {
        let word = Word::default();
        let mut work = work(subject.incoming.clone(), word.clone());
        let (mut round, mut runs) = (0, 0);
        loop {
            let mark = self.mark(subject, round, self.settings.keep_bodies);
            match self.store.consume(mark, &mut work).await {
                Ok(Consumed::Done { state, .. }) => return self.ended(Handling::Done(state), state.name()),
                Ok(Consumed::NotDone) => match word.take() {
                    Some(Said::NotYet(after)) => {
                        let after = after.unwrap_or(self.settings.backoff.max).min(NOT_YET_MAX);
                        return self.ended(Handling::Again { after }, "not_yet");
                    }
                    Some(Said::Failed(why)) => return self.failed(subject, round, from, &why).await,
                    None => return self.failed(subject, round, from, "the handler did nothing").await,
                },
                Ok(Consumed::Stopped(why)) => return self.failed(subject, round, from, &why).await,
                Ok(Consumed::Contended(_)) if runs < CONTENDED_RUNS_MAX => {
                    runs += 1;
                    let longest = CONTENDED_PAUSE * 2_u32.pow(runs);
                    tokio::time::sleep(longest.mul_f64(rand::random())).await;
                }
                Ok(Consumed::Contended(why)) => return self.away(&StoreError::Unavailable(why)),
                Ok(Consumed::Found { entries, .. }) => {
                    match self.judge(subject, from, &entries).await {
                        Ok(Ok(next)) => {
                            // What let it through may have gone meanwhile, but not for ever.
                            runs += 1;
                            if runs > CONTENDED_RUNS_MAX {
                                return self.away(&StoreError::Unavailable("its entries change".into()));
                            }
                            round = next;
                        }
                        Ok(Err(handling)) => return handling,
                        Err(error) => return self.away(&error),
                    }
                }
                Ok(Consumed::TooOld { .. }) => {
                    return self.park(subject, 0, TOO_OLD).await;
                }
                Err(error @ StoreError::Unavailable(_)) => return self.away(&error),
                Err(StoreError::Refused(why)) => return self.failed(subject, round, from, &why).await,
            }
        }
    }

    /// What the entries that stand in the way mean: a round to handle it in, or the end.
    async fn judge(
        self: &Arc<Self>,
        subject: &Subject,
        from: From,
        entries: &[InboxEntry],
    ) -> Result<Result<u32, Handling>, StoreError> {
        let InboxSettings { consumer, build, .. } = &self.settings;
        let permits = self.store.permits(Some(consumer)).await?;
        let last = entries.iter().map(|entry| entry.round).max().unwrap_or(0);
        Ok(Err(match judge_delivery(entries, &subject.told.fingerprint, build, &permits) {
            Delivery::Handle { round } => return Ok(Ok(round)),
            done @ (Delivery::Duplicate | Delivery::Parked) => {
                if from == From::Delivery {
                    self.count(subject.id, last, ONE_DUPLICATE);
                    self.engine.signals().messages().duplicate(consumer);
                }
                if done == Delivery::Parked { Handling::Parked } else { Handling::Duplicate }
            }
            Delivery::Conflict => {
                self.count(subject.id, last, ONE_CONFLICT);
                self.engine.signals().messages().conflict(consumer);
                self.park_conflict(subject).await
            }
        }))
    }

    /// Another message has its id: it is kept under one of its own.
    async fn park_conflict(&self, subject: &Subject) -> Handling {
        let Incoming { id, source, ordering_key, headers, body } = (*subject.incoming).clone();
        let told = subject.told;
        let key = self.made_id("conflict", &[id.as_str().as_bytes(), &told.fingerprint.digest]);
        let inbound = Inbound { source, id: Some(id), ordering_key, headers, body };
        match self.park(&self.subject(key, inbound, told), 0, OTHERS_ID).await {
            Handling::Parked => Handling::Conflict,
            other => other,
        }
    }

    /// Puts it into the dead list, unless it is done or there already.
    async fn park(&self, subject: &Subject, round: u32, why: &str) -> Handling {
        self.note_failure(subject, round, why, Some(1)).await
    }

    /// A try that failed.
    async fn failed(&self, subject: &Subject, round: u32, from: From, why: &str) -> Handling {
        let park_after = match from {
            From::Delivery => self.settings.park_after,
            From::Inbox(tries) => Some(tries),
        };
        self.note_failure(subject, round, why, park_after).await
    }

    async fn note_failure(
        &self,
        subject: &Subject,
        round: u32,
        why: &str,
        park_after: Option<u32>,
    ) -> Handling {
        let mark = self.mark(subject, round, true);
        let failure = Failure { mark, reason: cut(why).to_owned(), park_after };
        let entry = match self.store.fail(failure).await {
            Ok(entry) => entry,
            Err(error) => return self.away(&error),
        };
        match entry.state {
            InboxState::Parked => {
                let consumer = &self.settings.consumer;
                tracing::warn!(consumer, id = %entry.id, round, "a message is in the dead list");
                self.ended(Handling::Parked, "parked")
            }
            InboxState::Failing => {
                let pause = self.settings.backoff.pause(entry.failures.saturating_sub(1), rand::random());
                self.ended(Handling::Again { after: pause.max(POLL_MIN) }, "failed")
            }
            // Somebody else was faster.
            InboxState::Processed | InboxState::Rejected | InboxState::Superseded => Handling::Duplicate,
        }
    }

    fn ended(&self, handling: Handling, verdict: &'static str) -> Handling {
        self.engine.signals().messages().handled(&self.settings.consumer, verdict);
        handling
    }

    /// The store does not answer: nothing is known to be done, and nothing is counted against the message.
    fn away(&self, error: &StoreError) -> Handling {
        tracing::warn!(consumer = self.settings.consumer, %error, "a message could not be handled now");
        self.engine.signals().store_error();
        let after: Duration = STORE_PAUSE_MAX.mul_f64(rand::random()).max(STORE_PAUSE_FIRST);
        Handling::Again { after }
    }
}
