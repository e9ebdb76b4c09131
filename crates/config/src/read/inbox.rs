//! The settings of webhooks: each `[[inbox]]`.
//!
//! No error repeats a secret.

use std::time::Duration;

use onefold_core::contract::Retention;
use onefold_webhooks::{Encoding, HmacRule, KeyForm, Scheme, Secret, Source};

use super::document::Table;
use super::gateway::{required, set};
use super::{Environment, secret};
use crate::kind::{FIELD_READ, HEADER, INBOX_SOURCE, PLACE, SERVICE_URL, TEXT};
use crate::quantity::{RETENTION, SPAN};
use crate::{Forward, Inbox, Reply, Upstream};

/// More tries of one delivery than this are a limit that never bites.
const ATTEMPTS_MAX: u64 = 1000;
/// More waiting messages than this are a limit that never bites.
const WAITING_MAX: u64 = 1_000_000_000;
/// The shortest that means anything.
const RETENTION_MIN: Duration = Duration::from_secs(1);
/// As long as common senders deliver again by themselves.
const RETENTION_SOUND: Duration = Duration::from_secs(3 * 24 * 3600);

#[derive(Clone, Copy, PartialEq)]
enum Name {
    Standard,
    Stripe,
    GitHub,
    Shopify,
    Hmac,
    None,
}

const SCHEMES: &[(&str, Name)] = &[
    ("standard", Name::Standard),
    ("stripe", Name::Stripe),
    ("github", Name::GitHub),
    ("shopify", Name::Shopify),
    ("hmac", Name::Hmac),
    ("none", Name::None),
];

const REPLIES: &[(&str, Reply)] = &[("accepted", Reply::Accepted), ("forwarded", Reply::Forwarded)];
const ENCODINGS: &[(&str, Encoding)] = &[("hex", Encoding::Hex), ("base64", Encoding::Base64)];
const KEYS: &[(&str, KeyForm)] =
    &[("text", KeyForm::Text), ("hex", KeyForm::Hex), ("base64", KeyForm::Base64)];

/// Every source, in order.
pub(super) fn read(
    root: &Table<'_>,
    upstream: Option<&Upstream>,
    environment: Environment<'_>,
) -> Vec<Inbox> {
    let mut read: Vec<Inbox> = Vec::new();
    for table in root.tables("inbox") {
        let Some(inbox) = one(&table, environment) else { continue };
        if upstream.is_some_and(|upstream| upstream.url.leads_where(&inbox.forward.url)) {
            let at = table.get("forward").map_or(table.at, |value| value.at);
            let message = "the handler is on the upstream: what anybody sends to its path reaches it as well, unverified; give it a host or a port of its own, or let it check the signature again";
            table.report.warning(at, &table.field_of("forward"), message);
        }
        match read.iter().any(|other| other.source == inbox.source) {
            true => table.refuse("source", "another [[inbox]] has this source; write another"),
            false => read.push(inbox),
        }
    }
    read
}

fn one(table: &Table<'_>, environment: Environment<'_>) -> Option<Inbox> {
    let source = required(table, "source", "\"stripe\"", &INBOX_SOURCE);
    if table.get("scheme").is_none() {
        table.refuse("scheme", "required; write scheme = \"standard\"");
    }
    let scheme = table.choice("scheme", SCHEMES).and_then(|name| scheme(table, name));
    let secrets = scheme.as_ref().map(|scheme| secrets(table, scheme, environment));
    let mut tolerance = Inbox::TOLERANCE;
    set(&mut tolerance, table.text("tolerance", &SPAN));
    let [id, entity, version] = ["id", "entity", "version"].map(|name| table.text(name, &PLACE));
    if table.get("version").is_some() && table.get("entity").is_none() {
        table.refuse("version", "a version is one of an entity; name that in entity");
    }
    let ignore = table.texts("ignore", &FIELD_READ);
    let retention = retention(table);
    let mut max_waiting = Inbox::MAX_WAITING;
    set(&mut max_waiting, table.number("max_waiting", 1..=WAITING_MAX));
    let forward = forward(table);
    let mut reply = Reply::Accepted;
    set(&mut reply, table.choice("reply", REPLIES));
    let scheme = scheme?;
    if table.get("tolerance").is_some() && !scheme.has_timestamp() {
        table.refuse("tolerance", "this scheme signs no time; leave it out");
    }
    if table.get("id").is_none() && matches!(scheme, Scheme::Hmac(_) | Scheme::None) {
        table.refuse("id", "required by this scheme; write id = \"/id\" or \"header:X-Id\"");
    }
    let ignore = ignore.unwrap_or_else(|| scheme.differs());
    let verify = Source { scheme, secrets: secrets?, tolerance, id, entity, version, ignore };
    Some(Inbox { source: source?, verify, retention, max_waiting, forward: forward?, reply })
}

/// Senders deliver again for days, and by hand for weeks: whoever forgets sooner forwards a message twice.
fn retention(table: &Table<'_>) -> Retention {
    let mut retention = Retention::For(Inbox::RETENTION);
    set(&mut retention, table.text("retention", &RETENTION));
    let Some(value) = table.get("retention") else { return retention };
    if let Retention::For(kept) = retention
        && kept < RETENTION_MIN
    {
        value.refuse::<()>("too short; the shortest is 1s");
    } else if let Retention::For(kept) = retention
        && kept < RETENTION_SOUND
    {
        let message = "shorter than common senders deliver again by themselves (3d): what comes after it is forwarded a second time";
        table.report.warning(value.at, &table.field_of("retention"), message);
    }
    retention
}

fn scheme(table: &Table<'_>, name: Name) -> Option<Scheme> {
    if let Some(signature) = table.get("signature").filter(|_| name != Name::Hmac) {
        return signature.refuse("only the scheme \"hmac\" has it");
    }
    Some(match name {
        Name::Standard => Scheme::Standard,
        Name::Stripe => Scheme::Stripe,
        Name::GitHub => Scheme::GitHub,
        Name::Shopify => Scheme::Shopify,
        Name::Hmac => Scheme::Hmac(hmac_rule(table)?),
        Name::None => {
            let at = table.get("scheme").map_or(table.at, |value| value.at);
            let message = "nothing is signed: whoever reaches the listener is believed";
            table.report.warning(at, &table.field_of("scheme"), message);
            Scheme::None
        }
    })
}

fn hmac_rule(table: &Table<'_>) -> Option<HmacRule> {
    if table.get("signature").is_none() {
        table.refuse("signature", "required; write signature = { header = \"X-Signature\" }");
    }
    let table = table.table("signature")?;
    let header = required(&table, "header", "\"X-Signature\"", &HEADER);
    let text = |name| table.text(name, &TEXT).unwrap_or_default();
    Some(HmacRule {
        encoding: table.choice("encoding", ENCODINGS).unwrap_or_default(),
        prefix: text("prefix"),
        key: table.choice("key", KEYS).unwrap_or_default(),
        before_body: text("before_body"),
        header: header?,
    })
}

fn secrets(table: &Table<'_>, scheme: &Scheme, environment: Environment<'_>) -> Vec<Secret> {
    let Some(value) = table.get("secrets") else {
        if *scheme != Scheme::None {
            table.refuse("secrets", "required; write secrets = [\"env:NAME\"] or [\"file:PATH\"]");
        }
        return Vec::new();
    };
    if *scheme == Scheme::None {
        table.refuse("secrets", "the scheme \"none\" has none; leave it out");
        return Vec::new();
    }
    let Some(items) = value.items() else {
        value.refuse::<()>("secrets are a list; write [\"env:NAME\"] or [\"file:PATH\"]");
        return Vec::new();
    };
    let items: Vec<_> = items.collect();
    if items.is_empty() {
        value.refuse::<()>("without a secret nothing is accepted; write [\"env:NAME\"] or [\"file:PATH\"]");
    }
    items.iter().filter_map(|item| secret::signing(item, scheme.key_form(), environment)).collect()
}

fn forward(table: &Table<'_>) -> Option<Forward> {
    if table.get("forward").is_none() {
        table.refuse("forward", "required; write forward = { url = \"http://127.0.0.1:3000/hooks\" }");
    }
    let table = table.table("forward")?;
    let url = required(&table, "url", "\"http://127.0.0.1:3000/hooks\"", &SERVICE_URL);
    let (mut timeout, mut attempts) = (Forward::TIMEOUT, Forward::ATTEMPTS);
    set(&mut timeout, table.text("timeout", &SPAN));
    let number = table.number("attempts", 1..=ATTEMPTS_MAX);
    set(&mut attempts, number.and_then(|number| u32::try_from(number).ok()));
    Some(Forward { url: url?, timeout, attempts })
}

impl Inbox {
    /// How far a signed time may be from now unless the file says otherwise.
    pub const TOLERANCE: Duration = Duration::from_secs(300);
    /// How long an id is known unless the file says otherwise: longer than a person can have Stripe deliver an event
    /// again (30 days).
    pub const RETENTION: Duration = Duration::from_secs(40 * 24 * 3600);
    /// How many messages may wait for a handler unless the file says otherwise: an hour of thirty a second, which a
    /// handler at a hundred a second works off in a quarter of an hour.
    pub const MAX_WAITING: u64 = 100_000;
}

impl Forward {
    /// How long a handler may take unless the file says otherwise.
    pub const TIMEOUT: Duration = Duration::from_secs(30);
    /// Failed tries after which a delivery is a dead letter unless the file says otherwise.
    pub const ATTEMPTS: u32 = 10;
}
