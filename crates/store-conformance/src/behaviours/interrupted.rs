//! Attempts that were interrupted and may be resumed.

use std::time::Duration;

use onefold_core::contract::OnStale;
use onefold_core::{OperationId, State};
use onefold_store::{Promise, Step};

use crate::fixture::{Fixture, LEASE, PROMISE, RUNNING, settle};

async fn resumable(f: &Fixture, key: &str) -> OperationId {
    let mut claim = f.claim(key);
    claim.promise = Promise { on_stale: OnStale::Resume, ..PROMISE };
    f.won_as(claim).await
}

async fn found(f: &Fixture, operations: &[&str], limit: u32) -> Vec<OperationId> {
    let operations: Vec<String> = operations.iter().map(|name| (*name).to_owned()).collect();
    let found = f.store.interrupted(&operations, limit).await.expect("the store works");
    found.iter().map(|record| record.id).collect()
}

/// Whatever else is over, or of another operation, is not.
pub async fn attempt_that_may_be_resumed_is_found_once_its_lease_is_over(f: Fixture) {
    let id = resumable(&f, "k-1").await;
    f.won("k-2").await;
    let ended = resumable(&f, "k-3").await;
    f.done(ended, RUNNING, 1, settle(State::Succeeded)).await;
    assert!(found(&f, &["CreateOrder"], 10).await.is_empty(), "it is alive");
    f.pass(LEASE);
    assert_eq!(found(&f, &["CreateOrder"], 10).await, [id]);
    assert_eq!(found(&f, &["Refund", "CreateOrder"], 10).await, [id], "it changes nothing");
    assert!(found(&f, &["Refund"], 10).await.is_empty());
    let record = f.store.interrupted(&["CreateOrder".into()], 10).await.expect("the store works").pop();
    assert_eq!(record, Some(f.record(id).await));
}

/// One that is interrupted again goes to the end of the line.
pub async fn those_that_wait_longest_come_first_and_are_bounded(f: Fixture) {
    let mut ids = Vec::new();
    for key in ["k-1", "k-2", "k-3"] {
        ids.push(resumable(&f, key).await);
        f.pass(Duration::from_secs(1));
    }
    for id in [ids[1], ids[0], ids[2]] {
        f.done(id, RUNNING, 1, Step::Lapse).await;
        f.pass(Duration::from_secs(1));
    }
    assert_eq!(found(&f, &["CreateOrder"], 10).await, [ids[1], ids[0], ids[2]]);
    assert_eq!(found(&f, &["CreateOrder"], 2).await, [ids[1], ids[0]]);
    assert!(found(&f, &["CreateOrder"], 0).await.is_empty());
}
