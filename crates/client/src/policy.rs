//! How long and how often: the bounds of one operation.

use std::time::Duration;

use http::Method;
use onefold_core::retry::Backoff;

use crate::limits;

/// The bounds of one operation. Whatever is reached first ends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Attempts in all, the first one included. Waiting for something in progress is not an attempt, and gives none
    /// back.
    pub attempts_max: u32,
    /// How long everything may take: attempts, pauses, waits. It shortens the last attempts.
    pub deadline: Duration,
    /// How long one attempt may take.
    pub attempt_timeout: Duration,
    /// Pauses that nobody asked for: exponential with full jitter.
    pub backoff: Backoff,
    /// The shortest wait for something in progress where its answer names none.
    pub wait_min: Duration,
}

impl Default for Policy {
    fn default() -> Policy {
        Policy {
            attempts_max: limits::ATTEMPTS_MAX,
            deadline: limits::DEADLINE,
            attempt_timeout: limits::ATTEMPT_TIMEOUT,
            backoff: Backoff { first: limits::PAUSE_FIRST, max: limits::PAUSE_MAX },
            wait_min: limits::WAIT_MIN,
        }
    }
}

/// What makes it safe to send a request again after its bytes were sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    /// Its key: the destination tells a repetition from a new request.
    ByKey,
    /// Its method: GET, HEAD, OPTIONS, TRACE, PUT, DELETE (RFC 9110, 9.2.2).
    ByMethod,
    /// Nothing: it is sent again only when no byte of it was sent.
    Never,
}

impl Repeat {
    /// For this request.
    pub fn of(method: &Method, has_key: bool) -> Repeat {
        match has_key {
            true => Repeat::ByKey,
            false if method.is_idempotent() => Repeat::ByMethod,
            false => Repeat::Never,
        }
    }
}
