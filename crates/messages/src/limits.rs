//! The limits of this crate, each with its reason.

use std::time::Duration;

use onefold_core::retry::Backoff;

/// Sendings that may fail before a message is a dead letter: with the default pauses about a quarter of an hour.
pub const ATTEMPTS: u32 = 30;
/// Messages on their way to one destination at once.
pub const CONCURRENCY: u32 = 64;
/// Bytes of headers and bodies that are on their way to one destination at once, before another message is taken: so at
/// most this and one message more.
pub const ON_WAY_BYTES: u64 = 64 << 20;
/// Batches on their way to a destination that takes many messages at once: some are being sent while the store marks
/// others and gives the next.
pub(crate) const BATCHES: u32 = 4;
/// How long one sending may take.
pub const SENDING_TIMEOUT: Duration = Duration::from_secs(30);
/// What a lease is longer than a sending may take: the end of the sending is written within it.
pub const LEASE_SLACK: Duration = Duration::from_secs(15);
/// What is left of a lease at least when a sending ends, for writing its end. The rest of the slack is the store's: as long
/// as it took to give a message, the sending still has its whole time.
pub(crate) const SETTLING: Duration = Duration::from_secs(5);
/// First and longest pause between looks into an outbox where nothing waits and nobody gives a hint.
pub(crate) const POLL_MIN: Duration = Duration::from_millis(20);
pub(crate) const POLL_MAX: Duration = Duration::from_millis(500);
/// First and longest pause while the store does not answer.
pub(crate) const STORE_PAUSE_FIRST: Duration = Duration::from_millis(100);
pub(crate) const STORE_PAUSE_MAX: Duration = Duration::from_secs(10);
/// What "recent" means for the budget of a destination: after an outage its backlog begins to flow within this.
pub const BUDGET_WINDOW: Duration = Duration::from_secs(10);
/// The longest pause that a destination may ask for: what asks for more is looked at again after it.
pub const NOT_YET_MAX: Duration = Duration::from_secs(3600);
/// The pauses between connections to a broker that is away: no busy loop, and back within seconds of its return.
pub const RECONNECT: Backoff = Backoff { first: Duration::from_millis(100), max: Duration::from_secs(5) };
/// How long one look-up of an unknown message may take.
pub const LOOK_UP_TIMEOUT: Duration = Duration::from_secs(30);
/// Tries of a handler that may fail before its message is parked: with the default pauses about two minutes.
pub const PARK_AFTER: u32 = 10;
/// How long a handled message is known.
pub const RETENTION: Duration = Duration::from_secs(7 * 24 * 3600);
/// Bytes of a reason that are kept.
pub const REASON_BYTES_MAX: usize = 500;
/// How often a handler runs again at most when the database asks for it, and the first pause before that, which
/// doubles.
pub(crate) const CONTENDED_RUNS_MAX: u32 = 6;
pub(crate) const CONTENDED_PAUSE: Duration = Duration::from_millis(10);
/// How long deliveries that were counted are gathered before they are written, and of how many messages.
pub(crate) const TALLY_EVERY: Duration = Duration::from_millis(500);
pub(crate) const TALLY_MESSAGES_MAX: usize = 10_000;
/// How often a consumer looks for what was taken out of the dead list.
pub(crate) const REDRIVEN_POLL: Duration = Duration::from_secs(1);
/// Tries of a handler within a rerun, with its pauses, before the message is parked and the rerun goes on: a moment's
/// fault does not take a message out of its order, and one that is poison holds up the others for seconds.
pub(crate) const RERUN_TRIES: u32 = 3;
/// Entries that are looked at in one page.
pub(crate) const PAGE: u32 = 100;
/// How often a webhook is judged anew because others were faster.
pub(crate) const ADMIT_TRIES: u32 = 5;
/// How long the number of messages that wait for a handler is believed, and how many times longer than it took to
/// count them: a twentieth of the time at most is spent on it.
pub(crate) const ROOM_LOOK_EVERY: Duration = Duration::from_secs(1);
pub(crate) const ROOM_LOOK_SHARE: u32 = 20;
/// Bodies of conflicting webhooks that are kept beside one message: enough to see what differs.
pub(crate) const EVIDENCE_MAX: u64 = 10;
/// How long an outgoing message can be looked at after it was delivered, where nobody says otherwise.
pub const SENT_KEPT: Duration = Duration::from_secs(7 * 24 * 3600);
