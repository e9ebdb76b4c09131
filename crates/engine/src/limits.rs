//! The limits of one process, each with its reason.

use std::time::Duration;

use onefold_core::retry::Backoff;

/// What one process allows itself.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Live keys of one scope: beyond it new operations get `too-many-keys`. `None`: no limit, and nothing is
    /// counted; a service that makes its callers' keys itself needs none.
    pub live_keys_per_scope: Option<u64>,
    /// Duplicates that wait for one running attempt; the rest are told at once.
    pub waiters_per_key: usize,
    /// Duplicates that wait in all.
    pub waiters: usize,
    /// Bytes of finished records kept in memory.
    pub finished_bytes_max: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            live_keys_per_scope: Some(100_000),
            waiters_per_key: 100,
            waiters: 10_000,
            finished_bytes_max: 32 << 20,
        }
    }
}

/// How long a finished record may be answered from memory before the store is asked again: an erasure or another
/// process' act is seen after this at the latest.
pub(crate) const FINISHED_AGE_MAX: Duration = Duration::from_secs(5);
/// First and longest pause between looks at an attempt of another process.
pub(crate) const POLL_MIN: Duration = Duration::from_millis(20);
pub(crate) const POLL_MAX: Duration = Duration::from_millis(250);
/// The first pause between looks at a key that another process holds in an open transaction, which is mostly a short
/// one.
pub(crate) const HELD_POLL_MIN: Duration = Duration::from_millis(5);
/// How long an outcome that the store would not take is offered again in the background.
pub(crate) const OFFER_AGAIN_FOR: Duration = Duration::from_secs(600);
/// Pause between those offers, at most.
pub(crate) const OFFER_PAUSE_MAX: Duration = Duration::from_secs(5);
/// How long an attempt that was asked for and not heard of may still begin: longer than a pooler holds a statement
/// back (PgBouncer's `query_wait_timeout` is two minutes), and a connection that is gone keeps one under way.
pub(crate) const FORSAKEN_FOR: Duration = Duration::from_secs(600);
/// Such attempts that are remembered: as many as can wait for a store that has stopped answering, and some.
pub(crate) const FORSAKEN_MAX: usize = 20_000;
/// Askings that are remembered of one operation: the earliest are the ones that a pooler hands on.
pub(crate) const FORSAKEN_ASKINGS: usize = 64;
/// Such attempts that one tick of the keeper looks at, and for how long.
pub(crate) const FORSAKEN_LOOK: usize = 200;
pub(crate) const FORSAKEN_LOOK_FOR: Duration = Duration::from_millis(500);
/// Counters of this many records are kept in memory between two writes.
pub(crate) const TALLY_RECORDS_MAX: usize = 10_000;
/// How often counters are written, lost outcomes are looked for and gauges are read.
pub(crate) const KEEPER_TICK: Duration = Duration::from_secs(1);
/// How often records whose outcome is unknown are looked for to be probed.
pub(crate) const PROBE_TICK: Duration = Duration::from_secs(1);
/// Probes of one process that run at once, and that begin in one tick, for all operations together: an authority that
/// has just come back is not run over by everything that was lost meanwhile.
pub(crate) const PROBES_AT_ONCE: usize = 8;
/// What a turn to probe is longer than the probe may take: a verdict is written within it.
pub(crate) const PROBE_TURN_SLACK: Duration = Duration::from_secs(5);
/// Bytes of a verdict's reason, and of its evidence, that are kept.
pub(crate) const EVIDENCE_BYTES_MAX: usize = 500;
/// How often interrupted operations are looked for.
pub(crate) const DRIVE_TICK: Duration = Duration::from_millis(500);
/// Workflows that one process drives on at once: those of a whole outage must not run over what has just come back.
pub(crate) const DRIVEN_AT_ONCE: usize = 16;
/// The pauses between the drives of one operation.
pub(crate) const DRIVE_BACKOFF: Backoff =
    Backoff { first: Duration::from_millis(500), max: Duration::from_secs(30) };
/// Interrupted operations that one look sees. One that is interrupted again goes to the end of the line.
pub(crate) const INTERRUPTED_LOOK: u32 = 256;
/// Records that one call of a sweep may change.
pub(crate) const SWEEP_LIMIT: u32 = 100;
/// Versions that one call looks through, and calls in one sweep: ten thousand a sweep, so that a million are looked
/// through within two hours, and the rows that are only read cost next to nothing.
pub(crate) const VERSIONS_LOOK: u32 = 500;
pub(crate) const VERSIONS_STEPS_MAX: u32 = 20;
/// After each such call the sweeper rests for so many times as long as the call took: a sweep has a fifth of the
/// store's time at most.
pub(crate) const SWEEP_REST: u32 = 4;
/// But not longer than this: a store that is slow is to be swept all the same, and a turn to sweep is not to end.
pub(crate) const SWEEP_REST_MAX: Duration = Duration::from_secs(1);
/// How often a work of atomic mode runs at most when the database asks for it again.
pub(crate) const CONTENDED_RUNS_MAX: u32 = 6;
/// The first pause before that, at most; it doubles.
pub(crate) const RERUN_PAUSE: Duration = Duration::from_millis(10);
