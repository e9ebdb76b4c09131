//! The clock of the wall, for the time that a webhook is signed with. Nothing else in this crate reads it.

use std::time::{SystemTime, UNIX_EPOCH};

/// Seconds since 1970. A clock that stands before it reads as 1970.
pub(crate) fn unix_s() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}
