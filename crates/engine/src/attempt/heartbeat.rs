//! A running attempt renews its lease; the first renewal that is refused is its last.

use std::sync::Arc;
use std::time::Duration;

use onefold_core::{OperationId, State};
use onefold_store::{Advance, Advanced, Also, Read, Start, Step};
use tokio::time::{Instant, sleep};

use crate::Engine;
use crate::flight::Flight;

pub(crate) fn renewal(id: OperationId, attempt: u32, lease: Duration) -> Advance {
    let start = Start { states: &[State::Processing], attempt, also: Also::Nothing };
    Advance { id, start, step: Step::Renew { lease }, event: None, if_superseded: None }
}

/// Renews the lease at once and from then on.
pub(super) async fn heartbeat(
    engine: Engine,
    id: OperationId,
    attempt: u32,
    lease: Duration,
    flight: Arc<Flight>,
) {
    loop {
        let from = Instant::now();
        match engine.0.store.advance(renewal(id, attempt, lease)).await {
            Ok(Advanced::Done { .. }) => flight.renewed(from + lease),
            Ok(Advanced::Superseded(read)) => {
                engine.0.signals.fenced_write();
                tracing::warn!(operation = %id, attempt, "the attempt was superseded while it was running");
                let Read { now, record } = *read;
                if let Some(record) = record {
                    engine.0.flights.taken(record, now);
                }
                return;
            }
            Ok(Advanced::Missing) => return engine.0.signals.fenced_write(),
            Err(error) => {
                engine.0.signals.store_error();
                tracing::warn!(operation = %id, attempt, %error, "the lease could not be renewed");
            }
        }
        sleep(lease / 3).await;
    }
}
