//! The loop that asks authorities what became of attempts whose outcome is unknown (SEMANTICS 9).
//!
//! A verdict is carried out by a transition that starts from `outcome_unknown` and the attempt that was asked about;
//! what it means is judged by [`reconcile::judge`]. When the attempt itself or a person was faster, the verdict is
//! evidence only. Turns, their pace, negative answers and the end of it all are kept in the store: after a crash, also
//! one between a verdict and its writing, the turn comes back when it is over, and of several processes one probes a
//! record at a time. A reconciler that panics or takes too long has said nothing. Nothing waits for this loop.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use onefold_core::reconcile::{self, Asked, Course, Found, Verdict};
use onefold_core::{
    EventKind, IdentityKey, Kept, Lease, Reconciliation, Record, State, StoreTime, downstream,
};
use onefold_store::{Advance, Advanced, Also, NewEvent, ProbeTurn, Start, Step, TakeProbes};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

use crate::limits::{EVIDENCE_BYTES_MAX, PROBE_TICK, PROBE_TURN_SLACK, PROBES_AT_ONCE};
use crate::{Companion, Engine};

/// Asks the authority what became of an attempt. Only looks: a probe may be made any number of times.
#[async_trait]
pub trait Reconciler: Send + Sync + 'static {
    /// What the authority knows of this operation. Cancelled when it takes longer than its registration says.
    async fn probe(&self, subject: &Subject) -> Probed;
}

/// The operation that is asked about.
#[derive(Clone, Debug)]
pub struct Subject {
    record: Record,
    secret: IdentityKey,
}

/// A verdict with what shows it. Both texts are kept with the record, in clear and cut to 500 bytes: no secrets.
#[derive(Clone, Debug)]
pub struct Probed {
    /// What was found out.
    pub verdict: Verdict,
    /// In words.
    pub reason: String,
    /// What shows it.
    pub evidence: String,
}

/// Who is asked about the operations of one name, and what is known of its attempts.
#[derive(Clone)]
pub struct Registration {
    /// The operation's name.
    pub operation: String,
    /// Its name in metrics.
    pub label: Arc<str>,
    /// Who is asked.
    pub reconciler: Arc<dyn Reconciler>,
    /// How long one probe may take.
    pub probe_max: Duration,
    /// For how long after its outcome was lost an attempt may still be sending its request: until then a negative
    /// answer under the fence `settled` says nothing.
    pub sends_for: Duration,
    /// What is committed with the verdict that it happened.
    pub companion: Option<Arc<dyn Companion>>,
}

/// The running loop; it ends when this is dropped, with the probes that it makes.
pub struct Reconciling(JoinHandle<()>);

impl Drop for Reconciling {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Subject {
    /// The operation's record, in `outcome_unknown`.
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// The key for one step's call to another system, as the attempt derived it.
    pub fn downstream_key(&self, step: &str) -> String {
        downstream::key(self.record.id, step, &self.secret)
    }
}

impl Probed {
    /// Nobody could say.
    pub fn inconclusive(reason: impl Into<String>, evidence: impl Into<String>) -> Probed {
        Probed { verdict: Verdict::Inconclusive, reason: reason.into(), evidence: evidence.into() }
    }
}

impl Engine {
    /// Starts the loop over the operations that are registered. Without any it does nothing.
    pub fn reconcile(&self, registrations: Vec<Registration>) -> Reconciling {
        let engine = self.clone();
        Reconciling(tokio::spawn(async move {
            if !registrations.is_empty() {
                engine.run_reconciler(registrations).await;
            }
        }))
    }

    async fn run_reconciler(&self, registrations: Vec<Registration>) {
        let longest = registrations.iter().map(|r| r.probe_max).max().unwrap_or_default();
        let registered: HashMap<String, Registration> =
            registrations.into_iter().map(|r| (r.operation.clone(), r)).collect();
        let operations: Vec<String> = registered.keys().cloned().collect();
        let mut probing = JoinSet::new();
        let mut ticks = interval(PROBE_TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            while probing.try_join_next().is_some() {}
            let free = PROBES_AT_ONCE - probing.len();
            if free == 0 {
                continue;
            }
            let take = TakeProbes {
                operations: operations.clone(),
                limit: u32::try_from(free).unwrap_or(u32::MAX),
                turn: longest + PROBE_TURN_SLACK,
            };
            match self.0.store.take_probes(take).await {
                Ok(turns) => {
                    for turn in turns {
                        let Some(registration) = registered.get(&turn.record.operation) else { continue };
                        let (engine, registration) = (self.clone(), registration.clone());
                        probing.spawn(async move { engine.probe(&registration, turn).await });
                    }
                }
                Err(error) => {
                    self.0.signals.store_error();
                    tracing::warn!(%error, "operations to be reconciled could not be looked for");
                }
            }
        }
    }

    async fn probe(&self, registration: &Registration, turn: ProbeTurn) {
        let subject = Subject { record: turn.record.clone(), secret: self.identity_key().clone() };
        let probed = ask(registration, subject).await;
        let asked = Asked {
            probe: turn.probe,
            now: turn.now,
            unknown_since: turn.unknown_since,
            negative_since: turn.negative_since,
            sends_for: registration.sends_for,
        };
        let negative = matches!(probed.verdict, Verdict::DidNotHappen(_));
        let verdict = probed.verdict.name();
        let course = reconcile::judge(probed.verdict, &asked, rand::random());
        let event = event(&course, verdict, &probed.reason, &probed.evidence);
        let advance = Advance {
            id: turn.record.id,
            start: Start {
                states: &[State::OutcomeUnknown],
                attempt: turn.record.attempt,
                also: Also::Nothing,
            },
            step: step(&course, negative),
            event: Some(event.clone()),
            if_superseded: Some(event),
        };
        let began = Instant::now();
        let advanced = match (&registration.companion, &course) {
            (Some(companion), Course::Settle(_)) => companion.settle(&turn.record, advance).await,
            _ => self.0.store.advance(advance).await,
        };
        match advanced {
            Ok(advanced) => {
                self.0.signals.reconciled(&registration.label, verdict);
                if course == Course::Escalate {
                    self.0.signals.reconciled(&registration.label, "escalated");
                }
                self.followed(turn.record, course, advanced, began);
            }
            // The turn comes back when it is over, and the authority is asked again.
            Err(error) => {
                self.0.signals.store_error();
                tracing::warn!(operation = %turn.record.id, verdict, %error, "a verdict could not be stored");
            }
        }
    }

    /// What this process remembers is brought up to what was written.
    fn followed(&self, record: Record, course: Course, advanced: Advanced, began: Instant) {
        let (now, expires_at) = match advanced {
            Advanced::Done { now, expires_at } => (now, expires_at),
            Advanced::Superseded(_) | Advanced::Missing => return self.0.signals.fenced_write(),
        };
        match course {
            Course::Settle(found) => {
                let record = Arc::new(settled(record, found, now, expires_at));
                self.0.finished.put(&record, now, began);
                self.0.flights.taken((*record).clone(), now);
            }
            Course::Escalate => tracing::warn!(
                operation = %record.id,
                "nobody could say whether it happened; a person must settle it: `onefold operations show`",
            ),
            // A next attempt may have begun by now: whoever comes asks the store.
            Course::Free | Course::MayRetry | Course::AskAgain { .. } => {}
        }
    }
}

async fn ask(registration: &Registration, subject: Subject) -> Probed {
    let reconciler = registration.reconciler.clone();
    // A task of its own: a panic stays in it, and dropping the set ends it.
    let mut one = JoinSet::new();
    one.spawn(async move { reconciler.probe(&subject).await });
    match timeout(registration.probe_max, one.join_next()).await {
        Ok(Some(Ok(probed))) => probed,
        Ok(_) => Probed::inconclusive("the reconciler failed", ""),
        Err(_) => {
            let limit = registration.probe_max.as_millis();
            Probed::inconclusive(format!("there was no answer within {limit} ms"), "")
        }
    }
}

fn step(course: &Course, negative: bool) -> Step {
    let stays = |after, reconciliation| Step::Probed { after, negative, reconciliation };
    match course {
        Course::Settle(found) => {
            let Found { kept, resource } = found.clone();
            Step::Reconcile { state: State::Succeeded, kept, resource }
        }
        Course::Free => Step::Reconcile { state: State::Failed, kept: Kept::Nothing, resource: None },
        Course::MayRetry => stays(Duration::ZERO, Reconciliation::MayRetry),
        Course::Escalate => stays(Duration::ZERO, Reconciliation::Escalated),
        Course::AskAgain { after } => stays(*after, Reconciliation::Open),
    }
}

fn event(course: &Course, verdict: &str, reason: &str, evidence: &str) -> NewEvent {
    let follows = match course {
        Course::Settle(_) => "it happened".to_owned(),
        Course::Free => "it did not happen and cannot any more; the key is free".to_owned(),
        Course::MayRetry => "it did not happen so far; the same request may be sent on again".to_owned(),
        Course::AskAgain { after } => format!("asked again in {} ms", after.as_millis()),
        Course::Escalate => "not asked again: a person must settle it".to_owned(),
    };
    let kind = match (course, verdict) {
        (Course::Escalate, _) => EventKind::Escalated,
        (_, "happened") => EventKind::Happened,
        (_, "did_not_happen") => EventKind::DidNotHappen,
        _ => EventKind::Inconclusive,
    };
    NewEvent {
        kind,
        who: "reconciler".into(),
        reason: format!("{}; {follows}", cut(reason)),
        evidence: cut(evidence).to_owned(),
    }
}

/// The beginning of a text, of bounded length.
fn cut(text: &str) -> &str {
    let end = text.floor_char_boundary(EVIDENCE_BYTES_MAX);
    &text[..end]
}

fn settled(record: Record, found: Found, now: StoreTime, expires_at: Option<StoreTime>) -> Record {
    Record {
        state: State::Succeeded,
        lease: Lease::None,
        reconciliation: Reconciliation::Settled,
        kept: found.kept,
        resource: found.resource,
        completed_at: Some(now),
        expires_at,
        ..record
    }
}
