//! Records as JSON: what a caller sees of their own operation, and what an operator sees.

use std::time::Duration;

use jiff::Timestamp;
use onefold_core::{
    Answers, Contract, Event, EventKind, Kept, Key, Lease, Record, Resource, State, StoreTime, retry,
};
use serde_json::{Value, json};

/// RFC 3339 in UTC with milliseconds.
pub fn time(at: StoreTime) -> String {
    match Timestamp::from_millisecond(at.0) {
        Ok(stamp) => stamp.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string(),
        Err(_) => at.to_string(),
    }
}

/// What the caller of an operation sees: `GET /operations/{id}`.
pub fn for_caller(record: &Record, contract: Option<&Contract>, now: StoreTime) -> Value {
    let answers = record.answers(contract);
    json!({
        "id": record.id.to_string(),
        "operation": record.operation,
        "state": record.state.name(),
        "attempt": record.attempt,
        "created_at": time(record.created_at),
        "completed_at": record.completed_at.map(time),
        "expires_at": record.expires_at.map(time),
        "expired": record.is_expired(now),
        "resource": record.resource.as_ref().map(resource),
        "retry_after_ms": retry_after(record, &answers).map(millis),
        "safe_to_use_new_key": answers.safe_to_use_new_key(),
        "answers": self::answers(&answers),
    })
}

/// What an operator sees: the caller's view and everything that helps to settle the operation.
pub fn for_operator(record: &Record, now: StoreTime) -> Value {
    let mut view = for_caller(record, None, now);
    let more = json!({
        "scope": record.scope.parts().iter().map(|p| (p.name.clone(), json!(p.value))).collect::<serde_json::Map<_, _>>(),
        "key": record.key.as_ref().map(Key::as_str),
        "correlation_id": record.correlation_id,
        "owner": record.owner,
        "lease_left_ms": match record.lease {
            Lease::Alive(left) => Some(millis(left)),
            Lease::None | Lease::Over => None,
        },
        "fingerprint": record.fingerprint.map(|f| json!({"version": f.version, "ignored": record.ignored})),
        "attempts": record.attempt,
        "begun_at": record.begun_at.map(time),
        "age_ms": millis(record.created_at.until(now)),
        "reconciliation": record.reconciliation.name(),
        "response": kept(&record.kept),
        "duplicates": record.counters.duplicates,
        "replays": record.counters.replays,
        "conflicts": record.counters.conflicts,
    });
    merge(&mut view, more);
    view
}

/// A record with its history.
pub fn with_history(record: &Record, events: &[Event], now: StoreTime) -> Value {
    let mut view = for_operator(record, now);
    let late = events.iter().filter(|e| e.kind == EventKind::LateSuccess).count();
    let history: Vec<Value> = events
        .iter()
        .map(|event| {
            json!({
                "at": time(event.at),
                "kind": event_kind(event.kind),
                "attempt": event.attempt,
                "who": event.who,
                "reason": event.reason,
                "evidence": event.evidence,
            })
        })
        .collect();
    merge(&mut view, json!({"late_successes": late, "history": history}));
    view
}

/// The five answers as JSON.
pub fn answers(answers: &Answers) -> Value {
    json!({
        "new_attempt": answers.new_attempt.to_string(),
        "previous_result": answers.previous_result,
        "wait": answers.wait,
        "reconciliation": answers.reconciliation,
        "new_key": answers.new_key.to_string(),
    })
}

/// The name of a kind of event.
pub fn event_kind(kind: EventKind) -> &'static str {
    match kind {
        EventKind::Unknown => "outcome_unknown",
        EventKind::Resolved => "resolved",
        EventKind::Released => "released",
        EventKind::LateSuccess => "late_success",
        EventKind::Happened => "happened",
        EventKind::DidNotHappen => "did_not_happen",
        EventKind::Inconclusive => "inconclusive",
        EventKind::Escalated => "escalated",
    }
}

/// A resource as JSON.
pub fn resource(resource: &Resource) -> Value {
    json!({"type": resource.kind, "id": resource.id})
}

fn kept(kept: &Kept) -> Value {
    match kept {
        Kept::Nothing => Value::Null,
        Kept::Full(answer) => {
            json!({"kept": "full", "status": answer.status, "body_bytes": answer.body.len()})
        }
        Kept::Value(value) => {
            json!({"kept": "value", "version": value.version, "value_bytes": value.json.len()})
        }
        Kept::Reference(answer) => json!({"kept": "reference", "status": answer.status}),
        Kept::NotKept { status, why } => json!({"kept": "none", "status": status, "why": why.name()}),
    }
}

fn retry_after(record: &Record, answers: &Answers) -> Option<Duration> {
    match (answers.wait, record.state, record.lease) {
        (false, ..) => None,
        (true, State::Processing, Lease::Alive(left)) => Some(retry::retry_after(left)),
        (true, State::OutcomeUnknown, _) if !record.may_retry() => Some(retry::RETRY_AFTER_MAX),
        (true, ..) => Some(retry::RETRY_AFTER_MIN),
    }
}

fn millis(d: Duration) -> u64 {
    u64::try_from(d.as_millis()).unwrap_or(u64::MAX)
}

fn merge(view: &mut Value, more: Value) {
    if let (Value::Object(view), Value::Object(more)) = (view, more) {
        view.extend(more);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rfc_3339_in_utc_with_milliseconds() {
        assert_eq!(time(StoreTime(1_700_000_000_007)), "2023-11-14T22:13:20.007Z");
        assert_eq!(time(StoreTime(i64::MAX)), format!("{}ms", i64::MAX));
    }
}
