//! One delivery of a message at a time in this process. Others would only wait in the database, on a connection each;
//! the database is the judge all the same.

use std::collections::HashMap;
use std::sync::Arc;

use onefold_core::OperationId;
use parking_lot::Mutex;
use tokio::sync::{Mutex as Turn, OwnedMutexGuard};

#[derive(Default)]
pub(crate) struct Locks(Mutex<HashMap<OperationId, Arc<Turn<()>>>>);

/// A message's turn, or the wait for it; given up when dropped.
pub(crate) struct Held<'l> {
    locks: &'l Locks,
    id: OperationId,
    turn: Option<Arc<Turn<()>>>,
    guard: Option<OwnedMutexGuard<()>>,
}

impl Locks {
    /// Waits until no other delivery of this message is being handled here. Cancellation safe.
    pub(crate) async fn take(&self, id: OperationId) -> Held<'_> {
        let turn = self.0.lock().entry(id).or_default().clone();
        let mut held = Held { locks: self, id, turn: Some(turn.clone()), guard: None };
        held.guard = Some(turn.lock_owned().await);
        held
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        (self.guard, self.turn) = (None, None);
        let mut turns = self.locks.0.lock();
        // Nobody else has it, and nobody can come by it but under this lock.
        if turns.get(&self.id).is_some_and(|turn| Arc::strong_count(turn) == 1) {
            turns.remove(&self.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    fn id(n: u8) -> OperationId {
        OperationId::from_bytes([n; 32])
    }

    #[tokio::test]
    async fn one_message_waits_for_itself_and_for_no_other() {
        let locks = Locks::default();
        let first = locks.take(id(1)).await;
        let _other = locks.take(id(2)).await;
        assert!(locks.take(id(1)).now_or_never().is_none());
        drop(first);
        assert!(locks.take(id(1)).now_or_never().is_some());
    }

    #[tokio::test]
    async fn nothing_is_left_of_turns_that_ended_or_were_given_up() {
        let locks = Locks::default();
        let first = locks.take(id(1)).await;
        let mut waits = Box::pin(locks.take(id(1)));
        assert!((&mut waits).now_or_never().is_none());
        drop(first);
        drop(waits);
        assert!(locks.0.lock().is_empty());
    }
}
