//! The settings of `[[operation]]` and `[defaults]` that make up a contract.
//!
//! What is written replaces what the contract had, each setting as a whole: a table is not mixed with that of
//! `[defaults]`.

use onefold_core::Contract;
use onefold_core::contract::{
    AfterExpiry, BodyRule, FingerprintRule, ForwardKey, KEY_HEADER, KeyRule, Meaning, OnStale, Remember,
    ResponsePolicy, RetryFailed, ScopeSource, StoreMode, StoreResponse, WhileRunning,
};
use onefold_core::key::{KeySyntax, KeyTime};
use onefold_core::retry::Backoff;

use super::ask::{authorize, reconcile};
use super::document::{Table, Value};
use super::gateway::set;
use crate::kind::{BOUNDARY, FIELD, HEADER, POINTER, SCOPE, STATUS};
use crate::quantity::{DURATION, RETENTION, SPAN};

/// More automatic attempts than this are a queue, which a gateway is not.
const RETRIES_MAX: u64 = 100;

const FORWARD_KEY: &[(&str, ForwardKey)] =
    &[("same", ForwardKey::Same), ("derived", ForwardKey::Derived), ("none", ForwardKey::None)];
const RESPONSE: &[(&str, ResponsePolicy)] = &[
    ("original", ResponsePolicy::Original),
    ("current", ResponsePolicy::Current),
    ("status", ResponsePolicy::Status),
];
const ON_STALE: &[(&str, OnStale)] =
    &[("unknown", OnStale::Unknown), ("reconcile", OnStale::Reconcile), ("resume", OnStale::Resume)];
const AFTER_EXPIRY: &[(&str, AfterExpiry)] = &[("reject", AfterExpiry::Reject), ("new", AfterExpiry::New)];
const KEY_TIME: &[(&str, KeyTime)] =
    &[("uuidv7", KeyTime::Uuidv7), ("ulid", KeyTime::Ulid), ("off", KeyTime::Off)];
const SYNTAX: &[(&str, KeySyntax)] = &[("lenient", KeySyntax::Lenient), ("strict", KeySyntax::Strict)];
const MEANING: &[(&str, Meaning)] =
    &[("final", Meaning::Final), ("not_done", Meaning::NotDone), ("unknown", Meaning::Unknown)];
const MODE: &[(&str, StoreMode)] =
    &[("full", StoreMode::Full), ("reference", StoreMode::Reference), ("none", StoreMode::None)];
const BODY: &[(&str, BodyRule)] = &[
    ("auto", BodyRule::Auto),
    ("json", BodyRule::Json),
    ("form", BodyRule::Form),
    ("multipart", BodyRule::Multipart),
    ("bytes", BodyRule::Bytes),
];

/// Writes what the table says into the contract.
pub(super) fn apply(table: &Table<'_>, contract: &mut Contract) {
    set(&mut contract.boundary, table.text("boundary", &BOUNDARY));
    set(&mut contract.scope, scope(table));
    set(&mut contract.forward_key, table.choice("forward_key", FORWARD_KEY));
    let time = table.choice("key_time", KEY_TIME).unwrap_or(contract.key.time);
    set(&mut contract.key, table.table("key").and_then(|table| key(&table)));
    contract.key.time = time;
    set(&mut contract.fingerprint, table.table("fingerprint").map(|table| fingerprint(&table)));
    set(&mut contract.while_running, table.table("while_running").and_then(|table| while_running(&table)));
    set(&mut contract.response, table.choice("response", RESPONSE));
    set(&mut contract.on_stale, table.choice("on_stale", ON_STALE));
    set(&mut contract.lease, table.text("lease", &DURATION));
    set(&mut contract.remember, table.get("remember").and_then(|value| remember(&value)));
    set(&mut contract.max_attempts, attempts(table, "max_attempts", u64::from(u32::MAX)));
    set(&mut contract.retry_failed, table.table("retry_failed").map(|table| retry_failed(&table)));
    set(&mut contract.retention, table.text("retention", &RETENTION));
    set(&mut contract.after_expiry, table.choice("after_expiry", AFTER_EXPIRY));
    if let Some(table) = table.table("reconcile") {
        contract.reconcile = reconcile(&table).or(contract.reconcile.take());
    }
    if let Some(table) = table.table("authorize") {
        contract.authorize = authorize(&table).or(contract.authorize.take());
    }
    set(&mut contract.store_response, table.table("store_response").map(|table| store_response(&table)));
}

fn scope(table: &Table<'_>) -> Option<Vec<ScopeSource>> {
    let parts = table.texts("scope", &SCOPE)?;
    let twice = |(i, part): (usize, &ScopeSource)| parts[..i].contains(part);
    match parts.iter().enumerate().any(twice) {
        true => table.get("scope")?.refuse("one part stands in it twice; write each part once"),
        false => Some(parts),
    }
}

/// The carriers are those that are named; the usual header only where none is.
fn key(table: &Table<'_>) -> Option<KeyRule> {
    let mut rule = KeyRule { body: table.text("body", &POINTER), ..KeyRule::default() };
    set(&mut rule.required, table.truth("required"));
    set(&mut rule.syntax, table.choice("syntax", SYNTAX));
    let headers = table.get("header").map(|value| match value.value.is_array() {
        true => value.texts(&HEADER),
        false => value.text(&HEADER).map(|header| vec![header]),
    });
    rule.headers = match headers {
        Some(headers) => headers?,
        None if table.get("body").is_some() => Vec::new(),
        None => vec![KEY_HEADER.to_owned()],
    };
    let twice =
        |(i, header): (usize, &String)| rule.headers[..i].iter().any(|h| h.eq_ignore_ascii_case(header));
    if rule.headers.iter().enumerate().any(twice) {
        return table.get("header")?.refuse("one header is named twice; write each name once");
    }
    Some(rule)
}

fn fingerprint(table: &Table<'_>) -> FingerprintRule {
    FingerprintRule {
        body: table.choice("body", BODY).unwrap_or_default(),
        ignore: table.texts("ignore", &FIELD).unwrap_or_default(),
        headers: table.texts("headers", &HEADER).unwrap_or_default(),
    }
}

fn while_running(table: &Table<'_>) -> Option<WhileRunning> {
    const ALLOWED: &str = "{ wait = \"5s\" }, { busy = true } or { accepted = true }";
    let mut chosen = None;
    for (name, at, value) in table.entries() {
        let choice = match name {
            "wait" => value.text(&DURATION).map(WhileRunning::Wait),
            "busy" if value.value.as_bool() == Some(true) => Some(WhileRunning::Busy),
            "accepted" if value.value.as_bool() == Some(true) => Some(WhileRunning::Accepted),
            "busy" | "accepted" => value.refuse(format!("{} is not allowed; write {ALLOWED}", value.shown())),
            _ => None,
        };
        if chosen.is_some() {
            table.report.mistake(at, &value.field, format!("only one can be chosen; write {ALLOWED}"));
        }
        chosen = chosen.or(choice);
    }
    if chosen.is_none() && !table.report.has_mistake(&table.field) {
        table.report.mistake(table.at, &table.field, format!("nothing is chosen; write {ALLOWED}"));
    }
    chosen
}

/// Its names are statuses, so no section of the reference lists them.
fn remember(value: &Value<'_>) -> Option<Remember> {
    let Some(rules) = value.entries() else {
        return value.refuse(format!(
            "{} is not a table; write one such as {{ \"5xx\" = \"unknown\" }}",
            value.shown()
        ));
    };
    let mut remember = Remember::default();
    for (status, at, meaning) in rules {
        let pattern = STATUS.read(status).map_err(|wrong| value.report.mistake(at, &value.field, wrong)).ok();
        let meaning = meaning.choice(MEANING);
        remember.0.extend(pattern.zip(meaning));
    }
    Some(remember)
}

fn retry_failed(table: &Table<'_>) -> RetryFailed {
    let usual = Backoff::default();
    let first = table.text("backoff", &SPAN).unwrap_or(usual.first);
    RetryFailed {
        attempts: attempts(table, "attempts", RETRIES_MAX).unwrap_or(0),
        backoff: Backoff { first, max: usual.max.max(first) },
    }
}

fn attempts(table: &Table<'_>, name: &str, max: u64) -> Option<u32> {
    table.number(name, 0..=max).and_then(|number| u32::try_from(number).ok())
}

fn store_response(table: &Table<'_>) -> StoreResponse {
    let mut kept = StoreResponse::default();
    set(&mut kept.mode, table.choice("mode", MODE));
    set(&mut kept.body_bytes_max, table.size("max", 0));
    set(&mut kept.redact, table.texts("redact", &FIELD));
    set(&mut kept.drop_headers, table.texts("drop_headers", &HEADER));
    kept
}
