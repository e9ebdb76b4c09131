//! What an attempt reports about its effect (SEMANTICS 1 and 5).

use crate::State;

/// The verdict of an attempt.
///
/// Only [`Outcome::NotDone`] frees the operation: it is a claim that nothing happened. A time-out, a lost
/// connection, a panic and a cancelled task are [`Outcome::Unknown`] (SEMANTICS 3, rule 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The effect happened.
    Succeeded,
    /// Refused for good; no effect exists.
    Rejected,
    /// Nothing happened; the operation may be attempted again.
    NotDone,
    /// Something may have happened.
    Unknown,
}

impl Outcome {
    /// The state in which this outcome leaves the operation.
    pub const fn state(self) -> State {
        match self {
            Outcome::Succeeded => State::Succeeded,
            Outcome::Rejected => State::Rejected,
            Outcome::NotDone => State::Failed,
            Outcome::Unknown => State::OutcomeUnknown,
        }
    }
}
