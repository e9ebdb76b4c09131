//! Calls run in tasks of their own: whoever drops the future of a call cancels nothing.

use std::future::Future;

use tokio::sync::oneshot;

use crate::CallError;

/// Runs a call in a task and waits for its answer. The task is told when nobody waits any longer.
pub(crate) async fn detached<A, F>(task: impl FnOnce(Gone) -> F) -> Result<A, CallError>
where
    A: Send + 'static,
    F: Future<Output = Result<A, CallError>> + Send + 'static,
{
    let (here, gone) = oneshot::channel::<()>();
    let running = tokio::spawn(task(Gone(gone)));
    let done = running.await;
    drop(here);
    match done {
        Ok(answer) => answer,
        // The runtime is going down, or there is a bug of ours: what was begun is settled by its record.
        Err(ended) => Err(CallError::StoreUnavailable(format!("the call did not end: {ended}"))),
    }
}

/// Tells when the caller has gone away.
pub(crate) struct Gone(oneshot::Receiver<()>);

impl Gone {
    /// Pending for as long as somebody waits for the answer.
    pub(crate) async fn wait(self) {
        let _ = self.0.await;
    }
}
