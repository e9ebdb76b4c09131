//! RabbitMQ: a destination of the relay ([`RabbitSink`]), and a consumer that drives a
//! [`Receive`](onefold_messages::Receive) ([`RabbitConsumer`]).
//!
//! *Promises.* A message counts as accepted when the server has confirmed it and has not returned it: the server
//! confirms what no queue takes as well. A delivery is acknowledged only after `Receive` said so. Nothing is ever
//! rejected, and nothing is put back into its queue but by the end of the connection, which keeps its order. After a
//! crash of anybody a message comes again under its id, which the inbox knows.
//!
//! *Not.* The server confirms no acknowledgement: one that was lost shows as one more delivery. It knows no copies:
//! only the inbox does. More in `docs/brokers.md`.

mod access;
mod consumer;
mod delivery;
mod outgoing;
mod queue;
mod sink;

pub use access::Access;
pub use consumer::{ConsumeError, RabbitConsumer, Subscription};
/// The client, for whoever makes exchanges and queues.
pub use lapin;
pub use queue::Kind;
pub use sink::RabbitSink;
