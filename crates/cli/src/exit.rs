//! Exit codes and how a failure is told (docs/command-line.md).

use std::process::ExitCode;

/// A command that could not do what it was asked.
#[derive(Debug)]
pub(crate) struct Failure {
    code: u8,
    message: String,
}

impl Failure {
    /// 1: it was tried and failed.
    pub(crate) fn failed(message: impl Into<String>) -> Failure {
        Failure { code: 1, message: message.into() }
    }

    /// 2: wrong usage or configuration.
    pub(crate) fn usage(message: impl Into<String>) -> Failure {
        Failure { code: 2, message: message.into() }
    }

    /// 69: the store or the upstream is unavailable.
    pub(crate) fn unavailable(message: impl Into<String>) -> Failure {
        Failure { code: 69, message: message.into() }
    }

    /// 75: busy, try again.
    pub(crate) fn busy(message: impl Into<String>) -> Failure {
        Failure { code: 75, message: message.into() }
    }

    /// What is wrong.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// Says on stderr what is wrong and gives the exit code.
    pub(crate) fn tell(&self) -> ExitCode {
        eprintln!("onefold: {}", self.message);
        ExitCode::from(self.code)
    }
}
