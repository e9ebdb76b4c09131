//! What happens when the group shares its partitions out anew.
//!
//! All partitions are taken away at once (the eager protocol), so that nothing that is out is anybody's any more: what
//! is settled is committed, what is out is dropped, and whoever has a partition next begins behind what was committed.

use std::sync::Arc;

use rdkafka::client::ClientContext;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer, ConsumerContext, Rebalance};
use rdkafka::error::KafkaResult;
use rdkafka::{Offset, TopicPartitionList};
use tokio::sync::watch;

use crate::offsets::Offsets;

pub(crate) struct Group {
    pub(crate) topic: String,
    pub(crate) offsets: Arc<Offsets>,
    /// Counts how often partitions were taken away.
    pub(crate) revoked: watch::Sender<u64>,
}

impl ClientContext for Group {}

impl ConsumerContext for Group {
    fn pre_rebalance(&self, consumer: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        if let Rebalance::Assign(_) = rebalance {
            return;
        }
        if let Some(due) = self.due() {
            // It is sent before the group is told; where it is refused, messages come again.
            let _ = consumer.commit(&due, CommitMode::Async);
        }
        self.offsets.clear();
        self.revoked.send_modify(|times| *times += 1);
    }

    fn post_rebalance(&self, consumer: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        if let Rebalance::Assign(partitions) = rebalance {
            // They may be paused since before they were taken away.
            let _ = consumer.resume(partitions);
        }
    }

    fn commit_callback(&self, result: KafkaResult<()>, _offsets: &TopicPartitionList) {
        if let Err(error) = result {
            tracing::warn!(%error, "offsets were not committed; they are again");
            self.offsets.not_committed();
        }
    }
}

impl Group {
    /// What is to be committed, if anything is.
    pub(crate) fn due(&self) -> Option<TopicPartitionList> {
        let due = self.offsets.due();
        let mut list = TopicPartitionList::new();
        for (partition, offset) in &due {
            list.add_partition_offset(&self.topic, *partition, Offset::Offset(*offset)).ok()?;
        }
        (!due.is_empty()).then_some(list)
    }
}
