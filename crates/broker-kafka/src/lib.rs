//! Kafka: a destination of the relay ([`KafkaSink`]), and a consumer that drives a
//! [`Receive`](onefold_messages::Receive) ([`KafkaConsumer`]). Over librdkafka, which is built along.
//!
//! *Promises.* A message counts as accepted when all replicas in sync have it (`acks=all`, idempotent producer). An
//! offset is committed only when `Receive` has settled every message before it. After a crash of anybody, and after a
//! rebalance, messages come again under their id, which the inbox knows.
//!
//! *Not.* The producer's idempotence tells its own repeats apart and no other copies. Topics are not made here: their
//! partitions, replicas and retention are their owner's. Without TLS, unless the program that uses this turns
//! `rdkafka`'s on. More in `docs/brokers.md`.

mod consumer;
mod delivery;
mod offsets;
mod rebalance;
mod sink;

pub use consumer::{ConsumeError, KafkaConsumer, Subscription};
/// The client, for whoever makes topics.
pub use rdkafka;
pub use rdkafka::ClientConfig;
pub use sink::KafkaSink;
