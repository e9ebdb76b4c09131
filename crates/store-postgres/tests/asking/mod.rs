//! A store of a test, and the few words in which it is asked.

#![allow(dead_code, reason = "each test file uses some of it")]

use std::time::Duration;

use onefold_core::contract::{OnStale, Retention};
use onefold_core::key::KeyTime;
use onefold_core::{Answer, FingerprintBuilder, Identity, IdentityKey, Kept, Key, OperationId, Scope, State};
use onefold_store::{Advance, Also, Claim, NewEvent, OperationStore, Promise, Start, Step};
use onefold_store_postgres::{Address, OpenError, Options, PostgresStore};

pub const RUNNING: &[State] = &[State::Processing];

pub async fn open(url: &str) -> PostgresStore {
    open_with(url, Options::default()).await.expect("the store opens")
}

pub async fn open_with(url: &str, options: Options) -> Result<PostgresStore, OpenError> {
    PostgresStore::open(&Address::parse(url).expect("an address"), options).await
}

pub fn claim(store: &PostgresStore, key: &str) -> Claim {
    let scope = Scope::new([("tenant", "acme")]);
    let key = Key::new(key).expect("a valid key");
    let identity = Identity { scope, operation: "CreateOrder".into(), key };
    Claim {
        id: identity.id(store.identity_key(), KeyTime::Off),
        scope: identity.scope,
        operation: identity.operation,
        key: identity.key,
        correlation_id: None,
        fingerprint: FingerprintBuilder::new(&IdentityKey::none()).part("body", b"x").finish(),
        ignored: Vec::new(),
        owner: "process-1".into(),
        lease: Duration::from_secs(30),
        promise: Promise {
            on_stale: OnStale::Unknown,
            retention: Retention::For(Duration::from_secs(3600)),
            tombstone: Duration::from_secs(3600),
        },
        live_keys_max: None,
        key_expires_at: None,
    }
}

pub fn settle(id: OperationId, body: &[u8], if_superseded: Option<NewEvent>) -> Advance {
    let answer = Answer { status: 201, headers: Vec::new(), body: body.to_vec(), trailers: Vec::new() };
    Advance {
        id,
        start: Start { states: RUNNING, attempt: 1, also: Also::Nothing },
        step: Step::Settle { state: State::Succeeded, kept: Kept::Full(answer), resource: None },
        event: None,
        if_superseded,
    }
}
