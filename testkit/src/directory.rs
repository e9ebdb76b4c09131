//! A directory for one test, kept when the test fails.
//!
//! Holds configuration, store, logs. A test that panics leaves it behind and prints its path and the end of
//! each log; a test that passes removes it.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// The directory; removed when dropped, unless the thread panics.
#[derive(Debug)]
pub struct TestDirectory {
    directory: Option<TempDir>,
    path: PathBuf,
}

const LOG_LINES_SHOWN: usize = 40;

impl TestDirectory {
    /// Makes one.
    ///
    /// # Panics
    /// When the system's directory for temporary files cannot be written.
    #[must_use]
    pub fn create() -> Self {
        let directory = TempDir::with_prefix("onefold-test-").expect("a directory for the test");
        let path = directory.path().to_owned();
        Self { directory: Some(directory), path }
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path of a file in it.
    #[must_use]
    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Lets servers that run as another user reach their folders in it.
    ///
    /// # Panics
    /// When it is no longer there.
    pub(crate) fn open_to_all(&self) {
        use std::os::unix::fs::PermissionsExt;
        let opened = std::fs::set_permissions(&self.path, std::fs::Permissions::from_mode(0o755));
        opened.expect("the test's directory is the test's");
    }

    fn show_logs(&self) {
        let Ok(entries) = std::fs::read_dir(&self.path) else { return };
        let mut logs: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        logs.retain(|path| path.extension().is_some_and(|extension| extension == "log"));
        logs.sort();
        for log in logs {
            let text = std::fs::read(&log).unwrap_or_default();
            let text = String::from_utf8_lossy(&text);
            let lines: Vec<&str> = text.lines().collect();
            eprintln!("--- the end of {}", log.display());
            for line in &lines[lines.len().saturating_sub(LOG_LINES_SHOWN)..] {
                eprintln!("{line}");
            }
        }
    }
}

impl Drop for TestDirectory {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        if let Some(directory) = self.directory.take() {
            let kept = directory.keep();
            eprintln!("--- kept for the post-mortem: {}", kept.display());
            self.show_logs();
        }
    }
}
