//! What the messages of a closure are tied to: the workflow and the trace of whoever asked for it.

use onefold_store_sqlite::SqliteTx;

use crate::Call;

/// What the messages of a closure are tied to.
#[derive(Clone, Debug, Default)]
pub struct Ties {
    /// The workflow.
    pub correlation_id: Option<String>,
    /// The trace.
    pub traceparent: Option<String>,
}

impl Ties {
    pub(crate) fn of(call: &Call) -> Ties {
        Ties { correlation_id: call.correlation_id.clone(), traceparent: call.traceparent.clone() }
    }

    pub(crate) fn on_sqlite(&self, tx: &mut SqliteTx<'_>) {
        tx.correlate(self.correlation_id.as_deref());
        tx.trace(self.traceparent.as_deref());
    }

    #[cfg(feature = "postgres")]
    pub(crate) fn on_postgres(&self, tx: &mut onefold_store_postgres::PostgresTx) {
        tx.correlate(self.correlation_id.as_deref());
        tx.trace(self.traceparent.as_deref());
    }
}
