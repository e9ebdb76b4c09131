//! Where a consumer stands in its stream.
//!
//! Without order it is one durable of the given name, which any number of processes share.
//!
//! With order that would not do: what was delivered to a process that died comes again only after `ack_wait`, and what
//! stands behind it comes at once. So each process makes a durable of its own, *name-random*, that begins behind the
//! acknowledged start of the one before, and takes that one away afterwards. Everything that is not acknowledged comes
//! again in the stream's order, some of it as duplicates. The process before finds its durable gone and gives up.
//! A crash between the two leaves both, and the newest counts.

use std::time::Duration;

use async_nats::jetstream::consumer::pull::Config;
use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy, Info, PullConsumer};
use async_nats::jetstream::stream::Stream;
use futures_util::TryStreamExt;

use crate::consumer::{ConsumeError, Subscription};

/// How many deliveries may be out at all processes of a durable without order.
const PENDING_MAX: i64 = 10_000;
const RANDOM_DIGITS: usize = 16;

/// The durable that all share.
pub(crate) async fn shared(stream: &Stream, wish: &Subscription) -> Result<PullConsumer, ConsumeError> {
    let config = config(wish, wish.durable.clone(), DeliverPolicy::All, PENDING_MAX);
    let consumer =
        stream.get_or_create_consumer(&wish.durable, config).await.map_err(ConsumeError::server)?;
    let most = consumer.cached_info().config.max_deliver;
    if most > 0 {
        return Err(ConsumeError::Drops { durable: wish.durable.clone(), most });
    }
    Ok(consumer)
}

/// A durable of one's own, behind what was acknowledged before.
pub(crate) async fn own(stream: &Stream, wish: &Subscription) -> Result<PullConsumer, ConsumeError> {
    let before = generations(stream, wish).await?;
    let from = before.last().map_or(DeliverPolicy::All, |newest| {
        let begun = match newest.config.deliver_policy {
            DeliverPolicy::ByStartSequence { start_sequence } => start_sequence,
            _ => 1,
        };
        DeliverPolicy::ByStartSequence { start_sequence: begun.max(newest.ack_floor.stream_sequence + 1) }
    });
    let name = format!("{}-{:0RANDOM_DIGITS$x}", wish.durable, rand::random::<u64>());
    let pending = i64::try_from(wish.in_flight).unwrap_or(i64::MAX);
    let config = config(wish, name.clone(), from, pending);
    let consumer = stream.create_consumer(config).await.map_err(ConsumeError::server)?;
    let now = generations(stream, wish).await?;
    let mine = now.iter().position(|found| found.name == name).ok_or(ConsumeError::Superseded)?;
    if mine + 1 < now.len() {
        return Err(ConsumeError::Superseded);
    }
    for older in &now[..mine] {
        // One that stays is taken away by the next.
        if let Err(error) = stream.delete_consumer(&older.name).await {
            tracing::warn!(%error, consumer = older.name, "a durable of a former process was not deleted");
        }
    }
    Ok(consumer)
}

/// The durables of this name, the newest last.
async fn generations(stream: &Stream, wish: &Subscription) -> Result<Vec<Info>, ConsumeError> {
    let all: Vec<Info> = stream.consumers().try_collect().await.map_err(ConsumeError::server)?;
    let ours = |name: &str| {
        name.strip_prefix(wish.durable.as_str()).and_then(|rest| rest.strip_prefix('-')).is_some_and(|rest| {
            rest.len() == RANDOM_DIGITS && rest.bytes().all(|byte| byte.is_ascii_hexdigit())
        })
    };
    let mut found: Vec<Info> = all.into_iter().filter(|info| ours(&info.name)).collect();
    found.sort_by(|one, other| (one.created, &one.name).cmp(&(other.created, &other.name)));
    Ok(found)
}

fn config(wish: &Subscription, name: String, from: DeliverPolicy, pending: i64) -> Config {
    Config {
        durable_name: Some(name),
        deliver_policy: from,
        ack_policy: AckPolicy::Explicit,
        ack_wait: wish.ack_wait.max(Duration::from_secs(1)),
        // For ever: what is given up is the inbox's to say, which keeps it.
        max_deliver: -1,
        filter_subject: wish.filter.clone().unwrap_or_default(),
        max_ack_pending: pending,
        ..Config::default()
    }
}
