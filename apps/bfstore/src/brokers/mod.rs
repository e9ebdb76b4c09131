//! The brokers that can carry events: what each is asked for here, one file for each.
//!
//! What goes from one service to another has a subject, a queue or a topic of its own at every broker.

#[cfg(feature = "kafka")]
mod kafka;
mod nats;
mod rabbitmq;

use std::sync::Arc;

use anyhow::anyhow;
use async_trait::async_trait;
use futures_util::future::BoxFuture;
use onefold::inbox::Receive;
use onefold::messages::{Order, Sink};

#[cfg(feature = "kafka")]
pub(crate) use kafka::Kafka;
pub(crate) use nats::{Nats, SERVER_REMEMBERS};
pub(crate) use rabbitmq::RabbitMq;

/// From whom to whom, at which place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// What everything of the place is named after.
    pub place: String,
    /// Who sends.
    pub sender: String,
    /// Who receives.
    pub receiver: String,
}

/// How events are consumed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manner {
    pub(crate) order: Order,
    /// How many at once, where it is not the broker crate's default.
    pub(crate) in_flight: Option<u16>,
}

/// Consumes while it is polled. Ready: it has ended for good.
pub(crate) type Consuming = BoxFuture<'static, anyhow::Error>;

/// What is asked of a broker.
#[async_trait]
pub(crate) trait Broker: Send + Sync {
    /// Makes what no service makes itself, where it is missing.
    async fn prepare(&self, routes: &[Route]) -> anyhow::Result<()>;

    /// Takes everything away, for good.
    async fn clear(&self, routes: &[Route]) -> anyhow::Result<()>;

    /// Where messages for the receiver go.
    async fn sink(&self, route: &Route) -> anyhow::Result<Arc<dyn Sink>>;

    /// The same where what is sent twice shall come twice.
    async fn sink_of_copies(&self, route: &Route) -> anyhow::Result<Arc<dyn Sink>> {
        self.sink(route).await
    }

    /// Hands over what comes.
    async fn consume(
        &self,
        route: &Route,
        manner: Manner,
        receive: Arc<dyn Receive>,
    ) -> anyhow::Result<Consuming>;

    /// How many events wait for receivers, or are with one that has not said what became of them. RabbitMQ tells those
    /// only when the receiver is gone.
    async fn waiting(&self, routes: &[Route]) -> anyhow::Result<u64>;

    /// Takes back what a receiver that is gone has said of its events, where no line to the broker can lose it. False: a
    /// line can.
    async fn take_back(&self, _route: &Route) -> anyhow::Result<bool> {
        Ok(false)
    }
}

impl Route {
    /// Its subject, queue or topic.
    pub fn queue(&self) -> String {
        format!("{}.{}.{}", self.place, self.sender, self.receiver)
    }
}

/// A consumer waits for a broker that is away, so whatever ends it is for a person.
fn ended<E: std::error::Error + Send + Sync + 'static>(consumed: Result<(), E>) -> anyhow::Error {
    match consumed {
        Err(error) => anyhow::Error::new(error),
        Ok(()) => anyhow!("the consumer was stopped"),
    }
}
