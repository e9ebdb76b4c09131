//! Publishing: messages, and for each the word of its partition's leader that all replicas in sync have it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;
use onefold_messages::{Message, Sending, Sink, wire};
use rdkafka::ClientConfig;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{FutureProducer, FutureRecord, Producer};

/// How long the cluster has to take a message, the client's own repeats included: below any lease of a relay's.
const ACCEPT_WITHIN: Duration = Duration::from_secs(10);
/// How much longer the client may take to say that this is over.
const SLACK: Duration = Duration::from_secs(5);
/// How long the cluster has to answer at all, where it did not answer before.
const ANSWER_WITHIN: Duration = Duration::from_secs(3);
/// Messages that the client has at once, to send those of a partition together.
const BATCH: usize = 250;
/// What a topic may be called.
const TOPIC_LENGTH_MAX: usize = 249;

/// A destination. A message's address is its topic, its ordering key the record's key. Clones share one producer.
#[derive(Clone)]
pub struct KafkaSink {
    shared: Arc<Shared>,
    default_topic: String,
}

struct Shared {
    config: ClientConfig,
    line: Mutex<Line>,
}

struct Line {
    producer: FutureProducer,
    /// The cluster let the last message time out: it is asked whether it is there before another one is sent.
    doubted: bool,
}

impl KafkaSink {
    /// Publishes to the cluster of this configuration, which names its servers (`bootstrap.servers`) and how to get in.
    /// What the promises rest on is set here. Does not wait for a cluster that is not there.
    ///
    /// # Errors
    /// When the configuration cannot be used.
    pub fn new(mut config: ClientConfig) -> Result<KafkaSink, KafkaError> {
        if config.get("partitioner").is_none() {
            // As Java's clients choose: their messages of a key lie beside ours.
            config.set("partitioner", "murmur2_random");
        }
        config.set("enable.idempotence", "true");
        config.set("acks", "all");
        config.remove("delivery.timeout.ms");
        config.set("message.timeout.ms", ACCEPT_WITHIN.as_millis().to_string());
        let line = Line { producer: config.create()?, doubted: false };
        let shared = Arc::new(Shared { config, line: Mutex::new(line) });
        Ok(KafkaSink { shared, default_topic: String::new() })
    }

    /// The topic of messages without an address. Without it these are refused.
    pub fn default_topic(mut self, topic: impl Into<String>) -> KafkaSink {
        self.default_topic = topic.into();
        self
    }

    fn topic<'m>(&'m self, message: &'m Message) -> &'m str {
        if message.address.is_empty() { &self.default_topic } else { &message.address }
    }
}

#[async_trait]
impl Sink for KafkaSink {
    async fn send(&self, message: &Message) -> Sending {
        let topic = self.topic(message);
        match self.shared.ready(topic).await {
            Ok(producer) => self.shared.send(&producer, topic, message).await,
            Err(sending) => sending,
        }
    }

    fn batch(&self) -> usize {
        BATCH
    }

    async fn send_all(&self, messages: Vec<Message>) -> Vec<Sending> {
        // One question for all; about none that is refused anyway.
        let asked_about = messages.iter().find(|message| can_be_sent(message, self.topic(message)).is_ok());
        let Some(asked_about) = asked_about.or(messages.first()) else { return Vec::new() };
        match self.shared.ready(self.topic(asked_about)).await {
            Ok(producer) => {
                let send = |message| self.shared.send(&producer, self.topic(message), message);
                join_all(messages.iter().map(send)).await
            }
            Err(sending) => vec![sending; messages.len()],
        }
    }
}

fn can_be_sent(message: &Message, topic: &str) -> Result<(), String> {
    let topic = topic.as_bytes();
    let known = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-".contains(byte);
    if topic.is_empty() || topic.len() > TOPIC_LENGTH_MAX || !topic.iter().all(known) {
        return Err("the address is no name of a topic".into());
    }
    match wire::lines(message).iter().find(|(name, _)| name.contains('\0')) {
        Some(_) => Err("a header's name cannot be sent over Kafka".into()),
        None => Ok(()),
    }
}

impl Shared {
    /// The producer, where the cluster answers or is not known not to. It is asked about this topic.
    async fn ready(&self, topic: &str) -> Result<FutureProducer, Sending> {
        let (producer, doubted) =
            self.producer().map_err(|error| Sending::Failed { reason: error.to_string() })?;
        if doubted && !self.answers(producer.clone(), topic.to_owned()).await {
            return Err(Sending::NotYet {
                after: None,
                reason: "no broker answers: nothing was sent".into(),
            });
        }
        Ok(producer)
    }

    /// Hands a message to the client, and waits for the word on it.
    async fn send(&self, producer: &FutureProducer, topic: &str, message: &Message) -> Sending {
        if let Err(reason) = can_be_sent(message, topic) {
            return Sending::Refused { reason };
        }
        let mut headers = OwnedHeaders::new();
        for (name, value) in wire::lines(message) {
            headers = headers.insert(Header { key: &name, value: Some(&value) });
        }
        let mut record = FutureRecord::to(topic).payload(&message.body).headers(headers);
        if let Some(key) = &message.ordering_key {
            record = record.key(key);
        }
        let sent = producer.send(record, Duration::ZERO);
        match tokio::time::timeout(ACCEPT_WITHIN + SLACK, sent).await {
            Ok(Ok(_)) => Sending::Accepted,
            Ok(Err((error, _))) => self.failure(&error),
            Err(_) => {
                self.doubt();
                Sending::Failed { reason: "the client did not say what became of it".into() }
            }
        }
    }

    /// The producer, a new one where the former cannot go on.
    fn producer(&self) -> Result<(FutureProducer, bool), KafkaError> {
        let mut line = self.line.lock().expect("nobody panics under it");
        if let Some((code, reason)) = line.producer.client().fatal_error() {
            tracing::warn!(%code, reason, "the producer cannot go on; another one is made");
            line.producer = self.config.create()?;
        }
        Ok((line.producer.clone(), line.doubted))
    }

    async fn answers(&self, producer: FutureProducer, topic: String) -> bool {
        // It blocks its thread.
        let asking = tokio::task::spawn_blocking(move || {
            producer.client().fetch_metadata(Some(&topic), ANSWER_WITHIN).is_ok()
        });
        let answers = asking.await.unwrap_or(false);
        if answers {
            self.line.lock().expect("nobody panics under it").doubted = false;
        }
        answers
    }

    fn doubt(&self) {
        self.line.lock().expect("nobody panics under it").doubted = true;
    }

    fn failure(&self, error: &KafkaError) -> Sending {
        let reason = error.to_string();
        match error.rdkafka_error_code() {
            Some(RDKafkaErrorCode::QueueFull) => Sending::NotYet { after: None, reason },
            Some(
                RDKafkaErrorCode::MessageSizeTooLarge
                | RDKafkaErrorCode::InvalidTopic
                | RDKafkaErrorCode::InvalidRecord,
            ) => Sending::Refused { reason },
            Some(RDKafkaErrorCode::MessageTimedOut) => {
                self.doubt();
                Sending::Failed { reason }
            }
            _ => Sending::Failed { reason },
        }
    }
}
