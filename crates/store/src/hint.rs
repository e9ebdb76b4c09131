//! A hint inside one process that messages wait to be sent. Nothing depends on it: polling alone is correct.
//!
//! A hint that is given between two looks is not missed by whoever asked for his [`Hint`] before the first.

use std::time::Duration;

use tokio::sync::watch;

/// Where hints come from.
#[derive(Debug)]
pub struct Hints(watch::Sender<u64>);

impl Default for Hints {
    fn default() -> Hints {
        Hints(watch::Sender::new(0))
    }
}

impl Hints {
    /// Messages wait.
    pub fn give(&self) {
        self.0.send_modify(|given| *given = given.wrapping_add(1));
    }

    /// The hints from now on.
    pub fn from_now_on(&self) -> Hint {
        Hint(Some(self.0.subscribe()))
    }
}

/// The hints of one store for one relay.
#[derive(Debug)]
pub struct Hint(Option<watch::Receiver<u64>>);

impl Hint {
    /// Of a store that gives none.
    pub fn never() -> Hint {
        Hint(None)
    }

    /// Waits for a hint since the last call, at most this long. True: there was one. Cancellation safe.
    pub async fn waited(&mut self, at_most: Duration) -> bool {
        if let Some(given) = &mut self.0
            && let Ok(changed) = tokio::time::timeout(at_most, given.changed()).await
        {
            if changed.is_ok() {
                return true;
            }
            // The store is closed, so it will say so at the next look; until then nobody is to spin.
            self.0 = None;
            return false;
        }
        if self.0.is_none() {
            tokio::time::sleep(at_most).await;
        }
        false
    }
}
