//! The limits of the gateway, each with its reason.

use std::time::Duration;

/// A protected request up to this size is held in memory, a larger one in a spool file.
pub(crate) const REQUEST_MEMORY_MAX: usize = 256 << 10;
/// An answer of a known length up to this is recorded whole before the caller sees it; a longer one is streamed.
pub(crate) const ANSWER_HELD_MAX: u64 = 256 << 10;
/// Frames on their way to a slow caller.
pub(crate) const FRAMES_MAX: usize = 16;
/// Bytes read from a spool file at once.
pub(crate) const SPOOL_CHUNK: usize = 64 << 10;
/// A caller who takes nothing for this long is taken for gone; the recording goes on.
pub(crate) const CALLER_STALLS_MAX: Duration = Duration::from_secs(30);
/// Longest time for a connection to the upstream to be made.
pub(crate) const CONNECT_MAX: Duration = Duration::from_secs(5);
/// An idle upstream connection is not used again after this: shorter than the keep-alive of common servers (5 s), so
/// that a request is rarely written into a connection that is just being closed, which would leave it unknown.
pub(crate) const UPSTREAM_IDLE_MAX: Duration = Duration::from_secs(3);
/// Tries of a request that was provably not written, on fresh connections.
pub(crate) const UNWRITTEN_TRIES: u32 = 3;
/// After the caller was told that the answer is late, it is listened for this much longer, in upstream time-outs.
pub(crate) const LATE_TIMEOUTS: u32 = 10;
/// Longest silence in the middle of a protected request's body: it holds memory while it is read.
pub(crate) const BODY_SILENCE_MAX: Duration = Duration::from_secs(30);
/// Longest time for a connection's first bytes and for a request's head to arrive.
pub(crate) const HEAD_READ_MAX: Duration = Duration::from_secs(30);
/// Header lines of an answer from the upstream; with more the answer is lost, so this is far above what services send.
/// Not further: room for all of them (64 bytes each) is made for every answer.
pub(crate) const ANSWER_LINES_MAX: usize = 400;
/// Longest answer of a look-up that is read; a longer one says nothing.
pub(crate) const LOOK_UP_BYTES_MAX: usize = 1 << 20;
/// Longest time that the head, and then the body, of a look-up's answer may take, however patient the upstream's
/// time-out is.
pub(crate) const LOOK_UP_MAX: Duration = Duration::from_secs(10);
/// Characters of a look-up's answer that are kept as evidence.
pub(crate) const EXCERPT_CHARS_MAX: usize = 200;
/// Connections that wait to be accepted; the system may allow fewer (`net.core.somaxconn`).
pub(crate) const BACKLOG: u32 = 4096;
/// How often it is said that every place for a connection is taken.
pub(crate) const FULL_SAID_EVERY: Duration = Duration::from_secs(60);
/// The longest webhook: what the largest sender known here (GitHub) sends at most.
pub(crate) const WEBHOOK_BYTES_MAX: u64 = 25 << 20;
/// The bytes of all bodies of webhooks that are being stored at once: room for one of the longest. While a body is
/// stored there are about six copies of it, for mark and message, plain and encoded.
pub(crate) const WEBHOOK_MEMORY_MAX: u64 = 32 << 20;
/// What the bound counts in; a shorter body takes one.
pub(crate) const WEBHOOK_MEMORY_UNIT: u64 = 4 << 10;
/// How long a body waits for a place within the bound: shorter than senders wait for an answer.
pub(crate) const WEBHOOK_MEMORY_WAIT_MAX: Duration = Duration::from_secs(4);
/// The longest answer of a webhook's handler that its sender gets; a longer one is told without its body.
pub(crate) const HANDLER_ANSWER_BYTES_MAX: usize = 64 << 10;
/// How much longer than a handler may take its answer is waited for on the sender's side.
pub(crate) const HANDLER_SLACK: Duration = Duration::from_secs(2);
/// Between two looks into the outbox of a sender who waits for a handler's answer: another gateway may have had it.
pub(crate) const HANDLER_LOOK_EVERY: Duration = Duration::from_millis(250);
/// First and longest pause between failed tries of a handler: ten of them take about four minutes.
pub(crate) const HANDLER_PAUSE_FIRST: Duration = Duration::from_secs(1);
pub(crate) const HANDLER_PAUSE_MAX: Duration = Duration::from_secs(600);
/// The same where the sender is told of each failure and delivers again by itself.
pub(crate) const HANDLER_PAUSE_MAX_FORWARDED: Duration = Duration::from_secs(30);
/// Shortest and longest pause while a handler cannot be reached: nobody was asked, so nothing grows.
pub(crate) const HANDLER_AWAY_MIN: Duration = Duration::from_secs(1);
pub(crate) const HANDLER_AWAY_MAX: Duration = Duration::from_secs(5);
/// At the end of a gateway, the least time for what handlers have accepted to be noted.
pub(crate) const FORWARDING_GRACE_MIN: Duration = Duration::from_millis(500);
