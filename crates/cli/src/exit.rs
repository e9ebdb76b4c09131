//! Exit codes and how a failure is told (docs/command-line.md).

use std::io::Write;
use std::process::ExitCode;

/// 65: the key was used for another request.
pub(crate) const CONFLICT: u8 = 65;
/// 69: the store or the upstream is unavailable.
pub(crate) const UNAVAILABLE: u8 = 69;
/// 75: busy, try again.
pub(crate) const BUSY: u8 = 75;
/// 76: it may or may not have happened.
pub(crate) const UNKNOWN: u8 = 76;

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
        Failure { code: UNAVAILABLE, message: message.into() }
    }

    /// 75: busy, try again.
    pub(crate) fn busy(message: impl Into<String>) -> Failure {
        Failure { code: BUSY, message: message.into() }
    }

    /// What is wrong.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// Says on stderr what is wrong and gives the exit code.
    pub(crate) fn tell(&self) -> ExitCode {
        // The exit code stands, whoever reads why.
        let _ = writeln!(std::io::stderr(), "onefold: {}", self.message);
        ExitCode::from(self.code)
    }
}
