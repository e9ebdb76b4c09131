//! The consumer's loop: a member of a group that hands messages over as places come free, and commits what is settled.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use onefold_messages::limits::RECONNECT;
use onefold_messages::{Lanes, Order, Receive};
use rdkafka::ClientConfig;
use rdkafka::consumer::{CommitMode, Consumer, StreamConsumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use crate::delivery::KafkaDelivery;
use crate::offsets::Offsets;
use crate::rebalance::Group;

/// How often offsets are committed, where there is anything new: what a killed process has settled since comes again.
const COMMIT_EVERY: Duration = Duration::from_millis(200);
/// How long the client is not read while no place is free. Then it is read on, paused, so that the group sees a live
/// member and can share its partitions out anew.
const PAUSE_AFTER: Duration = Duration::from_secs(1);

type Reader = StreamConsumer<Group>;

/// What is consumed, and how.
#[derive(Clone, Debug)]
pub struct Subscription {
    /// The topic. It should exist.
    pub topic: String,
    /// The group. Its members share the partitions, each of which one member has at a time.
    pub group: String,
    /// What the messages say as their source; ids are unique to it.
    pub source: String,
    /// What is kept in order. Messages of one key are in order only where they lie in one partition.
    pub order: Order,
    /// How many messages are worked on at once, those that wait behind others of their key included.
    pub in_flight: usize,
    /// How long handlers may take to end when the consumer stops, or loses its partitions.
    pub grace: Duration,
}

impl Subscription {
    /// One without order, 64 messages at once, a grace of 10 s, and the topic as source.
    pub fn new(topic: &str, group: &str) -> Subscription {
        Subscription {
            topic: topic.to_owned(),
            group: group.to_owned(),
            source: topic.to_owned(),
            order: Order::Free,
            in_flight: 64,
            grace: Duration::from_secs(10),
        }
    }
}

/// Why a consumer ended that was not stopped.
#[derive(Debug, thiserror::Error)]
pub enum ConsumeError {
    /// The configuration cannot be used.
    #[error("the consumer cannot be set up: {0}")]
    Setup(KafkaError),
}

/// A consumer.
pub struct KafkaConsumer {
    config: ClientConfig,
    wish: Subscription,
    receive: Arc<dyn Receive>,
}

/// Why reading ended.
enum Ended {
    Stopped,
    /// The partitions were taken away: others may come.
    Revoked,
    /// The client cannot go on.
    Fatal(KafkaError),
}

impl KafkaConsumer {
    /// Hands the messages of `wish` to `receive`. The configuration names the servers (`bootstrap.servers`) and how to
    /// get in; what the promises rest on is set here. A group that has committed nothing begins at the first message
    /// that there is, unless `auto.offset.reset` says otherwise.
    pub fn new(mut config: ClientConfig, wish: Subscription, receive: Arc<dyn Receive>) -> KafkaConsumer {
        if config.get("auto.offset.reset").is_none() {
            config.set("auto.offset.reset", "earliest");
        }
        config.set("group.id", &wish.group);
        config.set("group.protocol", "classic");
        config.set("partition.assignment.strategy", "range,roundrobin");
        config.set("enable.auto.commit", "false");
        config.set("enable.auto.offset.store", "false");
        KafkaConsumer { config, wish, receive }
    }

    /// Consumes until `stop` is ready; then lets handlers end, commits, and leaves the group. A cluster that is away is
    /// waited for. Cancellation safe: what was not committed comes again.
    pub async fn run(&self, stop: impl Future<Output = ()> + Send) -> Result<(), ConsumeError> {
        let mut stop = pin!(stop);
        let mut tries: u32 = 0;
        loop {
            let reader = self.join()?;
            let begun = Instant::now();
            let ended = loop {
                match self.read(&reader, stop.as_mut()).await {
                    Ended::Revoked => {}
                    ended => break ended,
                }
            };
            leave(reader).await;
            let Ended::Fatal(error) = ended else { return Ok(()) };
            tracing::warn!(%error, "the consumer cannot go on; another one is made");
            if begun.elapsed() > RECONNECT.max {
                tries = 0;
            }
            let pause = tokio::time::sleep(RECONNECT.pause(tries, rand::random()));
            tries = tries.saturating_add(1);
            tokio::select! {
                () = &mut stop => return Ok(()),
                () = pause => {}
            }
        }
    }

    fn join(&self) -> Result<Reader, ConsumeError> {
        let offsets = Arc::new(Offsets::default());
        let group = Group { topic: self.wish.topic.clone(), offsets, revoked: watch::Sender::new(0) };
        let reader: Reader = self.config.create_with_context(group).map_err(ConsumeError::Setup)?;
        reader.subscribe(&[&self.wish.topic]).map_err(ConsumeError::Setup)?;
        Ok(reader)
    }

    /// Reads until partitions are taken away, with lanes of its own.
    async fn read(&self, reader: &Reader, stop: std::pin::Pin<&mut impl Future<Output = ()>>) -> Ended {
        let mut lanes = Lanes::new(self.receive.clone(), self.wish.order, self.wish.in_flight.max(1));
        let ended = tokio::select! {
            () = stop => Ended::Stopped,
            ended = self.pull(reader, &mut lanes) => ended,
        };
        lanes.close(self.wish.grace).await;
        ended
    }

    async fn pull(&self, reader: &Reader, lanes: &mut Lanes<KafkaDelivery>) -> Ended {
        let group = reader.context();
        let mut revoked = group.revoked.subscribe();
        let mut commits = interval(COMMIT_EVERY);
        commits.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // Read and without a place, since then.
        let mut waiting: VecDeque<KafkaDelivery> = VecDeque::new();
        let mut since = Instant::now();
        let mut paused = false;
        loop {
            tokio::select! {
                biased;
                _ = revoked.changed() => return Ended::Revoked,
                _ = commits.tick() => {
                    if let Some(due) = group.due()
                        && let Err(error) = reader.commit(&due, CommitMode::Async)
                    {
                        tracing::warn!(%error, "offsets cannot be committed now");
                        group.offsets.not_committed();
                    }
                }
                place = lanes.place(), if !waiting.is_empty() => {
                    if let Some(delivery) = waiting.pop_front() {
                        lanes.give(delivery, place);
                    }
                    if waiting.is_empty() && paused {
                        flow(reader, true);
                        paused = false;
                    }
                }
                // Pausing throws away what the client has fetched, so not at once.
                () = sleep_until(since + PAUSE_AFTER), if !waiting.is_empty() && !paused => {
                    flow(reader, false);
                    paused = true;
                }
                message = reader.recv(), if waiting.is_empty() || paused => match message {
                    Ok(message) => {
                        let delivery = KafkaDelivery::new(&message, &self.wish.source, &group.offsets);
                        match lanes.free_place().filter(|_| waiting.is_empty()) {
                            Some(place) => lanes.give(delivery, place),
                            None => {
                                // It may also have been on its way here when the flow was stopped.
                                since = Instant::now();
                                waiting.push_back(delivery);
                            }
                        }
                    }
                    Err(error) if error.rdkafka_error_code() == Some(RDKafkaErrorCode::Fatal) => {
                        return Ended::Fatal(error);
                    }
                    Err(error) => tracing::warn!(%error, "consuming is interrupted"),
                },
            }
        }
    }
}

/// Lets messages come, or none for now.
fn flow(reader: &Reader, on: bool) {
    let changed =
        reader.assignment().and_then(|all| if on { reader.resume(&all) } else { reader.pause(&all) });
    if let Err(error) = changed {
        tracing::warn!(%error, on, "the flow of messages cannot be changed");
    }
}

/// Leaves the group, which takes the partitions away and so commits what is settled. It blocks its thread.
async fn leave(reader: Reader) {
    let _ = tokio::task::spawn_blocking(move || drop(reader)).await;
}
