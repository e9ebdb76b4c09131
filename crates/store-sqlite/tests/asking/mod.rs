//! What the tests of the SQLite store share: claims and transitions of a plain kind.
#![allow(dead_code, reason = "each test file uses its part")]

use std::io::Write;
use std::time::Duration;

use onefold_core::contract::{OnStale, Retention};
use onefold_core::key::KeyTime;
use onefold_core::{Answer, Fingerprint, Identity, IdentityKey, Kept, Key, OperationId, Scope, State};
use onefold_store::{Advance, Also, Claim, Promise, Start, Step};
use onefold_store_sqlite::Options;

pub const LEASE: Duration = Duration::from_secs(30);
pub const RETENTION: Duration = Duration::from_secs(3600);
pub const RUNNING: &[State] = &[State::Processing];

pub fn options() -> Options {
    Options::default()
}

pub fn claim(key: &str) -> Claim {
    let identity = Identity {
        scope: Scope::new([("tenant", "acme")]),
        operation: "CreateOrder".into(),
        key: Key::new(key).unwrap(),
    };
    let id = identity.id(&IdentityKey::none(), KeyTime::Off);
    Claim {
        id,
        scope: identity.scope,
        operation: identity.operation,
        key: identity.key,
        correlation_id: None,
        fingerprint: Fingerprint { version: 1, digest: *id.as_bytes() },
        ignored: Vec::new(),
        owner: "process-1".into(),
        lease: LEASE,
        promise: Promise {
            on_stale: OnStale::Unknown,
            retention: Retention::For(RETENTION),
            tombstone: RETENTION,
        },
        live_keys_max: None,
        key_expires_at: None,
    }
}

pub fn settle(id: OperationId, attempt: u32, body: &[u8]) -> Advance {
    let kept = Kept::Full(Answer { status: 201, body: body.to_vec(), ..Answer::default() });
    ask(id, attempt, Step::Settle { state: State::Succeeded, kept, resource: None })
}

pub fn ask(id: OperationId, attempt: u32, step: Step) -> Advance {
    let start = Start { states: RUNNING, attempt, also: Also::Nothing };
    Advance { id, start, step, event: None, if_superseded: None }
}

/// Says that a test could not run here.
pub fn skipped(what: &str, why: &str) {
    let line = format!("SKIPPED: {what}: {why}\n");
    eprint!("{line}");
    if let Some(file) = std::env::var_os("ONEFOLD_SKIPS") {
        let file = std::fs::OpenOptions::new().append(true).create(true).open(file);
        file.and_then(|mut file| file.write_all(line.as_bytes())).unwrap();
    }
}
