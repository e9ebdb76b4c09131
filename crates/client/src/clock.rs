//! The clock of the wall: for the time that a new key carries, for the age of a kept intention, and for a
//! `Retry-After` that names a date in an answer without a `Date` of its own. Nothing else in this crate reads it;
//! deadlines and pauses are measured by tokio's `Instant`.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Time since 1970. A clock that stands before it reads as 1970.
pub(crate) fn since_epoch() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
