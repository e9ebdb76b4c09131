//! What ends `serve` and `relay`.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exit::Failure;

/// The signals that end a process that runs until it is told to. Once they are taken they are waited for and no
/// longer end the process by themselves.
pub(crate) struct EndSignals {
    term: Signal,
    int: Signal,
}

impl EndSignals {
    pub(crate) fn take() -> Result<EndSignals, Failure> {
        let failed = |error: io::Error| Failure::failed(format!("signals cannot be waited for: {error}"));
        let term = signal(SignalKind::terminate()).map_err(failed)?;
        let int = signal(SignalKind::interrupt()).map_err(failed)?;
        Ok(EndSignals { term, int })
    }

    /// Waits for one of them, also for one that has come.
    pub(crate) async fn wait(&mut self) {
        tokio::select! {
            _ = self.term.recv() => {}
            _ = self.int.recv() => {}
        }
    }
}
