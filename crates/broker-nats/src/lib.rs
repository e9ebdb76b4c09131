//! NATS JetStream: a destination of the relay ([`NatsSink`]), and a consumer that drives a
//! [`Receive`](onefold_messages::Receive) ([`NatsConsumer`]).
//!
//! *Promises.* A message counts as accepted when its stream has stored it. A delivery is acknowledged only after
//! `Receive` said so, and the server confirms that it has the acknowledgement. Nothing is ever terminated (`+TERM`).
//! After a crash of anybody a message comes again under its id, which the inbox knows.
//!
//! *Not.* The stream's window of duplicates (`Nats-Msg-Id`) saves work and promises nothing. Streams are not made here:
//! their limits and replicas are their owner's. More in `docs/brokers.md`.

mod connect;
mod consumer;
mod delivery;
mod position;
mod sink;

/// The client, whose settings and connections are taken here.
pub use async_nats;
pub use connect::{ConnectError, connect};
pub use consumer::{ConsumeError, NatsConsumer, Subscription};
pub use sink::NatsSink;
