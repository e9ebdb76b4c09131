//! Everything that one operation promises (SEMANTICS 6), with its defaults and what makes a contract unsafe.
//!
//! A contract is plain data. Limits and defaults stand here and nowhere else; the documentation prints them.

mod check;
mod look_up;
mod remember;

use std::time::Duration;

use crate::key::{KeySyntax, KeyTime};
use crate::retry::Backoff;

pub use check::{Finding, RETRY_HORIZON, Severity};
pub use look_up::{Authorize, LookUp, NotATemplate, UrlTemplate, Variable};
pub use remember::{Meaning, Remember, StatusPattern};

/// Smallest lease and retention.
pub const DURATION_MIN: Duration = Duration::from_secs(1);
/// Default lease.
pub const LEASE: Duration = Duration::from_secs(30);
/// Default retention: 7 days.
pub const RETENTION: Duration = Duration::from_secs(7 * 86_400);
/// How long a tombstone is kept after the retention: 30 days.
pub const TOMBSTONE: Duration = Duration::from_secs(30 * 86_400);
/// Default wait of a duplicate for a running attempt.
pub const WAIT: Duration = Duration::from_secs(5);
/// Default limit of a kept answer's body, in bytes.
pub const KEPT_BODY_MAX: u64 = 1 << 20;
/// The header that carries the key unless the contract names another.
pub const KEY_HEADER: &str = "Idempotency-Key";

/// The shortest shared secret under which a token verifies, in bytes: what the smallest digest gives (RFC 7518, 3.2).
pub const TOKEN_SECRET_BYTES_MIN: usize = 32;

/// Where a part of the scope comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScopeSource {
    /// The digest of the whole Authorization value.
    Credential,
    /// A cookie's value.
    Cookie(String),
    /// A header's value, from trusted proxies only.
    Header(String),
    /// A claim of the caller's token, whose signature was verified.
    Claim(String),
    /// A named segment of the path.
    Path(String),
    /// Everybody, by explicit choice.
    Shared,
}

/// Which carriers may hold the key, and how it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRule {
    /// Header names, in order. Several carriers must agree.
    pub headers: Vec<String>,
    /// A JSON pointer into the request body.
    pub body: Option<String>,
    /// Whether a request without a key is refused.
    pub required: bool,
    /// How the header may be written.
    pub syntax: KeySyntax,
    /// Which keys carry a time; a key that says itself that it is older than the retention is refused.
    pub time: KeyTime,
}

/// How the body takes part in the fingerprint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BodyRule {
    /// By content type.
    #[default]
    Auto,
    /// Canonical JSON, whatever the content type says.
    Json,
    /// Form fields.
    Form,
    /// Multipart parts.
    Multipart,
    /// The raw bytes.
    Bytes,
}

/// What belongs to the fingerprint beside method, path, query and media type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FingerprintRule {
    /// How the body counts.
    pub body: BodyRule,
    /// JSON pointers (or `/field` names) that do not count.
    pub ignore: Vec<String>,
    /// Headers that count.
    pub headers: Vec<String>,
}

/// What a duplicate meets while the first attempt runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhileRunning {
    /// It waits at most this long, then is told `in-progress`.
    Wait(Duration),
    /// It is told `in-progress` at once.
    Busy,
    /// It is told 202 and where to poll.
    Accepted,
}

/// What a duplicate of a finished operation gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ResponsePolicy {
    /// The kept answer.
    #[default]
    Original,
    /// The resource, read again.
    Current,
    /// The state of the operation.
    Status,
}

/// What follows when a lease ends without an outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnStale {
    /// The outcome is unknown; a person or a reconciler settles it.
    #[default]
    Unknown,
    /// The outcome is unknown until a reconciler, or a person, has settled it. The contract names the reconciler.
    Reconcile,
    /// The next attempt begins under the same downstream key. Only where the other side honours that key.
    Resume,
}

/// How long a finished record answers duplicates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retention {
    /// From completion, for this long.
    For(Duration),
    /// For good.
    Forever,
}

/// What a request meets after the retention.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AfterExpiry {
    /// 410, for as long as the tombstone is kept.
    #[default]
    Reject,
    /// The key is new again.
    New,
}

/// Which parts of an answer are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StoreMode {
    /// Status, headers and body.
    #[default]
    Full,
    /// Status and headers.
    Reference,
    /// Only that it happened.
    None,
}

/// What is kept of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreResponse {
    /// Which parts.
    pub mode: StoreMode,
    /// Longest body that is kept, in bytes.
    pub body_bytes_max: u64,
    /// JSON pointers removed from the body before it is kept.
    pub redact: Vec<String>,
    /// Headers that are not kept.
    pub drop_headers: Vec<String>,
}

/// The key under which the upstream is asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ForwardKey {
    /// The caller's own, unchanged.
    #[default]
    Same,
    /// One derived from the identity, the same in every attempt.
    Derived,
    /// None.
    None,
}

/// Automatic attempts after an attempt that did nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RetryFailed {
    /// How many further attempts are made by themselves.
    pub attempts: u32,
    /// The pauses between them.
    pub backoff: Backoff,
}

/// Everything that one operation promises.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contract {
    /// The operation's name, part of the identity.
    pub operation: String,
    /// The boundary in words: "one order for each key".
    pub boundary: String,
    /// Whose key it is.
    pub scope: Vec<ScopeSource>,
    /// Where the key is and how it is written.
    pub key: KeyRule,
    /// What makes two requests equal.
    pub fingerprint: FingerprintRule,
    /// What duplicates meet while an attempt runs.
    pub while_running: WhileRunning,
    /// What duplicates get afterwards.
    pub response: ResponsePolicy,
    /// What follows a lease that ended without an outcome.
    pub on_stale: OnStale,
    /// How long an attempt owns the operation without a heartbeat.
    pub lease: Duration,
    /// Automatic attempts.
    pub retry_failed: RetryFailed,
    /// Attempts in all; 0 is no maximum.
    pub max_attempts: u32,
    /// What an upstream's answer means.
    pub remember: Remember,
    /// How long the record answers.
    pub retention: Retention,
    /// What follows the retention.
    pub after_expiry: AfterExpiry,
    /// What is kept of the answer.
    pub store_response: StoreResponse,
    /// The key that goes on to the upstream.
    pub forward_key: ForwardKey,
    /// Who is asked what became of an attempt whose outcome is unknown.
    pub reconcile: Option<LookUp>,
    /// Who is asked whether the caller may have a stored answer.
    pub authorize: Option<Authorize>,
}

impl Default for KeyRule {
    fn default() -> KeyRule {
        KeyRule {
            headers: vec![KEY_HEADER.to_owned()],
            body: None,
            required: true,
            syntax: KeySyntax::default(),
            time: KeyTime::default(),
        }
    }
}

impl Default for StoreResponse {
    fn default() -> StoreResponse {
        StoreResponse {
            mode: StoreMode::default(),
            body_bytes_max: KEPT_BODY_MAX,
            redact: Vec::new(),
            drop_headers: Vec::new(),
        }
    }
}

impl Contract {
    /// A contract of the gateway's defaults for this operation and boundary.
    pub fn new(operation: impl Into<String>, boundary: impl Into<String>) -> Contract {
        Contract {
            operation: operation.into(),
            boundary: boundary.into(),
            scope: vec![ScopeSource::Credential],
            key: KeyRule::default(),
            fingerprint: FingerprintRule::default(),
            while_running: WhileRunning::Wait(WAIT),
            response: ResponsePolicy::default(),
            on_stale: OnStale::default(),
            lease: LEASE,
            retry_failed: RetryFailed::default(),
            max_attempts: 0,
            remember: Remember::default(),
            retention: Retention::For(RETENTION),
            after_expiry: AfterExpiry::default(),
            store_response: StoreResponse::default(),
            forward_key: ForwardKey::default(),
            reconcile: None,
            authorize: None,
        }
    }

    /// Whether attempt number `attempt` was the last that the contract allows.
    pub fn exhausted(&self, attempt: u32) -> bool {
        self.max_attempts > 0 && attempt >= self.max_attempts
    }
}
