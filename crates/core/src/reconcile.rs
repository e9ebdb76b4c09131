//! What a reconciler's verdict means for the record (SEMANTICS 9).
//!
//! One pure function, [`judge`], says what follows. **A negative probe is not an answer**: the first request may still
//! be on its way. So a negative frees an operation only behind a fence, and one without a fence only behind a person.
//! The engine carries out what is said here with a transition that starts from `outcome_unknown` and the attempt that
//! was asked about; whoever was faster (the attempt itself, a person) is right, and the verdict is evidence.

use std::time::Duration;

use crate::retry::Backoff;
use crate::{Kept, Resource, StoreTime};

/// Probes of one attempt before a person is asked: with [`BACKOFF`] about an hour.
pub const PROBES_MAX: u32 = 20;
/// The pauses between the probes of one record.
pub const BACKOFF: Backoff = Backoff { first: Duration::from_secs(2), max: Duration::from_secs(300) };

/// Why the late original cannot have an effect after "it did not happen".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fence {
    /// The authority has taken note of the question and will refuse the original when it arrives.
    Tombstoned,
    /// It may still arrive; only a retry under the same downstream key is safe, for the authority makes one of both.
    SameKey,
    /// Whatever was sent has arrived and was worked off this long after the last moment at which it can have been
    /// sent, and the authority was asked again then.
    Settled {
        /// From the first negative answer, and from the last possible sending, to the one that counts.
        window: Duration,
    },
}

/// What is known of an effect that happened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// What duplicates get from now on.
    pub kept: Kept,
    /// What it brought forth.
    pub resource: Option<Resource>,
}

/// What a reconciler found out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The effect exists.
    Happened(Found),
    /// The authority knows no effect. Without a fence this frees nothing.
    DidNotHappen(Option<Fence>),
    /// Nobody could say.
    Inconclusive,
}

impl Verdict {
    /// The label `verdict` of the metrics.
    pub fn name(&self) -> &'static str {
        match self {
            Verdict::Happened(_) => "happened",
            Verdict::DidNotHappen(_) => "did_not_happen",
            Verdict::Inconclusive => "inconclusive",
        }
    }
}

/// When a verdict was asked for, by the store's clock.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// Which probe of this attempt it was, from 1.
    pub probe: u32,
    /// No later than the moment of asking.
    pub now: StoreTime,
    /// When the outcome became unknown.
    pub unknown_since: StoreTime,
    /// When the first negative answer was noted.
    pub negative_since: Option<StoreTime>,
    /// For how long after `unknown_since` the attempt itself may still have been sending its request.
    pub sends_for: Duration,
}

/// What follows a verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Course {
    /// It happened: `succeeded`, with this.
    Settle(Found),
    /// It did not and cannot: the key is free.
    Free,
    /// The next request is sent on under the same downstream key; the outcome stays unknown until then.
    MayRetry,
    /// Nothing is known yet: asked again after this.
    AskAgain {
        /// The pause.
        after: Duration,
    },
    /// It is not asked again; a person must settle it.
    Escalate,
}

/// What follows this verdict. `dice` is uniform in `0.0..1.0`.
pub fn judge(verdict: Verdict, asked: &Asked, dice: f64) -> Course {
    match verdict {
        Verdict::Happened(found) => Course::Settle(found),
        Verdict::DidNotHappen(Some(Fence::Tombstoned)) => Course::Free,
        Verdict::DidNotHappen(Some(Fence::SameKey)) => Course::MayRetry,
        Verdict::DidNotHappen(Some(Fence::Settled { window })) => settled(window, asked),
        Verdict::DidNotHappen(None) | Verdict::Inconclusive if asked.probe >= PROBES_MAX => Course::Escalate,
        Verdict::DidNotHappen(None) | Verdict::Inconclusive => {
            Course::AskAgain { after: pause(asked.probe, dice) }
        }
    }
}

/// The first negative only starts the window. The one that counts was asked after the window, counted from the first
/// and from the last moment at which the original can have been sent.
fn settled(window: Duration, asked: &Asked) -> Course {
    let sent_by = asked.unknown_since.plus(asked.sends_for);
    let from = asked.negative_since.unwrap_or(asked.now).max(sent_by);
    let counts_from = from.plus(window);
    match asked.negative_since {
        Some(_) if counts_from <= asked.now => Course::Free,
        // It was asked too early again and again: the window was made longer meanwhile, for instance.
        Some(_) if asked.probe >= PROBES_MAX => Course::Escalate,
        _ => Course::AskAgain { after: asked.now.until(counts_from) },
    }
}

/// Half of the pause is certain, so that no number of dice asks an authority at once.
fn pause(probe: u32, dice: f64) -> Duration {
    BACKOFF.pause(probe.saturating_sub(1), 0.5 + dice.clamp(0.0, 1.0) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOST: StoreTime = StoreTime(1_000_000);
    const SENDS_FOR: Duration = Duration::from_secs(10);
    const WINDOW: Duration = Duration::from_secs(30);

    fn after(seconds: u64) -> StoreTime {
        LOST.plus(Duration::from_secs(seconds))
    }

    fn asked(seconds: u64, negative: Option<u64>) -> Asked {
        let negative_since = negative.map(after);
        Asked { probe: 2, now: after(seconds), unknown_since: LOST, negative_since, sends_for: SENDS_FOR }
    }

    fn negative(asked: &Asked) -> Course {
        judge(Verdict::DidNotHappen(Some(Fence::Settled { window: WINDOW })), asked, 0.5)
    }

    fn again(seconds: u64) -> Course {
        Course::AskAgain { after: Duration::from_secs(seconds) }
    }

    #[test]
    fn first_negative_of_a_settled_fence_never_frees() {
        for seconds in [0, 9, 10, 41, 1_000_000] {
            assert_ne!(negative(&asked(seconds, None)), Course::Free, "{seconds}");
        }
    }

    #[test]
    fn window_counts_from_the_first_negative_and_from_the_last_sending() {
        assert_eq!(negative(&asked(1, None)), again(39), "sent until 10, settled at 40");
        assert_eq!(negative(&asked(20, None)), again(30), "asked at 20, again at 50");
        assert_eq!(negative(&asked(39, Some(1))), again(1));
        assert_eq!(negative(&asked(40, Some(1))), Course::Free);
        assert_eq!(negative(&asked(49, Some(20))), again(1));
        assert_eq!(negative(&asked(50, Some(20))), Course::Free);
    }

    #[test]
    fn negative_without_a_fence_frees_nothing_however_often_it_comes() {
        for probe in 1..PROBES_MAX + 3 {
            let asked = Asked { probe, ..asked(1_000_000, Some(1)) };
            let course = judge(Verdict::DidNotHappen(None), &asked, 0.0);
            assert!(matches!(course, Course::AskAgain { .. } | Course::Escalate), "{probe}: {course:?}");
        }
    }

    #[test]
    fn probes_that_say_nothing_come_to_an_end() {
        let mut waited = Duration::ZERO;
        for probe in 1..PROBES_MAX {
            let asked = Asked { probe, ..asked(5, None) };
            let Course::AskAgain { after } = judge(Verdict::Inconclusive, &asked, 0.0) else {
                panic!("probe {probe} was the last")
            };
            assert!(after >= BACKOFF.first / 2 && after <= BACKOFF.max);
            waited += after;
        }
        assert!(waited > Duration::from_secs(1800), "a restart of the authority is survived: {waited:?}");
        let last = Asked { probe: PROBES_MAX, ..asked(5, None) };
        assert_eq!(judge(Verdict::Inconclusive, &last, 0.5), Course::Escalate);
        let early = Asked { probe: PROBES_MAX, ..asked(5, Some(1)) };
        assert_eq!(negative(&early), Course::Escalate);
    }

    #[test]
    fn other_verdicts_settle_at_once() {
        let asked = asked(0, None);
        let found = Found::default();
        assert_eq!(judge(Verdict::Happened(found.clone()), &asked, 0.5), Course::Settle(found));
        assert_eq!(judge(Verdict::DidNotHappen(Some(Fence::Tombstoned)), &asked, 0.5), Course::Free);
        assert_eq!(judge(Verdict::DidNotHappen(Some(Fence::SameKey)), &asked, 0.5), Course::MayRetry);
    }
}
