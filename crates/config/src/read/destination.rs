//! The settings of what the relay sends to: each `[[destination]]`.
//!
//! No error repeats a secret, nor an address, which may hold a password.

use onefold_webhooks::{KeyForm, Secret};

use super::document::Table;
use super::gateway::{required, set};
use super::{Environment, secret};
use crate::kind::{DESTINATION_NAME, TEXT};
use crate::quantity::SPAN;
use crate::{Destination, LostAnswers, To};

/// More tries, or more messages at a time, than these are limits that never bite.
const ATTEMPTS_MAX: u64 = 1000;
const CONCURRENCY_MAX: u64 = 1000;

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Http,
    Smtp,
    Nats,
    RabbitMq,
    Kafka,
}

const KINDS: &[(&str, Kind)] = &[
    ("http", Kind::Http),
    ("smtp", Kind::Smtp),
    ("nats", Kind::Nats),
    ("rabbitmq", Kind::RabbitMq),
    ("kafka", Kind::Kafka),
];

const LOST_ANSWERS: &[(&str, LostAnswers)] =
    &[("send_again", LostAnswers::SendAgain), ("hold", LostAnswers::Hold)];

impl Kind {
    /// What an address of the kind begins with; Kafka's has no scheme.
    fn schemes(self) -> &'static [&'static str] {
        match self {
            Kind::Http => &["https://", "http://"],
            Kind::Smtp => &["smtps://", "smtp+starttls://", "smtp://"],
            Kind::Nats => &["nats://", "tls://"],
            Kind::RabbitMq => &["amqps://", "amqp://"],
            Kind::Kafka => &[],
        }
    }

    /// The settings that only this kind has.
    fn own(self) -> &'static [&'static str] {
        match self {
            Kind::Http => &["secrets", "lost_answers"],
            Kind::Smtp => &["sender", "lost_answers"],
            Kind::RabbitMq => &["exchange"],
            Kind::Nats | Kind::Kafka => &[],
        }
    }
}

/// Every destination, in order.
pub(super) fn read(root: &Table<'_>, environment: Environment<'_>) -> Vec<Destination> {
    let mut read: Vec<Destination> = Vec::new();
    for table in root.tables("destination") {
        let Some(destination) = one(&table, environment) else { continue };
        match read.iter().any(|other| other.name == destination.name) {
            true => table.refuse("name", "another [[destination]] has this name; write another"),
            false => read.push(destination),
        }
    }
    read
}

fn one(table: &Table<'_>, environment: Environment<'_>) -> Option<Destination> {
    let name = required(table, "name", "\"events\"", &DESTINATION_NAME);
    if table.get("kind").is_none() {
        table.refuse("kind", "required; write kind = \"http\"");
    }
    let kind = table.choice("kind", KINDS);
    let timeout = table.text("timeout", &SPAN);
    let number = |name, max| table.number(name, 1..=max).and_then(|number| u32::try_from(number).ok());
    let (attempts, concurrency) = (number("attempts", ATTEMPTS_MAX), number("concurrency", CONCURRENCY_MAX));
    let sender = table.text("sender", &TEXT);
    let exchange = table.text("exchange", &TEXT);
    let lost_answers = table.choice("lost_answers", LOST_ANSWERS);
    let kind = kind?;
    for other in KINDS.iter().map(|(_, other)| *other).filter(|other| *other != kind) {
        for name in other.own().iter().filter(|name| !kind.own().contains(name)) {
            if table.get(name).is_some() {
                table.refuse(name, "this kind of destination has no such setting; leave it out");
            }
        }
    }
    let url = url(table, kind, environment);
    let to = match kind {
        Kind::Http => {
            let mut lost = LostAnswers::SendAgain;
            set(&mut lost, lost_answers);
            let secrets = secrets(table, environment);
            To::Http { url: url?, secrets, lost_answers: lost }
        }
        Kind::Smtp => {
            let mut lost = LostAnswers::Hold;
            set(&mut lost, lost_answers);
            To::Smtp { url: url?, sender, lost_answers: lost }
        }
        Kind::Nats => To::Nats { url: url? },
        Kind::RabbitMq => To::RabbitMq { url: url?, exchange: exchange.unwrap_or_default() },
        Kind::Kafka => To::Kafka { servers: url? },
    };
    Some(Destination { name: name?, to, timeout, attempts, concurrency })
}

/// The address, which may stand elsewhere because of its password.
fn url(table: &Table<'_>, kind: Kind, environment: Environment<'_>) -> Option<String> {
    let Some(value) = table.get("url") else {
        table
            .refuse("url", "required; write the address, or env:NAME or file:PATH where it holds a password");
        return None;
    };
    let Some(written) = value.value.as_str() else { return value.refuse("an address is text, in quotes") };
    let text = match written.starts_with("env:") || written.starts_with("file:") {
        true => match secret::resolve(written, environment) {
            Ok(text) => text.trim().to_owned(),
            Err(wrong) => return value.refuse(wrong),
        },
        false => written.to_owned(),
    };
    let schemes = kind.schemes();
    match text {
        text if text.is_empty() => value.refuse("the address is empty"),
        text if kind == Kind::Kafka && text.contains("://") => {
            value.refuse("the address has no scheme; write \"host:9092\", several with commas between")
        }
        text if kind == Kind::Kafka || schemes.iter().any(|scheme| text.starts_with(scheme)) => Some(text),
        _ => value.refuse(format!("the address of this kind begins with {}", schemes.join(" or "))),
    }
}

fn secrets(table: &Table<'_>, environment: Environment<'_>) -> Vec<Secret> {
    let Some(value) = table.get("secrets") else {
        table.refuse("secrets", "required; write secrets = [\"env:NAME\"] or [\"file:PATH\"]");
        return Vec::new();
    };
    let items: Vec<_> = value.items().into_iter().flatten().collect();
    if items.is_empty() {
        value.refuse::<()>("secrets are a list of one at least; write [\"env:NAME\"] or [\"file:PATH\"]");
    }
    items.iter().filter_map(|item| secret::signing(item, KeyForm::Whsec, environment)).collect()
}
