//! The settings of `[[destination]]`.

use super::Preset::{Means, Required};
use super::Setting;

pub(super) const SAYS: &str = "\
Where `onefold relay` sends the messages of the outbox that name it. What each kind promises: [brokers](brokers.md). \
`onefold serve` sends to none of them.";

pub(super) const SETTINGS: &[Setting] = &[
    Setting { name: "name", value: "1 to 100 characters", default: Required, says: "What messages call it." },
    Setting {
        name: "kind",
        value: "`\"http\"`, `\"smtp\"`, `\"nats\"`, `\"rabbitmq\"`, `\"kafka\"`",
        default: Required,
        says: "How it is spoken to: signed webhooks, mail, NATS JetStream, RabbitMQ, Kafka.",
    },
    Setting {
        name: "url",
        value: "string, or a secret",
        default: Required,
        says: "Where it is. `http`: the endpoint. `smtp`: `smtps://`, `smtp+starttls://` or `smtp://` with `user:password@host:port`. `nats`: `nats://` or `tls://`. `rabbitmq`: `amqps://` or `amqp://`. `kafka`: `host:port`, several with commas between; only in a binary built with `--features kafka`. One that holds a password stands elsewhere.",
    },
    Setting {
        name: "secrets",
        value: "list of secrets",
        default: Means("required with `kind = \"http\"`"),
        says: "In base64, perhaps behind `whsec_`. Each signs, so that they can change.",
    },
    Setting {
        name: "sender",
        value: "string",
        default: Means("what each mail says"),
        says: "With `smtp`: from whom mails are that do not say so, `Shop <shop@example.org>`.",
    },
    Setting {
        name: "exchange",
        value: "string",
        default: Means("the default exchange"),
        says: "With `rabbitmq`: what is published to; a message's address is the routing key.",
    },
    Setting {
        name: "lost_answers",
        value: "`\"send_again\"`, `\"hold\"`",
        default: Means("`\"send_again\"` with `http`, `\"hold\"` with `smtp`"),
        says: "What becomes of a message whose answer was lost: it is sent again under its id, or is `outcome_unknown` until a person settles it.",
    },
    Setting {
        name: "timeout",
        value: "duration above `0s`",
        default: Means(
            "`\"30s\"`; with `http` 20 s, with `smtp` 665 s, most of it the ten minutes that the protocol gives the server",
        ),
        says: "How long one sending may take. What a killed relay was sending waits for 15 s more (with `http` and no `timeout`: 45 s in all).",
    },
    Setting {
        name: "attempts",
        value: "number from 1 to 1000",
        default: Means("`30`"),
        says: "Failed sendings after which a message is a dead letter; with `smtp` about a day.",
    },
    Setting {
        name: "concurrency",
        value: "number from 1 to 1000",
        default: Means("`64`; with `smtp` 8, with `nats` and `kafka` 1000"),
        says: "Messages on their way at once.",
    },
];
