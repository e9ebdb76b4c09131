//! The relay to a broker, beside the same messages published in batches and confirmed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures_util::{StreamExt, TryStreamExt, stream};
use lapin::options::{
    BasicPublishOptions, ConfirmSelectOptions, ExchangeDeclareOptions, ExchangeDeleteOptions,
    QueueBindOptions, QueueDeclareOptions, QueueDeleteOptions, QueuePurgeOptions,
};
use lapin::types::FieldTable;
use lapin::{BasicProperties, Connection, ConnectionProperties, ExchangeKind};
use onefold_broker_nats::NatsSink;
use onefold_broker_rabbitmq::{Access, RabbitSink};
use onefold_messages::{Destination, Message, Relay, Sink};
use onefold_store::OutboxStore;

use crate::args::KeysKind;
use crate::keys::KeyMaker;
use crate::messages_calls::{DESTINATION, message};
use crate::messages_relay::{GRACE, fill};

/// Messages that are published before their confirmations are waited for.
const BATCH: usize = 256;
/// How often the broker is asked how many it has.
const LOOK: Duration = Duration::from_millis(5);
/// The stream, the queue and the exchange.
const QUEUE: &str = "onefold-bench";

/// Messages a second to a stream of NATS: published, and by the relay.
pub(crate) async fn to_nats(store: Arc<dyn OutboxStore>, messages: u32, url: &str) -> Result<(f64, f64)> {
    let client = onefold_broker_nats::connect(url, async_nats::ConnectOptions::new()).await?;
    client.flush().await.context("the NATS server does not answer")?;
    let context = async_nats::jetstream::new(client.clone());
    let (name, subjects) = (QUEUE.to_owned(), vec!["bench.>".to_owned()]);
    let stream = || async_nats::jetstream::stream::Config {
        name: name.clone(),
        subjects: subjects.clone(),
        ..Default::default()
    };
    context.create_stream(stream()).await?;
    let plain = in_batches(messages, async |batch| {
        let mut confirmations = Vec::with_capacity(batch.len());
        for one in batch {
            let mut headers = async_nats::HeaderMap::new();
            headers.insert("Nats-Msg-Id", one.id.as_str());
            confirmations.push(context.publish_with_headers(one.address, headers, one.body.into()).await?);
        }
        Ok(stream::iter(confirmations)
            .map(Ok)
            .try_for_each(async |confirmed| confirmed.await.map(drop))
            .await?)
    })
    .await?;
    context.delete_stream(&name).await?;
    let mut stored = context.create_stream(stream()).await?;
    let ours =
        relayed(store, messages, NatsSink::new(client), async || Ok(stored.info().await?.state.messages))
            .await?;
    context.delete_stream(&name).await?;
    Ok((plain, ours))
}

/// Messages a second to a durable queue of RabbitMQ: published on one channel, and by the relay.
pub(crate) async fn to_rabbitmq(store: Arc<dyn OutboxStore>, messages: u32, url: &str) -> Result<(f64, f64)> {
    let connection = Connection::connect(url, ConnectionProperties::default()).await?;
    let channel = connection.create_channel().await?;
    channel.confirm_select(ConfirmSelectOptions::default()).await?;
    let queue = || channel.queue_declare(QUEUE.into(), QueueDeclareOptions::durable(), FieldTable::default());
    queue().await?;
    // Every message comes to the queue, whatever its address.
    let options = ExchangeDeclareOptions { durable: true, ..Default::default() };
    channel.exchange_declare(QUEUE.into(), ExchangeKind::Fanout, options, FieldTable::default()).await?;
    let options = QueueBindOptions::default();
    channel.queue_bind(QUEUE.into(), QUEUE.into(), "".into(), options, FieldTable::default()).await?;
    let plain = in_batches(messages, async |batch| {
        let mut confirmations = Vec::with_capacity(batch.len());
        for one in batch {
            let properties =
                BasicProperties::default().with_message_id(one.id.as_str().into()).with_delivery_mode(2);
            let options = BasicPublishOptions::default();
            let key = one.address.as_str().into();
            let sent = channel.basic_publish(QUEUE.into(), key, options, &one.body, properties);
            confirmations.push(sent.await?);
        }
        for confirmed in confirmations {
            ensure!(confirmed.await?.is_ack(), "the server did not take a message");
        }
        Ok(())
    })
    .await?;
    channel.queue_purge(QUEUE.into(), QueuePurgeOptions::default()).await?;
    let sink =
        Access::new(url).and_then(|access| RabbitSink::new(access, QUEUE)).map_err(anyhow::Error::msg)?;
    let ours = relayed(store, messages, sink, async || Ok(u64::from(queue().await?.message_count()))).await?;
    channel.exchange_delete(QUEUE.into(), ExchangeDeleteOptions::default()).await?;
    channel.queue_delete(QUEUE.into(), QueueDeleteOptions::default()).await?;
    connection.close(200, "".into()).await?;
    Ok((plain, ours))
}

/// Messages a second that are published and confirmed, a batch after the other.
async fn in_batches(messages: u32, mut publish: impl AsyncFnMut(Vec<Message>) -> Result<()>) -> Result<f64> {
    let mut maker = KeyMaker::new(KeysKind::V4);
    let begun = Instant::now();
    let mut left = messages as usize;
    while left > 0 {
        let some = left.min(BATCH);
        let batch = (0..some).map(|_| message(&maker.uuid().to_string())).collect::<Result<_>>()?;
        publish(batch).await?;
        left -= some;
    }
    Ok(f64::from(messages) / begun.elapsed().as_secs_f64())
}

/// Messages a second that waited in the outbox, until the broker has all of them.
async fn relayed(
    store: Arc<dyn OutboxStore>,
    messages: u32,
    sink: impl Sink + 'static,
    mut stored: impl AsyncFnMut() -> Result<u64>,
) -> Result<f64> {
    fill(&*store, messages, KeysKind::V4).await?;
    let begun = Instant::now();
    let relay = Relay::start(&store, vec![Destination::new(DESTINATION, sink)]);
    while stored().await? < u64::from(messages) {
        tokio::time::sleep(LOOK).await;
    }
    let took = begun.elapsed();
    ensure!(relay.stop(GRACE).await == 0, "messages are left to their leases");
    Ok(f64::from(messages) / took.as_secs_f64())
}
