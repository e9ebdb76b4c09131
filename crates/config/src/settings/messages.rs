//! Where messages come from and where they go: the settings of `[[inbox]]` and `[[destination]]`.

use std::fmt;
use std::time::Duration;

use onefold_core::contract::Retention;
use onefold_webhooks::{Secret, Source};

/// One `[[inbox]]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inbox {
    /// What follows `/inbox/` in the path.
    pub source: String,
    /// How its deliveries are verified and read.
    pub verify: Source,
    /// How long an id is known.
    pub retention: Retention,
    /// How many messages may wait for the handler; beyond that nothing is taken in.
    pub max_waiting: u64,
    /// Where they go on to.
    pub forward: Forward,
    /// What the sender gets.
    pub reply: Reply,
}

/// Where webhooks go on to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forward {
    /// The handler.
    pub url: String,
    /// How long it may take.
    pub timeout: Duration,
    /// Failed tries after which a message is a dead letter; at least 1.
    pub attempts: u32,
}

/// What the sender of a webhook gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// 202, once the message is durable.
    Accepted,
    /// The handler's answer.
    Forwarded,
}

/// One `[[destination]]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destination {
    /// What messages call it.
    pub name: String,
    /// Where it is, and how it is spoken to.
    pub to: To,
    /// How long one sending may take.
    pub timeout: Option<Duration>,
    /// Failed sendings after which a message is a dead letter.
    pub attempts: Option<u32>,
    /// Messages on their way at once.
    pub concurrency: Option<u32>,
}

/// A destination by its kind. Addresses may hold passwords.
#[derive(Clone, PartialEq, Eq)]
pub enum To {
    /// Signed webhooks.
    Http {
        /// The endpoint.
        url: String,
        /// Each signs; at least one.
        secrets: Vec<Secret>,
        /// What follows an answer that was lost.
        lost_answers: LostAnswers,
    },
    /// Mail.
    Smtp {
        /// The server.
        url: String,
        /// From whom mails are that do not say so.
        sender: Option<String>,
        /// What follows an answer that was lost.
        lost_answers: LostAnswers,
    },
    /// NATS JetStream.
    Nats {
        /// The servers.
        url: String,
    },
    /// RabbitMQ.
    RabbitMq {
        /// The server.
        url: String,
        /// What is published to; empty is the default exchange.
        exchange: String,
    },
    /// Kafka.
    Kafka {
        /// `host:port`, several with commas between.
        servers: String,
    },
}

/// What becomes of a message whose answer was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LostAnswers {
    /// It is sent again under its id.
    SendAgain,
    /// It is `outcome_unknown`.
    Hold,
}

impl fmt::Debug for To {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            To::Http { .. } => "http",
            To::Smtp { .. } => "smtp",
            To::Nats { .. } => "nats",
            To::RabbitMq { .. } => "rabbitmq",
            To::Kafka { .. } => "kafka",
        })
    }
}
