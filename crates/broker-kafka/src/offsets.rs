//! How far each partition is settled.
//!
//! Messages are settled in any order, and an offset that is committed speaks for all before it. So the offset of a
//! partition is that of its first message that is out, or the one behind the last where none is out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

/// The partitions that are consumed now.
#[derive(Default)]
pub(crate) struct Offsets(Mutex<BTreeMap<i32, Partition>>);

#[derive(Default)]
struct Partition {
    /// Given out and not settled.
    out: BTreeSet<i64>,
    /// Behind the last that was given out.
    next: i64,
    /// What was committed last, as far as this knows.
    committed: Option<i64>,
}

impl Partition {
    fn settled(&self) -> i64 {
        self.out.first().copied().unwrap_or(self.next)
    }
}

impl Offsets {
    /// A message is given out.
    pub(crate) fn give(&self, partition: i32, offset: i64) {
        let mut partitions = self.0.lock().expect("nobody panics under it");
        let partition = partitions.entry(partition).or_default();
        partition.out.insert(offset);
        partition.next = offset + 1;
    }

    /// A message is settled. One of a former assignment says something true as well: its effect is committed.
    pub(crate) fn settle(&self, partition: i32, offset: i64) {
        if let Some(partition) = self.0.lock().expect("nobody panics under it").get_mut(&partition) {
            partition.out.remove(&offset);
        }
    }

    /// What is to be committed: partitions with the offset behind what is settled, where that is new.
    pub(crate) fn due(&self) -> Vec<(i32, i64)> {
        let mut partitions = self.0.lock().expect("nobody panics under it");
        let mut due = Vec::new();
        for (number, partition) in partitions.iter_mut() {
            let settled = partition.settled();
            if partition.committed != Some(settled) {
                partition.committed = Some(settled);
                due.push((*number, settled));
            }
        }
        due
    }

    /// A commit did not reach the cluster: everything is due again.
    pub(crate) fn not_committed(&self) {
        for partition in self.0.lock().expect("nobody panics under it").values_mut() {
            partition.committed = None;
        }
    }

    /// The partitions are somebody else's from now on, or begin again.
    pub(crate) fn clear(&self) {
        self.0.lock().expect("nobody panics under it").clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_committed_beyond_what_is_out() {
        let offsets = Offsets::default();
        for offset in [5, 6, 8] {
            offsets.give(0, offset);
        }
        assert_eq!(offsets.due(), [(0, 5)]);
        offsets.settle(0, 6);
        assert_eq!(offsets.due(), []);
        offsets.settle(0, 5);
        assert_eq!(offsets.due(), [(0, 8)]);
        offsets.settle(0, 8);
        assert_eq!(offsets.due(), [(0, 9)]);
    }

    #[test]
    fn a_commit_that_was_lost_is_due_again_and_a_former_assignment_is_forgotten() {
        let offsets = Offsets::default();
        offsets.give(1, 0);
        assert_eq!(offsets.due(), [(1, 0)]);
        offsets.not_committed();
        assert_eq!(offsets.due(), [(1, 0)]);
        offsets.clear();
        offsets.settle(1, 0);
        assert_eq!(offsets.due(), []);
    }
}
