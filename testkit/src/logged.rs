//! What is told in the log by the thread of a test.

use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use tracing::subscriber::DefaultGuard;

/// Listens to the log of this thread for as long as it is kept. A test on several threads hears only what its own says.
pub struct Logged {
    told: Told,
    _listening: DefaultGuard,
}

#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<u8>>>);

impl Write for Told {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Logged {
    /// Begins to listen.
    #[must_use]
    pub fn here() -> Logged {
        let told = Told::default();
        let into = told.clone();
        let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || into.clone());
        Logged { told, _listening: tracing::subscriber::set_default(subscriber.finish()) }
    }

    /// The warnings so far that say this.
    #[must_use]
    pub fn warnings(&self, saying: &str) -> Vec<String> {
        let told = self.told.0.lock().unwrap_or_else(PoisonError::into_inner);
        let told = String::from_utf8_lossy(&told);
        let warnings = told.lines().filter(|line| line.contains(" WARN ") && line.contains(saying));
        warnings.map(str::to_owned).collect()
    }
}
