//! What a caller gets: the answer, and how the call ended.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};

use crate::OperationKey;
use crate::call::{End, Stopped, Verdict};
use crate::intentions::IntentionError;
use crate::meaning::Received;

/// An answer, byte for byte.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// Header lines.
    pub headers: HeaderMap,
    /// Trailer lines.
    pub trailers: HeaderMap,
    /// The body, at most 16 MiB of it.
    pub body: Bytes,
    /// The body is longer than that, and what is here is its beginning.
    pub is_cut: bool,
}

impl Answer {
    /// Reads it with this profile's eyes.
    pub(crate) fn received<'a>(&'a self, all_lines: &'a HeaderMap) -> Received<'a> {
        let seen = self.body.len().min(crate::limits::MEANING_BYTES_MAX);
        Received { status: self.status, headers: all_lines, body: &self.body[..seen] }
    }

    /// Header and trailer lines.
    pub(crate) fn all_lines(&self) -> HeaderMap {
        let mut lines = self.headers.clone();
        lines.extend(self.trailers.clone());
        lines
    }
}

/// How a call ended.
#[derive(Debug)]
pub struct Ended {
    /// What is known about the operation.
    pub verdict: Verdict,
    /// Why nothing more was tried.
    pub stopped: Stopped,
    /// The answer to the last attempt, unchanged; `None` when it had none.
    pub answer: Option<Answer>,
    /// The answer is that of an earlier attempt.
    pub replayed: bool,
    /// How often the request was sent.
    pub attempts: u32,
    /// When it would make sense to come back with the same key.
    pub retry_after: Option<Duration>,
    /// Whether the same intention may be tried under a new key. False wherever that could be a second effect.
    pub safe_to_use_new_key: bool,
    /// The key of all attempts.
    pub key: Option<OperationKey>,
    /// The operation is final and its kept intention could not be removed: it will be found again, with its old key.
    pub forget_error: Option<IntentionError>,
}

impl Ended {
    pub(crate) fn new(end: End, answer: Option<Answer>, replayed: bool, attempts: u32) -> Ended {
        let End { verdict, stopped, retry_after, safe_to_use_new_key } = end;
        Ended {
            verdict,
            stopped,
            answer,
            replayed,
            attempts,
            retry_after,
            safe_to_use_new_key,
            key: None,
            forget_error: None,
        }
    }

    /// The answer of an operation that was performed or rejected.
    ///
    /// # Errors
    /// Everything else, with what to do about it. An outcome that is unknown is no failure: see
    /// [`Ended::safe_to_use_new_key`].
    pub fn settled(self) -> Result<Answer, NotSettled> {
        match (self.verdict, self.answer) {
            (Verdict::Succeeded | Verdict::Rejected, Some(answer)) => Ok(answer),
            (verdict, _) => Err(NotSettled { verdict, stopped: self.stopped, attempts: self.attempts }),
        }
    }
}

/// The call ended without the operation's own answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotSettled {
    /// What is known about the operation.
    pub verdict: Verdict,
    /// Why nothing more was tried.
    pub stopped: Stopped,
    /// How often the request was sent.
    pub attempts: u32,
}

impl fmt::Display for NotSettled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.verdict {
            Verdict::Succeeded | Verdict::AnswerNotKept => "it is done, and its answer was not kept",
            Verdict::Rejected => "it was rejected",
            Verdict::NotDone => "nothing happened; it may be tried again under the same key",
            Verdict::InProgress => "it is still running; come back with the same key",
            Verdict::Conflict => "the key was used for another request",
            Verdict::OutcomeUnknown => {
                "it may or may not have happened; come back with the same key, never with a new one"
            }
            Verdict::Expired => "the key has expired, and whether it happened is not known there any more",
        })?;
        let why = match self.stopped {
            Stopped::Final => return Ok(()),
            Stopped::Useless => "the same request would be answered alike",
            Stopped::NotRepeatable => "without a key it is not sent twice",
            Stopped::AttemptsSpent => "all attempts are used up",
            Stopped::Deadline => "the deadline is over",
            Stopped::BudgetSpent => "the retry budget of this destination is used up",
            Stopped::CircuitOpen => "the circuit of this destination is open",
        };
        write!(f, " ({why}, attempts: {})", self.attempts)
    }
}

impl std::error::Error for NotSettled {}
