//! What operators are shown of a store: findings of a check, and what stands in it.

use onefold_core::State;

use crate::Survey;

/// How grave a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gravity {
    /// As it should be.
    Fine,
    /// Something acknowledged can be lost, or something grows.
    Warning,
    /// The store cannot be used.
    Failure,
}

/// What was looked at, and what was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What was looked at, in one word.
    pub what: &'static str,
    /// How it is.
    pub gravity: Gravity,
    /// In words.
    pub says: String,
}

impl Finding {
    /// Something was looked at and seen.
    pub fn new(what: &'static str, gravity: Gravity, says: impl Into<String>) -> Finding {
        Finding { what, gravity, says: says.into() }
    }
}

/// What stands in a store. Counted by walking over it, beside the requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inventory {
    /// How many records are in each state, tombstones apart.
    pub by_state: Vec<(State, u64)>,
    /// Records that have expired and are kept as a bare fact.
    pub tombstones: u64,
    /// What each table takes with its indexes, in bytes.
    pub bytes_by_table: Vec<(String, u64)>,
    /// What is open, and how far the sweeper is behind.
    pub survey: Survey,
}
