//! RabbitMQ: a queue for each sender and receiver.

use std::future::pending;
use std::sync::Arc;

use async_trait::async_trait;
use onefold::inbox::Receive;
use onefold::messages::Sink;
use onefold::rabbitmq::lapin::options::QueueDeclareOptions;
use onefold::rabbitmq::lapin::types::FieldTable;
use onefold::rabbitmq::lapin::{Channel, Connection, ConnectionProperties};
use onefold::rabbitmq::{Access, RabbitConsumer, RabbitSink, Subscription};

use super::{Broker, Consuming, Manner, Route, ended};

/// The exchange without a name, which knows every queue by its own.
const EXCHANGE: &str = "";

/// At this URL.
pub(crate) struct RabbitMq(pub(crate) String);

impl RabbitMq {
    fn access(&self) -> anyhow::Result<Access> {
        Access::new(&self.0).map_err(anyhow::Error::msg)
    }

    /// For what is asked once.
    async fn asked(&self) -> anyhow::Result<(Connection, Channel)> {
        let connection = Connection::connect(&self.0, ConnectionProperties::default()).await?;
        let channel = connection.create_channel().await?;
        Ok((connection, channel))
    }
}

#[async_trait]
impl Broker for RabbitMq {
    /// Each receiver makes its queues.
    async fn prepare(&self, _routes: &[Route]) -> anyhow::Result<()> {
        Ok(())
    }

    async fn clear(&self, routes: &[Route]) -> anyhow::Result<()> {
        let (connection, channel) = self.asked().await?;
        for route in routes {
            channel.queue_delete(route.queue().into(), Default::default()).await?;
        }
        Ok(connection.close(200, "done".into()).await?)
    }

    async fn sink(&self, route: &Route) -> anyhow::Result<Arc<dyn Sink>> {
        let sink = RabbitSink::new(self.access()?, EXCHANGE).map_err(anyhow::Error::msg)?;
        Ok(Arc::new(sink.default_routing_key(route.queue())))
    }

    async fn consume(
        &self,
        route: &Route,
        manner: Manner,
        receive: Arc<dyn Receive>,
    ) -> anyhow::Result<Consuming> {
        let wish = Subscription::new(&route.queue());
        let wish = Subscription {
            source: route.sender.clone(),
            order: manner.order,
            in_flight: manner.in_flight.unwrap_or(wish.in_flight),
            ..wish
        };
        let consumer = RabbitConsumer::new(self.access()?, wish, receive);
        Ok(Box::pin(async move { ended(consumer.run(pending()).await) }))
    }

    async fn waiting(&self, routes: &[Route]) -> anyhow::Result<u64> {
        let (connection, channel) = self.asked().await?;
        let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::durable() };
        let mut waiting = 0;
        for route in routes {
            let found = channel.queue_declare(route.queue().into(), passive, FieldTable::default()).await?;
            waiting += u64::from(found.message_count());
        }
        connection.close(200, "done".into()).await?;
        Ok(waiting)
    }
}
