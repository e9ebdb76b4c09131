//! What an answer means: Onefold's own problem documents first, then the provider's profile, then the status
//! (SEMANTICS 8).
//!
//! The problem documents of Onefold are read whatever the profile is: a gateway may stand before any service. An
//! answer that nothing explains counts by its status, as it would in the gateway; what may have happened is never read
//! as "nothing happened".

use std::time::Duration;

use http::{HeaderMap, HeaderName, StatusCode, header};
use onefold_core::Problem;
use onefold_core::problem::TYPE_BASE;
use serde_json::Value;

use crate::Profile;
use crate::limits::RETRY_AFTER_MAX;
use crate::profile::Means;
use crate::retry_after::{self, Asked};

const OPERATION: HeaderName = HeaderName::from_static("onefold-operation");
const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// An answer as it came. Trailers stand among its headers.
#[derive(Clone, Copy, Debug)]
pub struct Received<'a> {
    /// The status.
    pub status: StatusCode,
    /// Header and trailer lines.
    pub headers: &'a HeaderMap,
    /// The body, or its beginning.
    pub body: &'a [u8],
}

impl Received<'_> {
    pub(crate) fn text(&self, name: &HeaderName) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    fn media_type_is(&self, wanted: &str) -> bool {
        let media = self.text(&header::CONTENT_TYPE).unwrap_or_default();
        media.split(';').next().is_some_and(|media| media.trim().eq_ignore_ascii_case(wanted))
    }
}

/// What an answer means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// To the operation.
    pub means: Means,
    /// It is the answer of an earlier attempt.
    pub replayed: bool,
    /// Not to come back before this time has passed.
    pub retry_after: Option<Duration>,
    /// Where the operation can be asked for: an absolute path on the same host.
    pub poll: Option<String>,
    /// What the answer itself says about a new key.
    pub safe_to_use_new_key: Option<bool>,
    /// It speaks of the operation and not of this request alone: a replay, an answer of Onefold, or one that the
    /// profile knows.
    pub settles: bool,
    /// The destination is in trouble (and not just this request): counted by its circuit.
    pub(crate) in_trouble: bool,
}

/// Reads an answer. `now` is the time since 1970, for a `Retry-After` with a date in an answer without a `Date`.
pub fn read(received: Received<'_>, profile: &Profile, now: Duration) -> Reading {
    let json: Option<Value> = serde_json::from_slice(received.body).ok();
    let problem = json.as_ref().and_then(|json| onefold_problem(&received, json));
    let asked = retry_after::read(received.headers, profile.reset.as_ref(), now);
    let by_rule = || profile.answers.iter().find_map(|rule| rule.reads(&received, json.as_ref()));
    let known = problem.map(by_problem).or_else(by_rule);
    let means = known.unwrap_or_else(|| by_status(&received));
    let document = problem.and(json.as_ref());
    let replayed = received.text(&REPLAYED) == Some("true");
    Reading {
        means,
        replayed,
        settles: replayed || known.is_some() || received.headers.contains_key(OPERATION),
        retry_after: match asked {
            Asked::Wait(wait) => Some(wait),
            Asked::Nothing => document.and_then(|d| waits(&d["retry_after_ms"])),
        },
        poll: received
            .text(&OPERATION)
            .or_else(|| document.and_then(|document| document["operation"].as_str()))
            .filter(|path| is_own_path(path))
            .map(str::to_owned),
        safe_to_use_new_key: document.and_then(|document| document["safe_to_use_new_key"].as_bool()),
        in_trouble: received.status.is_server_error()
            || means == Means::Unknown && received.headers.contains_key("grpc-status"),
    }
}

fn waits(milliseconds: &Value) -> Option<Duration> {
    milliseconds.as_u64().map(|ms| Duration::from_millis(ms).min(RETRY_AFTER_MAX))
}

/// A path on the same host and nothing else: credentials go there.
fn is_own_path(path: &str) -> bool {
    path.starts_with('/')
        && !path.starts_with("//")
        && path.bytes().all(|b| b.is_ascii_graphic() && b != b'\\')
        && path.parse::<http::uri::PathAndQuery>().is_ok()
}

/// A problem of Onefold. One that only a later release knows says nothing that this one could act on.
fn onefold_problem(received: &Received<'_>, json: &Value) -> Option<Problem> {
    if !received.media_type_is("application/problem+json") {
        return None;
    }
    let code = json["type"].as_str()?.strip_prefix(TYPE_BASE)?;
    // One code has several statuses; what it means is the same.
    Problem::ALL.into_iter().find(|problem| problem.code() == code).or(Some(Problem::OutcomeUnknown))
}

fn by_problem(problem: Problem) -> Means {
    match problem {
        Problem::KeyConflict | Problem::MessageConflict => Means::Conflict,
        // There is a stored answer, and whether this caller may have it cannot be asked now: the same key, later.
        Problem::InProgress | Problem::OwnerAlive | Problem::AuthorizationUnavailable => Means::InProgress,
        Problem::OutcomeUnknown | Problem::AnswerLost | Problem::AnswerLate => Means::Unknown,
        Problem::KeyExpired => Means::Expired,
        Problem::ResponseNotKept => Means::NotKept,
        Problem::StoreUnavailable
        | Problem::TooManyKeys
        | Problem::UpstreamUnreachable
        | Problem::InboxFull => Means::NotDone,
        Problem::KeyMissing
        | Problem::KeyInvalid
        | Problem::KeyAmbiguous
        | Problem::ScopeMissing
        | Problem::Forbidden
        | Problem::NotFound
        | Problem::RequestTooLarge
        | Problem::AttemptsExhausted
        | Problem::NotUnknown
        | Problem::ReasonMissing
        | Problem::RequestInvalid
        | Problem::SignatureInvalid => Means::Refused,
    }
}

/// The table of SEMANTICS 8, from the caller's side.
fn by_status(received: &Received<'_>) -> Means {
    match received.status.as_u16() {
        202 if is_accepted(received) => Means::InProgress,
        // The request is to be sent elsewhere: here nothing was done with it.
        307 | 308 => Means::Refused,
        200..=399 => Means::Succeeded,
        401 | 403 | 407 | 431 => Means::Refused,
        408 | 421 | 425 | 429 => Means::NotDone,
        400..=499 => Means::Rejected,
        503 if received.headers.contains_key(header::RETRY_AFTER) => Means::NotDone,
        _ => Means::Unknown,
    }
}

/// The layer's own 202. A service's 202 has no `Location` that is the operation's page.
fn is_accepted(received: &Received<'_>) -> bool {
    let page = received.text(&OPERATION);
    page.is_some()
        && page == received.text(&header::LOCATION)
        && received.headers.contains_key(header::RETRY_AFTER)
}

/// What an operation's page says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Page {
    /// It has ended: the request, sent again under its key, gets the result.
    Settled,
    /// Nothing happened and the key is free: the request may be sent again.
    Free,
    /// It runs.
    Running {
        /// Not to come back before this time has passed.
        retry_after: Option<Duration>,
    },
    /// Nobody knows yet.
    Unknown {
        /// Not to come back before this time has passed.
        retry_after: Option<Duration>,
    },
    /// There is no such page (any more), or it may not be seen.
    Gone,
}

/// Reads an operation's page (`GET /operations/{id}`).
pub fn read_page(received: Received<'_>, now: Duration) -> Page {
    let asked = match retry_after::read(received.headers, None, now) {
        Asked::Wait(wait) => Some(wait),
        Asked::Nothing => None,
    };
    if received.status.is_server_error() || received.status == StatusCode::TOO_MANY_REQUESTS {
        return Page::Running { retry_after: asked };
    }
    let json: Value = match serde_json::from_slice(received.body) {
        Ok(json) if received.status == StatusCode::OK => json,
        _ => return Page::Gone,
    };
    let retry_after = asked.or_else(|| waits(&json["retry_after_ms"]));
    match json["state"].as_str() {
        Some("succeeded" | "rejected") => Page::Settled,
        Some("failed") if json["answers"]["new_attempt"] == "no" => Page::Settled,
        Some("failed") => Page::Free,
        Some("received" | "processing") => Page::Running { retry_after },
        Some("outcome_unknown") => Page::Unknown { retry_after },
        _ => Page::Gone,
    }
}

#[cfg(test)]
mod tests;
