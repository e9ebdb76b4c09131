//! The limits of this crate, each with its reason.

use std::time::Duration;

/// Attempts for one operation, the first one included. Four tries within a minute get over a restart or a lost
/// packet; what lasts longer is a matter for a queue, not for a caller who waits.
pub const ATTEMPTS_MAX: u32 = 4;
/// How long one operation may take in all: what a caller's own caller will still wait for.
pub const DEADLINE: Duration = Duration::from_secs(60);
/// How long one attempt may take: longer than the gateway lets a duplicate wait (5 s), shorter than the deadline.
pub const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(20);
/// The upper end of the first pause: a blip is over by then.
pub const PAUSE_FIRST: Duration = Duration::from_millis(200);
/// The upper end of every pause that nobody asked for.
pub const PAUSE_MAX: Duration = Duration::from_secs(10);
/// The shortest wait for something that is in progress where its answer names none.
pub const WAIT_MIN: Duration = Duration::from_secs(1);
/// Longer waits than this are not believed: the answer says when to come back, and somebody else may do so.
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(24 * 3600);
/// Polls of an operation's page before the request itself is sent again: a page that never settles (a lapsed lease
/// under `on_stale = "resume"`) settles by the next request only.
pub const POLLS_BEFORE_SENDING: u32 = 5;

/// Bytes of an answer that are read to learn what it means. Problem documents are far smaller.
pub const MEANING_BYTES_MAX: usize = 64 * 1024;
/// Bytes of an answer that are kept in memory. A larger one is cut: what it does not say is not guessed.
pub const ANSWER_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Bytes of a request that a tower layer keeps so that it can be sent again.
pub const REQUEST_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Failures in a row that open a circuit. More than the attempts of one operation: one caller's bad luck opens none.
pub const CIRCUIT_FAILURES: u32 = 20;
/// How long an open circuit rests before one attempt may try.
pub const CIRCUIT_REST: Duration = Duration::from_secs(5);
/// Destinations that are remembered. The one that was not used for longest is forgotten.
pub const DESTINATIONS_MAX: usize = 1024;

/// Intentions in one journal. More open ones than this means that nobody finishes them.
pub const INTENTIONS_MAX: usize = 100_000;
/// Bytes of an intention's name.
pub const INTENTION_NAME_BYTES_MAX: usize = 1024;
/// Finished entries in a journal before it is written anew.
pub const JOURNAL_DEAD_MAX: usize = 10_000;
