//! NATS JetStream: one stream for each place, in it a subject for each sender and receiver.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::TryStreamExt;
use onefold::inbox::Receive;
use onefold::messages::{MESSAGE_ID, Message, ORDERING_KEY, Sending, Sink};
use onefold::nats::async_nats::jetstream::Context;
use onefold::nats::async_nats::jetstream::stream::Config;
use onefold::nats::async_nats::{Client, ConnectOptions, HeaderMap};
use onefold::nats::{NatsConsumer, NatsSink, Subscription, async_nats};

use super::{Broker, Consuming, Manner, Route, ended};

/// How long the server itself knows the ids that it has taken.
pub(crate) const SERVER_REMEMBERS: Duration = Duration::from_secs(1);

/// At this URL.
pub(crate) struct Nats(pub(crate) String);

impl Nats {
    async fn connected(&self) -> anyhow::Result<Client> {
        Ok(onefold::nats::connect(&self.0, ConnectOptions::new()).await?)
    }

    /// For what is asked once, of a server that is there.
    async fn jetstream(&self) -> anyhow::Result<Context> {
        Ok(async_nats::jetstream::new(async_nats::connect(&self.0).await?))
    }
}

#[async_trait]
impl Broker for Nats {
    async fn prepare(&self, routes: &[Route]) -> anyhow::Result<()> {
        let Some(Route { place, .. }) = routes.first() else { return Ok(()) };
        let stream = Config {
            name: place.clone(),
            subjects: vec![format!("{place}.>")],
            // The server's own memory of ids is short-lived anyway; what protects is the mark of each receiver.
            duplicate_window: SERVER_REMEMBERS,
            ..Config::default()
        };
        self.jetstream().await?.get_or_create_stream(stream).await?;
        Ok(())
    }

    async fn clear(&self, routes: &[Route]) -> anyhow::Result<()> {
        let Some(Route { place, .. }) = routes.first() else { return Ok(()) };
        self.jetstream().await?.delete_stream(place).await?;
        Ok(())
    }

    async fn sink(&self, route: &Route) -> anyhow::Result<Arc<dyn Sink>> {
        Ok(Arc::new(NatsSink::new(self.connected().await?).default_subject(route.queue())))
    }

    async fn sink_of_copies(&self, route: &Route) -> anyhow::Result<Arc<dyn Sink>> {
        let context = async_nats::jetstream::new(self.connected().await?);
        Ok(Arc::new(Copies { context, subject: route.queue() }))
    }

    async fn consume(
        &self,
        route: &Route,
        manner: Manner,
        receive: Arc<dyn Receive>,
    ) -> anyhow::Result<Consuming> {
        let wish = Subscription::new(&route.place, &format!("{}-{}", route.sender, route.receiver));
        let wish = Subscription {
            filter: Some(route.queue()),
            source: route.sender.clone(),
            order: manner.order,
            in_flight: manner.in_flight.map_or(wish.in_flight, usize::from),
            ..wish
        };
        let consumer = NatsConsumer::new(self.connected().await?, wish, receive);
        Ok(Box::pin(async move { ended(consumer.run(pending()).await) }))
    }

    async fn waiting(&self, routes: &[Route]) -> anyhow::Result<u64> {
        let Some(Route { place, .. }) = routes.first() else { return Ok(0) };
        let mut waiting = 0;
        let mut consumers = self.jetstream().await?.get_stream(place).await?.consumers();
        while let Some(consumer) = consumers.try_next().await? {
            waiting += consumer.num_pending + consumer.num_ack_pending as u64;
        }
        Ok(waiting)
    }
}

/// Publishes without naming the id to the server, which would forget the second of two that name it.
struct Copies {
    context: Context,
    subject: String,
}

#[async_trait]
impl Sink for Copies {
    async fn send(&self, message: &Message) -> Sending {
        let mut headers = HeaderMap::new();
        headers.insert(MESSAGE_ID, message.id.as_str());
        message.ordering_key.iter().for_each(|key| headers.insert(ORDERING_KEY, key.as_str()));
        message.headers.iter().for_each(|(name, value)| headers.insert(name.as_str(), value.as_str()));
        let body = message.body.clone().into();
        let published =
            async { self.context.publish_with_headers(self.subject.clone(), headers, body).await?.await };
        match published.await {
            Ok(_) => Sending::Accepted,
            Err(error) => Sending::Failed { reason: error.to_string() },
        }
    }
}
