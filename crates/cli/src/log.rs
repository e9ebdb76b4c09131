//! Structured logs on stderr: text for a terminal, one JSON object a line for everything else.
//!
//! Only the project's own events: what libraries would say at `debug` can hold keys and credentials.

use std::io::{self, IsTerminal};

use tracing_subscriber::EnvFilter;

use crate::args::LogLevel;

/// Starts logging. Called once.
pub(crate) fn start(level: LogLevel) {
    let level = match level {
        LogLevel::Error => "error",
        LogLevel::Warn => "warn",
        LogLevel::Info => "info",
        LogLevel::Debug => "debug",
    };
    let filter = EnvFilter::new(format!("off,onefold={level}"));
    // A log that cannot be written must not take the thread down that wanted to write it.
    let subscriber =
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).log_internal_errors(false);
    if io::stderr().is_terminal() {
        subscriber.with_target(false).with_ansi(std::env::var_os("NO_COLOR").is_none()).init();
    } else {
        subscriber.json().flatten_event(true).init();
    }
}
