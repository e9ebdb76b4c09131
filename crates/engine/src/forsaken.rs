//! Attempts that this process asked for without hearing the answer, and that nobody performs.
//!
//! The store may have begun such an attempt all the same, or begin it later: a pooler hands on what it holds once its
//! server is back. Its caller was told that nothing ran, and only this process knows that to be true. So whenever it
//! sees the record, in the keeper's loop or under the next request, it says that this attempt did nothing, and the key
//! is free again. What is remembered is in memory and bounded: after a crash, or beyond the bounds, such an attempt is
//! left to its lease and becomes `outcome_unknown`. Attempts that follow a lost outcome are not remembered, since
//! nothing that they did not do says that nothing happened.
//!
//! Each asking has a number of its own in the owner that it writes: most requests ask for the first attempt whether or
//! not there is one, and one that was performed is never taken for one that was asked for. Whoever withdraws leads the
//! operation's flight, so one of this process at a time asks the store about it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use onefold_core::{Kept, OperationId, Record, State};
use onefold_store::{Advance, Advanced, Also, Start, Step};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::flight::Joined;
use crate::limits::{FORSAKEN_ASKINGS, FORSAKEN_FOR, FORSAKEN_LOOK, FORSAKEN_MAX};
use crate::{Engine, Refusal};

struct One {
    attempt: u32,
    /// Of the askings for it.
    numbers: Vec<u64>,
    since: Instant,
    looked: Instant,
}

#[derive(Default)]
pub(crate) struct Forsaken {
    asked: AtomicU64,
    map: Mutex<HashMap<OperationId, One>>,
}

/// An attempt that is being asked for. It is forsaken when this is dropped before the answer was heard.
pub(crate) struct Asking<'f> {
    forsaken: &'f Forsaken,
    id: OperationId,
    attempt: u32,
    number: u64,
    heard: bool,
}

/// Whether this owner of a record is this process, in one of its askings or not.
pub(crate) fn is_of(owner: &str, process: &str) -> bool {
    owner == process || number(owner, process).is_some()
}

/// Of the asking that has written this owner.
fn number(owner: &str, process: &str) -> Option<u64> {
    u64::from_str_radix(owner.strip_prefix(process)?.strip_prefix('-')?, 16).ok()
}

impl Forsaken {
    pub(crate) fn asking(&self, id: OperationId, attempt: u32) -> Asking<'_> {
        let number = self.asked.fetch_add(1, Ordering::Relaxed);
        Asking { forsaken: self, id, attempt, number, heard: false }
    }

    fn note(&self, id: OperationId, attempt: u32, number: u64) {
        let now = Instant::now();
        let mut map = self.map.lock();
        if map.len() >= FORSAKEN_MAX && !map.contains_key(&id) {
            return;
        }
        let one = map.entry(id).or_insert(One { attempt, numbers: Vec::new(), since: now, looked: now });
        if one.numbers.len() < FORSAKEN_ASKINGS {
            one.numbers.push(number);
        }
        (one.attempt, one.since) = (one.attempt.max(attempt), now);
    }

    /// None of the askings can begin any more.
    fn forget(&self, id: OperationId) {
        self.map.lock().remove(&id);
    }

    /// Whether this record, as the store has it, is an attempt that nobody performs.
    fn has(&self, record: &Record, process: &str) -> bool {
        let Some(number) = number(&record.owner, process) else { return false };
        matches!(record.state, State::Processing | State::OutcomeUnknown)
            && self.map.lock().get(&record.id).is_some_and(|one| one.numbers.contains(&number))
    }

    /// Those that were not looked at for longest.
    fn next(&self) -> Vec<(OperationId, u32)> {
        let now = Instant::now();
        let mut map = self.map.lock();
        map.retain(|_, one| now < one.since + FORSAKEN_FOR);
        let mut all: Vec<_> = map.iter().map(|(id, one)| (one.looked, *id, one.attempt)).collect();
        all.sort_unstable_by_key(|(looked, ..)| *looked);
        all.truncate(FORSAKEN_LOOK);
        for (_, id, _) in &all {
            map.entry(*id).and_modify(|one| one.looked = now);
        }
        all.into_iter().map(|(_, id, attempt)| (id, attempt)).collect()
    }
}

impl Asking<'_> {
    /// What it writes as the record's owner.
    pub(crate) fn owner(&self, process: &str) -> String {
        format!("{process}-{:x}", self.number)
    }

    /// The answer was heard, whatever it is.
    pub(crate) fn heard(mut self) {
        self.heard = true;
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        if !self.heard {
            self.forsaken.note(self.id, self.attempt, self.number);
        }
    }
}

impl Engine {
    /// Whether the record is an attempt of this process that nobody performs. To be asked by whoever leads its flight.
    pub(crate) fn is_forsaken(&self, record: &Record) -> bool {
        self.0.forsaken.has(record, &self.0.owner)
    }

    /// Says that such an attempt did nothing. To be called by whoever leads its flight.
    pub(crate) async fn withdraw(&self, record: &Record) -> Result<(), Refusal> {
        let states = &[State::Processing, State::OutcomeUnknown];
        let start = Start { states, attempt: record.attempt, also: Also::Nothing };
        let step = Step::Settle { state: State::Failed, kept: Kept::Nothing, resource: None };
        let advance = Advance { id: record.id, start, step, event: None, if_superseded: None };
        if let Advanced::Done { .. } = self.answered(self.0.store.advance(advance).await)? {
            let (id, attempt) = (record.id, record.attempt);
            tracing::info!(operation = %id, attempt, "an attempt whose beginning was not heard of was withdrawn");
        }
        self.0.forsaken.forget(record.id);
        Ok(())
    }

    /// Looks whether forsaken attempts have begun all the same.
    pub(crate) async fn look_for_forsaken(&self) {
        for (id, attempt) in self.0.forsaken.next() {
            // Whoever leads looks at the record as well.
            let Joined::Leader(_leader) = self.0.flights.join(id) else { continue };
            let Ok(read) = self.answered(self.0.store.read(id).await) else { return };
            let Some(record) = read.record else { continue };
            if self.is_forsaken(&record) {
                if self.withdraw(&record).await.is_err() {
                    return;
                }
            } else if record.attempt >= attempt {
                // It can never begin any more.
                self.0.forsaken.forget(id);
            }
        }
    }
}
