//! The circuit of one destination: after many failures in a row it is left alone for a while, then one attempt tries.
//!
//! A failure is a connection that was refused, an answer that was lost or late, a 5xx. Everything else, a 409 or 429
//! too, shows a destination that answers. Time comes in as an argument.

use std::time::Duration;

use crate::limits;

/// When a circuit opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CircuitSettings {
    /// Failures in a row. 0: never.
    pub failures: u32,
    /// How long it rests.
    pub rest: Duration,
}

impl Default for CircuitSettings {
    fn default() -> CircuitSettings {
        CircuitSettings { failures: limits::CIRCUIT_FAILURES, rest: limits::CIRCUIT_REST }
    }
}

/// What a circuit lets through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CircuitState {
    /// Everything.
    Closed,
    /// Nothing for a while.
    Open,
    /// One attempt is trying.
    Trying,
}

#[derive(Clone, Copy, Debug)]
enum Now {
    Closed {
        failures: u32,
    },
    Open {
        until: Duration,
    },
    /// One attempt is trying; if nothing is heard of it, another may at this time.
    Trying {
        until: Duration,
    },
}

#[derive(Clone, Debug)]
pub(crate) struct Circuit {
    settings: CircuitSettings,
    now: Now,
}

impl Circuit {
    pub(crate) fn new(settings: CircuitSettings) -> Circuit {
        Circuit { settings, now: Now::Closed { failures: 0 } }
    }

    /// Whether an attempt may be sent now; otherwise how long to wait before asking again.
    pub(crate) fn admit(&mut self, now: Duration) -> Result<(), Duration> {
        match self.now {
            Now::Closed { .. } => Ok(()),
            Now::Open { until } | Now::Trying { until } if now < until => Err(until - now),
            Now::Open { .. } | Now::Trying { .. } => {
                self.now = Now::Trying { until: now + self.settings.rest };
                Ok(())
            }
        }
    }

    pub(crate) fn answered(&mut self) {
        self.now = Now::Closed { failures: 0 };
    }

    pub(crate) fn failed(&mut self, now: Duration) {
        let failures = match self.now {
            Now::Closed { failures } => failures.saturating_add(1),
            // An attempt from before it opened says nothing new.
            Now::Open { .. } => return,
            Now::Trying { .. } => self.settings.failures,
        };
        self.now = match self.settings.failures {
            most if most > 0 && failures >= most => Now::Open { until: now + self.settings.rest },
            _ => Now::Closed { failures },
        };
    }

    pub(crate) fn state(&self) -> CircuitState {
        match self.now {
            Now::Closed { .. } => CircuitState::Closed,
            Now::Open { .. } => CircuitState::Open,
            Now::Trying { .. } => CircuitState::Trying,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn open() -> Circuit {
        let mut circuit = Circuit::new(CircuitSettings { failures: 3, rest: 5 * SECOND });
        for _ in 0..3 {
            assert_eq!(circuit.admit(SECOND), Ok(()));
            circuit.failed(SECOND);
        }
        circuit
    }

    #[test]
    fn failures_in_a_row_open_it_and_an_answer_between_them_does_not() {
        assert_eq!(open().state(), CircuitState::Open);
        let mut circuit = Circuit::new(CircuitSettings { failures: 3, rest: SECOND });
        for _ in 0..9 {
            circuit.failed(SECOND);
            circuit.failed(SECOND);
            circuit.answered();
        }
        assert_eq!(circuit.state(), CircuitState::Closed);
    }

    #[test]
    fn after_its_rest_one_attempt_tries_and_decides() {
        let mut circuit = open();
        assert_eq!(circuit.admit(2 * SECOND), Err(4 * SECOND));
        assert_eq!(circuit.admit(6 * SECOND), Ok(()));
        assert_eq!(circuit.admit(6 * SECOND), Err(5 * SECOND), "one at a time");
        circuit.failed(7 * SECOND);
        assert_eq!(circuit.admit(8 * SECOND), Err(4 * SECOND));
        assert_eq!(circuit.admit(12 * SECOND), Ok(()));
        circuit.answered();
        assert_eq!(circuit.state(), CircuitState::Closed);
    }

    #[test]
    fn an_attempt_that_is_never_heard_of_again_does_not_keep_it_shut() {
        let mut circuit = open();
        assert_eq!(circuit.admit(6 * SECOND), Ok(()));
        assert_eq!(circuit.admit(11 * SECOND), Ok(()));
    }
}
