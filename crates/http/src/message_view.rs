//! Messages as JSON, as operators see them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use onefold_core::{Act, InboxEntry, OutboxEntry, Permit, StoreTime};
use serde_json::{Map, Value, json};

use crate::view::time;

/// What a message carries.
#[derive(Clone, Copy, Debug)]
pub struct Content<'a> {
    /// Header lines in their order.
    pub headers: &'a [(String, String)],
    /// The body, byte for byte.
    pub body: &'a [u8],
}

/// A message on its way out, without its content.
pub fn outgoing(entry: &OutboxEntry, now: StoreTime) -> Value {
    let message = &entry.message;
    json!({
        "id": message.id.as_str(),
        "destination": message.destination,
        "address": message.address,
        "ordering_key": message.ordering_key,
        "state": entry.state.name(),
        "attempt": entry.attempt,
        "failures": entry.failures,
        "created_at": time(entry.created_at),
        "due_at": entry.due_at.map(time),
        "ended_at": entry.ended_at.map(time),
        "age_ms": millis(entry.created_at, now),
        "reason": entry.reason,
        "body_bytes": message.body.len(),
    })
}

/// A message on its way out, with its content and what people did to it.
pub fn outgoing_with_history(entry: &OutboxEntry, acts: &[Act], now: StoreTime) -> Value {
    let mut view = outgoing(entry, now);
    let message = &entry.message;
    add(&mut view, content(Content { headers: &message.headers, body: &message.body }));
    view["history"] = history(acts);
    view
}

/// One round of a message that came in.
pub fn incoming(entry: &InboxEntry, now: StoreTime) -> Value {
    json!({
        "id": entry.id.to_string(),
        "round": entry.round,
        "consumer": entry.identity.consumer,
        "source": entry.identity.source,
        "message": entry.identity.message.as_str(),
        "handler": entry.handler,
        "state": entry.state.name(),
        "failures": entry.failures,
        "duplicates": entry.duplicates,
        "conflicts": entry.conflicts,
        "received_at": time(entry.received_at),
        "due_at": entry.due_at().map(time),
        "ended_at": time(entry.ended_at),
        "expires_at": entry.expires_at.map(time),
        "age_ms": millis(entry.received_at, now),
        "reason": entry.reason,
        "body_kept": entry.kept,
    })
}

/// A message that came in: its last round, those before it, what is kept of it and what people did to it. `entries`
/// are in the order of their rounds; `None` when there is none.
pub fn incoming_with_history(
    entries: &[InboxEntry],
    kept: Option<Content<'_>>,
    acts: &[Act],
    now: StoreTime,
) -> Option<Value> {
    let (last, before) = entries.split_last()?;
    let mut view = incoming(last, now);
    view["rounds_before"] = before.iter().map(|entry| incoming(entry, now)).collect();
    view["history"] = history(acts);
    if let Some(kept) = kept {
        add(&mut view, content(kept));
    }
    Some(view)
}

/// A permit.
pub fn permit(permit: &Permit) -> Value {
    json!({
        "number": permit.number,
        "consumer": permit.consumer,
        "source": permit.source,
        "damaged": permit.damaged,
        "handler": permit.handler,
        "message": permit.message.as_ref().map(onefold_core::Key::as_str),
        "who": permit.who,
        "reason": permit.reason,
        "granted_at": time(permit.granted_at),
        "revoked": permit.revoked.as_ref().map(|revoked| json!({
            "at": time(revoked.at), "who": revoked.who, "reason": revoked.reason,
        })),
    })
}

/// What became of an act on several messages: on which it was done, and which were passed over and why.
pub fn acted(done: &[String], passed_over: &[(String, String)]) -> Value {
    let passed_over = passed_over.iter().map(|(id, why)| json!({"id": id, "why": why}));
    json!({"done": done, "passed_over": passed_over.collect::<Value>()})
}

fn history(acts: &[Act]) -> Value {
    let act = |act: &Act| {
        json!({"at": time(act.at), "kind": act.kind.name(), "attempt": act.attempt, "who": act.who,
            "reason": act.reason})
    };
    acts.iter().map(act).collect()
}

/// A body as text where it is one, else in base64.
fn content(Content { headers, body }: Content<'_>) -> Map<String, Value> {
    let (name, text) = match std::str::from_utf8(body) {
        Ok(text) => ("body", text.to_owned()),
        Err(_) => ("body_base64", STANDARD.encode(body)),
    };
    Map::from_iter([("headers".to_owned(), json!(headers)), (name.to_owned(), json!(text))])
}

fn add(view: &mut Value, more: Map<String, Value>) {
    if let Value::Object(view) = view {
        view.extend(more);
    }
}

fn millis(from: StoreTime, to: StoreTime) -> u64 {
    u64::try_from(from.until(to).as_millis()).unwrap_or(u64::MAX)
}
