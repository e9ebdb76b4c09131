//! The heart: what comes next after each thing that can happen to a request. No I/O, no clock, no randomness of its
//! own: time and dice come in as arguments.
//!
//! *Invariants.* A request is sent again only while [`Repeat`] makes it safe, or when nothing of it was sent. What may
//! have happened stays so until an answer settles it: a refused connection after a lost answer is still an unknown
//! outcome. A wait is never shorter than the destination asked for. Waiting for something in progress uses up no
//! attempt and gives none back. Nothing goes on past the deadline: a pause that would is not begun.

use std::time::Duration;

use crate::limits::POLLS_BEFORE_SENDING;
use crate::meaning::{Page, Reading};
use crate::policy::{Policy, Repeat};
use crate::profile::Means;

/// What happened to an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// An answer came, whole.
    Answer(Reading),
    /// No connection came about: not a byte was sent.
    NotSent,
    /// The connection broke, or the answer was cut, after bytes may have been sent.
    Lost,
    /// The attempt's own time was over after bytes may have been sent.
    TimedOut,
    /// The operation's page was read.
    Page(Page),
    /// The operation's page could not be read.
    NoPage,
}

/// What comes next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Send the same request under the same key.
    Send {
        /// After this pause.
        after: Duration,
        /// It is a retry: the destination's budget must allow it. Otherwise it was asked for.
        is_retry: bool,
    },
    /// Ask the operation's page.
    Poll {
        /// After this pause.
        after: Duration,
        /// An absolute path on the same host.
        path: String,
    },
    /// It is over.
    End(End),
}

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// What is known.
    pub verdict: Verdict,
    /// Why nothing more is tried.
    pub stopped: Stopped,
    /// When it would make sense to come back with the same key.
    pub retry_after: Option<Duration>,
    /// Whether the same intention may be tried under a new key, as far as is known: a corrected request after a
    /// rejection, or where nothing happened. False wherever a new key could be a second effect.
    pub safe_to_use_new_key: bool,
}

/// What is known about the operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It happened, and this is its answer.
    Succeeded,
    /// It will not happen: the destination's definite no.
    Rejected,
    /// Nothing happened. The same key may be used again.
    NotDone,
    /// It is still running. Come back with the same key.
    InProgress,
    /// The key was used for another request. A defect of whoever makes the keys; never sent again.
    Conflict,
    /// It may have happened. Never to be tried under a new key; come back with the same one, or ask the authority.
    OutcomeUnknown,
    /// The destination does not know the key any more: whether it happened is not known there.
    Expired,
    /// It has ended, and its answer was not kept. Look at the resource.
    AnswerNotKept,
}

impl Verdict {
    /// The word for logs and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Verdict::Succeeded => "succeeded",
            Verdict::Rejected => "rejected",
            Verdict::NotDone => "not_done",
            Verdict::InProgress => "in_progress",
            Verdict::Conflict => "conflict",
            Verdict::OutcomeUnknown => "outcome_unknown",
            Verdict::Expired => "expired",
            Verdict::AnswerNotKept => "answer_not_kept",
        }
    }

    /// The operation has ended for good: its key need not be kept.
    pub const fn is_final(self) -> bool {
        matches!(self, Verdict::Succeeded | Verdict::Rejected | Verdict::AnswerNotKept)
    }
}

/// Why nothing more is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// The answer is final.
    Final,
    /// Sending the same again does not help.
    Useless,
    /// There is no key, and bytes were sent.
    NotRepeatable,
    /// All attempts are used up.
    AttemptsSpent,
    /// The deadline is over, or would be before the next attempt.
    Deadline,
    /// The destination's retry budget is used up.
    BudgetSpent,
    /// The destination's circuit is open.
    CircuitOpen,
}

impl Stopped {
    /// The word for logs and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Stopped::Final => "final",
            Stopped::Useless => "useless",
            Stopped::NotRepeatable => "not_repeatable",
            Stopped::AttemptsSpent => "attempts_spent",
            Stopped::Deadline => "deadline",
            Stopped::BudgetSpent => "budget_spent",
            Stopped::CircuitOpen => "circuit_open",
        }
    }
}

/// What happened under the key before this call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Past {
    /// Nothing: the key was made for this call, or there is none.
    #[default]
    Fresh,
    /// Perhaps something: the key comes from elsewhere. That nothing happened is said of this call alone.
    Perhaps,
    /// The intention was begun before and not finished: there may have been attempts.
    Begun,
}

/// One operation on its way: from the first attempt to its end.
#[derive(Clone, Debug)]
pub struct Call {
    policy: Policy,
    repeat: Repeat,
    /// Attempts and retries, without what was sent because the destination asked for it.
    attempts: u32,
    past: Past,
    /// It may have happened.
    doubt: bool,
    /// It may have happened, for an attempt was lost on its way: no page of the destination knows of that one.
    lost: bool,
    /// The destination has said once already that it is settled.
    settled: bool,
    /// It was seen running.
    running: bool,
    page: Option<String>,
    polls: u32,
    said: Said,
}

/// What the last answer said about coming back.
#[derive(Clone, Copy, Debug, Default)]
struct Said {
    retry_after: Option<Duration>,
    safe_to_use_new_key: Option<bool>,
}

impl Call {
    /// Before the first attempt.
    pub fn new(policy: Policy, repeat: Repeat) -> Call {
        Call {
            policy,
            repeat,
            attempts: 1,
            past: Past::Fresh,
            doubt: false,
            lost: false,
            settled: false,
            running: false,
            page: None,
            polls: 0,
            said: Said::default(),
        }
    }

    /// What happened under the key before.
    #[must_use]
    pub fn after(self, past: Past) -> Call {
        let begun = past == Past::Begun;
        Call { past, doubt: begun, lost: begun, ..self }
    }

    /// How long the attempt that begins now may take: its own time-out or what is left, whichever is shorter.
    /// Zero: nothing is left.
    pub fn time_for_attempt(&self, elapsed: Duration) -> Duration {
        self.policy.attempt_timeout.min(self.policy.deadline.saturating_sub(elapsed))
    }

    /// What is left of the deadline.
    pub fn time_left(&self, elapsed: Duration) -> Duration {
        self.policy.deadline.saturating_sub(elapsed)
    }

    /// An event, `elapsed` after the call began. `dice` is uniform in `0.0..1.0`.
    pub fn next(&mut self, event: Event, elapsed: Duration, dice: f64) -> Next {
        match event {
            Event::Answer(reading) => self.answered(reading, elapsed, dice),
            Event::NotSent => {
                self.heard_nothing();
                self.retry(elapsed, dice)
            }
            Event::Lost | Event::TimedOut => {
                self.heard_nothing();
                (self.doubt, self.lost) = (true, true);
                match self.repeat {
                    Repeat::Never => self.end(Stopped::NotRepeatable),
                    Repeat::ByKey | Repeat::ByMethod => self.retry(elapsed, dice),
                }
            }
            Event::Page(page) => self.page_read(page, elapsed, dice),
            Event::NoPage => self.wait(elapsed, dice),
        }
    }

    /// Nothing more is tried, for a reason outside of the call.
    pub fn stop(&self, stopped: Stopped) -> End {
        let verdict = match (self.doubt, self.running) {
            (true, false) => Verdict::OutcomeUnknown,
            (_, true) => Verdict::InProgress,
            (false, false) => Verdict::NotDone,
        };
        self.ended(verdict, stopped)
    }

    fn heard_nothing(&mut self) {
        self.said = Said::default();
        self.running = false;
    }

    fn answered(&mut self, reading: Reading, elapsed: Duration, dice: f64) -> Next {
        let Reading { means, retry_after, poll, safe_to_use_new_key, settles, .. } = reading;
        self.said = Said { retry_after, safe_to_use_new_key };
        self.running = means == Means::InProgress;
        // Whoever warns of a new key knows of an attempt that may have had its effect.
        self.doubt |= safe_to_use_new_key == Some(false);
        self.page = poll.filter(|_| self.repeat == Repeat::ByKey);
        match means {
            Means::Succeeded => Next::End(self.ended(Verdict::Succeeded, Stopped::Final)),
            // After a lost attempt a bare "not found" or "exists already" may be the echo of its success.
            Means::Rejected if self.doubt && !settles => self.end(Stopped::Useless),
            Means::Rejected => Next::End(self.ended(Verdict::Rejected, Stopped::Final)),
            Means::Conflict => Next::End(self.ended(Verdict::Conflict, Stopped::Final)),
            Means::Expired => Next::End(self.ended(Verdict::Expired, Stopped::Final)),
            Means::NotKept => Next::End(self.ended(Verdict::AnswerNotKept, Stopped::Final)),
            Means::Refused => self.end(Stopped::Useless),
            Means::UnknownFinal => {
                self.doubt = true;
                self.end(Stopped::Useless)
            }
            Means::NotDone if self.repeat == Repeat::Never => self.end(Stopped::NotRepeatable),
            Means::NotDone => self.retry(elapsed, dice),
            Means::InProgress | Means::Unknown => {
                self.doubt = true;
                match (self.repeat, means == Means::InProgress || self.page.is_some()) {
                    (Repeat::Never, _) => self.end(Stopped::NotRepeatable),
                    (Repeat::ByKey | Repeat::ByMethod, true) => self.wait(elapsed, dice),
                    (Repeat::ByKey | Repeat::ByMethod, false) => self.retry(elapsed, dice),
                }
            }
        }
    }

    fn page_read(&mut self, page: Page, elapsed: Duration, dice: f64) -> Next {
        match page {
            Page::Settled if self.settled => self.retry(elapsed, dice),
            Page::Settled => {
                (self.polls, self.settled) = (0, true);
                Next::Send { after: Duration::ZERO, is_retry: false }
            }
            Page::Free => {
                self.said = Said::default();
                (self.doubt, self.running) = (self.lost, false);
                self.retry(elapsed, dice)
            }
            Page::Running { retry_after } | Page::Unknown { retry_after } => {
                self.running = matches!(page, Page::Running { .. });
                self.said.retry_after = retry_after;
                self.wait(elapsed, dice)
            }
            Page::Gone => {
                self.page = None;
                self.wait(elapsed, dice)
            }
        }
    }

    /// Waits for what runs or will be settled. Sending for what runs uses up no attempt.
    fn wait(&mut self, elapsed: Duration, dice: f64) -> Next {
        let asked = self.said.retry_after.unwrap_or(self.policy.wait_min).max(self.policy.wait_min);
        let after = self.with_jitter(asked, dice);
        if elapsed + after >= self.policy.deadline {
            return self.end(Stopped::Deadline);
        }
        match &self.page {
            Some(path) if self.polls < POLLS_BEFORE_SENDING => {
                self.polls += 1;
                Next::Poll { after, path: path.clone() }
            }
            _ if self.running => {
                self.polls = 0;
                Next::Send { after, is_retry: false }
            }
            _ => self.retry_after(Some(asked), elapsed, dice),
        }
    }

    fn retry(&mut self, elapsed: Duration, dice: f64) -> Next {
        self.retry_after(self.said.retry_after, elapsed, dice)
    }

    fn retry_after(&mut self, asked: Option<Duration>, elapsed: Duration, dice: f64) -> Next {
        if self.attempts >= self.policy.attempts_max {
            return self.end(Stopped::AttemptsSpent);
        }
        let after = match asked {
            Some(asked) => self.with_jitter(asked, dice),
            None => self.policy.backoff.pause(self.attempts - 1, dice),
        };
        if elapsed + after >= self.policy.deadline {
            return self.end(Stopped::Deadline);
        }
        self.attempts += 1;
        self.polls = 0;
        Next::Send { after, is_retry: true }
    }

    /// Never shorter than asked, and not for all at the same moment: up to a tenth longer, at least within the first
    /// pause.
    fn with_jitter(&self, asked: Duration, dice: f64) -> Duration {
        let spread = (asked / 10).max(self.policy.backoff.first);
        asked + spread.mul_f64(dice.clamp(0.0, 1.0))
    }

    fn end(&self, stopped: Stopped) -> Next {
        Next::End(self.stop(stopped))
    }

    fn ended(&self, verdict: Verdict, stopped: Stopped) -> End {
        let by_verdict = match verdict {
            Verdict::Rejected => true,
            Verdict::NotDone => self.past == Past::Fresh,
            // The document knows whether what ended was a rejection.
            Verdict::AnswerNotKept => self.said.safe_to_use_new_key == Some(true),
            Verdict::Succeeded
            | Verdict::InProgress
            | Verdict::Conflict
            | Verdict::OutcomeUnknown
            | Verdict::Expired => false,
        };
        End {
            verdict,
            stopped,
            retry_after: self.said.retry_after.filter(|_| !verdict.is_final()),
            safe_to_use_new_key: by_verdict && self.said.safe_to_use_new_key != Some(false),
        }
    }
}

#[cfg(test)]
mod tests;
