//! The states of an operation and the five questions that each of them answers (SEMANTICS 3).
//!
//! This is the one table: the API, the operation URL, the console and the documentation all print from it.

use std::fmt;
use std::str::FromStr;

/// Where an operation stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum State {
    /// Accepted, not begun: a worker will take it.
    Received,
    /// An attempt owns it, for as long as its lease lives.
    Processing,
    /// The effect happened; the result is the answer for every duplicate.
    Succeeded,
    /// Refused for good; the refusal is the answer for every duplicate. No effect exists.
    Rejected,
    /// Known: nothing happened. The key is free.
    Failed,
    /// Something may have happened and nobody here knows. Never repeated by itself.
    OutcomeUnknown,
}

/// May an attempt begin?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MayBegin {
    /// No.
    No,
    /// A worker may.
    ByWorker,
    /// The contract's `on_stale` says.
    ByOnStale,
    /// The caller's next request may, or the layer itself as often as the contract says.
    Yes,
    /// Only after a fenced "did not happen" or a permit.
    ByVerdictOrPermit,
}

/// May the caller use a new identity for the same intention?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewIdentity {
    /// Yes.
    Yes,
    /// Yes, with a corrected request.
    Corrected,
    /// No: wait for this one.
    No,
    /// It would be a second effect.
    SecondEffect,
    /// Danger of a second effect.
    Danger,
}

/// The answers to the five questions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answers {
    /// May an attempt begin?
    pub new_attempt: MayBegin,
    /// Is the previous result returned?
    pub previous_result: bool,
    /// Should the caller wait (or poll)?
    pub wait: bool,
    /// Does reconciliation run?
    pub reconciliation: bool,
    /// May the caller use a new identity for the same intention?
    pub new_key: NewIdentity,
}

impl Answers {
    /// The member `safe_to_use_new_key` of problem documents and operation URLs: false wherever a new key could
    /// lead to a second effect.
    pub fn safe_to_use_new_key(&self) -> bool {
        matches!(self.new_key, NewIdentity::Yes | NewIdentity::Corrected)
    }
}

impl State {
    /// Every state, in the order of the documentation.
    pub const ALL: [State; 6] = [
        State::Received,
        State::Processing,
        State::Succeeded,
        State::Rejected,
        State::Failed,
        State::OutcomeUnknown,
    ];

    /// Whether the operation has ended with a known outcome. Only then does retention run.
    pub const fn is_terminal(self) -> bool {
        matches!(self, State::Succeeded | State::Rejected | State::Failed)
    }

    /// The name in the store, in JSON and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            State::Received => "received",
            State::Processing => "processing",
            State::Succeeded => "succeeded",
            State::Rejected => "rejected",
            State::Failed => "failed",
            State::OutcomeUnknown => "outcome_unknown",
        }
    }

    /// The five answers. `lease_alive` matters while processing, `exhausted` when failed, `reconciles` says
    /// whether the contract has a reconciler.
    pub const fn answers(self, lease_alive: bool, exhausted: bool, reconciles: bool) -> Answers {
        use MayBegin as B;
        use NewIdentity as N;
        let (new_attempt, previous_result, wait, reconciliation, new_key) = match self {
            State::Received => (B::ByWorker, false, true, false, N::No),
            State::Processing if lease_alive => (B::No, false, true, false, N::No),
            State::Processing => (B::ByOnStale, false, true, reconciles, N::No),
            State::Succeeded => (B::No, true, false, false, N::SecondEffect),
            State::Rejected => (B::No, true, false, false, N::Corrected),
            State::Failed if exhausted => (B::No, true, false, false, N::Yes),
            State::Failed => (B::Yes, false, false, false, N::Yes),
            State::OutcomeUnknown => (B::ByVerdictOrPermit, false, true, reconciles, N::Danger),
        };
        Answers { new_attempt, previous_result, wait, reconciliation, new_key }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The text names no state.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no state; the states are received, processing, succeeded, rejected, failed and outcome_unknown"
)]
pub struct NotAState(pub String);

impl FromStr for State {
    type Err = NotAState;
    fn from_str(text: &str) -> Result<State, NotAState> {
        State::ALL.into_iter().find(|s| s.name() == text).ok_or_else(|| NotAState(text.to_owned()))
    }
}

impl fmt::Display for MayBegin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            MayBegin::No => "no",
            MayBegin::ByWorker => "by_worker",
            MayBegin::ByOnStale => "by_on_stale",
            MayBegin::Yes => "yes",
            MayBegin::ByVerdictOrPermit => "by_verdict_or_permit",
        })
    }
}

impl fmt::Display for NewIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NewIdentity::Yes => "yes",
            NewIdentity::Corrected => "with_a_corrected_request",
            NewIdentity::No => "no",
            NewIdentity::SecondEffect => "second_effect",
            NewIdentity::Danger => "danger_of_a_second_effect",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_is_read_back_from_its_name() {
        for state in State::ALL {
            assert_eq!(state.name().parse(), Ok(state));
        }
        assert!("done".parse::<State>().is_err());
    }

    #[test]
    fn a_new_key_is_safe_only_where_no_effect_can_exist() {
        for state in State::ALL {
            for alive in [true, false] {
                let safe = state.answers(alive, false, false).safe_to_use_new_key();
                assert_eq!(safe, matches!(state, State::Rejected | State::Failed), "{state}");
            }
        }
    }

    #[test]
    fn no_state_both_returns_a_result_and_lets_an_attempt_begin() {
        for state in State::ALL {
            for (alive, exhausted) in [(true, true), (true, false), (false, true), (false, false)] {
                let answers = state.answers(alive, exhausted, true);
                assert!(!answers.previous_result || answers.new_attempt == MayBegin::No, "{state}");
            }
        }
    }
}
