//! A second process of a test, that is killed in the middle: the test's own binary, whose test `child` works on the same
//! store and stands still where it is to be killed.
//!
//! In the binary stands, for the second process alone:
//!
//! ```no_run
//! # async fn child() {
//! let Some(store) = onefold_testkit::SecondProcess::store() else { return };
//! // … works on the store until the moment that the test is about …
//! onefold_testkit::SecondProcess::stand().await;
//! # }
//! ```

use std::path::Path;
use std::process::{Child, Command};

use crate::directory::TestDirectory;
use crate::wait;

const STORE: &str = "ONEFOLD_TEST_STORE";
const STANDS: &str = "ONEFOLD_TEST_STANDS";

/// The second process; killed when it is dropped.
#[derive(Debug)]
pub struct SecondProcess {
    child: Child,
    _directory: TestDirectory,
}

impl SecondProcess {
    /// Starts it on this store and waits until it stands.
    ///
    /// # Panics
    /// When it does not come there in time.
    pub async fn standing(store_url: &str) -> Self {
        let directory = TestDirectory::create();
        let stands = directory.file("stands");
        let own = std::env::current_exe().expect("the test's own path");
        let child = Command::new(own)
            .args(["--exact", "child", "--nocapture"])
            .env(STORE, store_url)
            .env(STANDS, &stands)
            .spawn()
            .expect("the test's own binary starts");
        let second = Self { child, _directory: directory };
        wait::until("the second process stands", || stands.exists()).await;
        second
    }

    /// In the second process: the store that it works on. `None` in every other one.
    #[must_use]
    pub fn store() -> Option<String> {
        std::env::var(STORE).ok()
    }

    /// In the second process: says that it stands, and never ends.
    ///
    /// # Panics
    /// In every other one.
    pub async fn stand() {
        let stands = std::env::var(STANDS).expect("it is the second process");
        std::fs::write(Path::new(&stands), []).expect("the test's folder is there");
        std::future::pending::<()>().await;
    }
}

impl Drop for SecondProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
