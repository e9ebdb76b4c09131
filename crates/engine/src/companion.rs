//! Companions: what a service writes in its own database in the commit that settles an operation (SEMANTICS 5).
//!
//! *Promises.* Whoever settles an operation that has a companion (its attempt, a late offer of its outcome, a
//! reconciler, a person through the library) does so in one transaction with it: both are committed, or neither. The
//! transition says from where it starts, so of two that settle one record one commits, and no companion twice. Where
//! the companion fails, the outcome counts as not stored: it is offered again, or the verdict is asked for again.
//!
//! *After a crash* on either side of that commit there are both or none. A companion may run again, undone before.

use std::sync::Arc;

use async_trait::async_trait;
use onefold_core::{Reconciliation, Record, State};
use onefold_store::{Advance, Advanced, Also, AtomicStore, Atomically, Entry, Read, Start, StoreError};
use tokio::time::sleep;

use crate::AtomicEngine;
use crate::atomic::Reruns;
use crate::limits::HELD_POLL_MIN;

/// What is committed with the transition that settles an operation as having happened or as refused.
#[async_trait]
pub trait Companion: Send + Sync + 'static {
    /// Carries out the transition, which settles this record, together with what goes with it.
    ///
    /// An error: neither is done, or it is not known. Cancellation: both or neither.
    async fn settle(&self, record: &Record, advance: Advance) -> Result<Advanced, StoreError>;
}

/// The work for one settling, or why it cannot be made.
type Works<W> = dyn Fn(&Record, &Advance) -> Result<W, String> + Send + Sync;

struct Rows<S: AtomicStore> {
    store: Arc<S>,
    works: Box<Works<S::Work>>,
}

impl<S: AtomicStore> AtomicEngine<S> {
    /// A companion that runs the work which is made for each settling, in one transaction with it.
    pub fn companion(
        &self,
        works: impl Fn(&Record, &Advance) -> Result<S::Work, String> + Send + Sync + 'static,
    ) -> Arc<dyn Companion> {
        Arc::new(Rows { store: self.store().clone(), works: Box::new(works) })
    }
}

/// What stands where the transition was to start.
enum Settling {
    Done(Advanced),
    Found(Box<Read>),
}

#[async_trait]
impl<S: AtomicStore> Companion for Rows<S> {
    async fn settle(&self, record: &Record, advance: Advance) -> Result<Advanced, StoreError> {
        let mut work = (self.works)(record, &advance).map_err(StoreError::Unavailable)?;
        // An attempt's own success counts more than a verdict; whether its companion has run, the record says.
        let counts_more = advance.start.also == Also::OrReconciled;
        let own = if counts_more { Start { also: Also::Nothing, ..advance.start } } else { advance.start };
        let read = match self.together(&advance, own, &mut work).await? {
            Settling::Done(advanced) => return Ok(advanced),
            Settling::Found(read) => read,
        };
        let reconciled = counts_more
            && read.record.as_ref().is_some_and(|found| {
                found.attempt == advance.start.attempt
                    && found.reconciliation == Reconciliation::Settled
                    && !found.is_expired(read.now)
            });
        match read.record.as_ref().map(|found| found.state) {
            None => Ok(Advanced::Missing),
            Some(State::Failed) if reconciled => {
                let freed = Start { states: &[State::Failed], ..own };
                match self.together(&advance, freed, &mut work).await? {
                    Settling::Done(advanced) => Ok(advanced),
                    Settling::Found(read) => self.superseded(advance, read).await,
                }
            }
            // The companion has run with the verdict: only the result is the attempt's own.
            Some(_) if reconciled => {
                let start = Start { states: &[], ..advance.start };
                self.store.advance(Advance { start, ..advance }).await
            }
            Some(_) => self.superseded(advance, read).await,
        }
    }
}

impl<S: AtomicStore> Rows<S> {
    /// Carries it out from this start, with the work.
    async fn together(
        &self,
        advance: &Advance,
        start: Start,
        work: &mut S::Work,
    ) -> Result<Settling, StoreError> {
        let entry = Entry::Settle(Box::new(Advance { start, if_superseded: None, ..advance.clone() }));
        let mut reruns = Reruns::default();
        loop {
            match self.store.atomically(entry.clone(), work).await? {
                Atomically::Committed { now, expires_at, .. } => {
                    return Ok(Settling::Done(Advanced::Done { now, expires_at }));
                }
                Atomically::Found(read) => return Ok(Settling::Found(read)),
                Atomically::Contended(why) => {
                    if !reruns.pause().await {
                        return Err(StoreError::Unavailable(why));
                    }
                }
                // Somebody settles it in this moment, in an open transaction.
                Atomically::Busy => {
                    sleep(HELD_POLL_MIN).await;
                    if !reruns.pause().await {
                        return Err(StoreError::Unavailable("others hold the operation".into()));
                    }
                }
                Atomically::NotDone => return Err(failed("it said that nothing is done".into())),
                Atomically::Stopped(why) => return Err(failed(why)),
                Atomically::KeyTooOld { .. } | Atomically::QuotaReached => {
                    return Err(StoreError::Refused("only a new operation ends so".into()));
                }
            }
        }
    }

    /// Writes the evidence and nothing else: nothing starts from no state.
    async fn superseded(&self, advance: Advance, read: Box<Read>) -> Result<Advanced, StoreError> {
        if advance.if_superseded.is_some() {
            let start = Start { states: &[], also: Also::Nothing, ..advance.start };
            self.store.advance(Advance { start, ..advance }).await?;
        }
        Ok(Advanced::Superseded(read))
    }
}

fn failed(why: String) -> StoreError {
    StoreError::Unavailable(format!("what is written with the outcome failed: {why}"))
}
