//! The limits of this crate, each with its reason.

use std::time::Duration;

use onefold_core::retry::Backoff;

/// How long everything up to the final dot may take. RFC 5321 (4.5.3.2) would give minutes to each command; a server
/// that is alive answers in seconds, and until the dot giving up is harmless.
pub const UP_TO_THE_DOT: Duration = Duration::from_secs(60);
/// How long the server may take to say that it has the mail: the ten minutes of RFC 5321 (4.5.3.2.6). Giving up sooner
/// makes an unknown mail of one that is only being looked at.
pub const ANSWER_WITHIN: Duration = Duration::from_secs(600);
/// How long the farewell may take, when all has been said.
pub(crate) const FAREWELL: Duration = Duration::from_secs(1);
/// Connections to one server at once: most take ten or twenty from one client.
pub const CONNECTIONS: u32 = 8;
/// Sendings that may fail: with the pauses below about a day, as mail servers keep trying.
pub const ATTEMPTS: u32 = 30;
/// The pauses: a greylisting server wants some minutes.
pub const BACKOFF: Backoff = Backoff { first: Duration::from_secs(60), max: Duration::from_secs(2 * 3600) };
