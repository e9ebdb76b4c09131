//! What has ended on a stage though nobody has ended it: a process, or a carrier of events. Nobody starts it again, since
//! whatever ends a service by itself is for a person; whoever runs the stage is told.

use std::future::{Future, pending};

use anyhow::anyhow;
use tokio::sync::watch;

/// The first of them. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Fallen(watch::Sender<Option<String>>);

impl Fallen {
    pub(super) fn tell(&self, what: String) {
        self.0.send_if_modified(|told| {
            let is_first = told.is_none();
            told.get_or_insert(what);
            is_first
        });
    }

    /// Ready when there is one.
    pub(super) fn told(&self) -> impl Future<Output = anyhow::Error> + Send + use<> {
        let mut told = self.0.subscribe();
        async move {
            let fallen = told.wait_for(Option::is_some).await.map(|told| told.clone());
            match fallen {
                Ok(Some(what)) => anyhow!(what),
                // The stage is gone, and with it everything on it.
                _ => pending().await,
            }
        }
    }
}
