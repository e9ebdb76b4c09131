//! Lists and their pages.

use std::time::Duration;

use onefold_core::{Kept, Lease, Record, Resource, Scope, State};
use onefold_store::{Claim, Query, Step};

use crate::fixture::{Fixture, LEASE, RUNNING, answer, settle};

fn query() -> Query {
    Query { limit: 1000, ..Query::default() }
}

async fn all(f: &Fixture, query: Query) -> Vec<Record> {
    let mut records = Vec::new();
    let mut cursor = None;
    loop {
        let page = f.store.list(Query { cursor, ..query.clone() }).await.expect("the store works");
        assert!(page.records.len() <= query.limit as usize);
        records.extend(page.records);
        match page.next_cursor {
            Some(_) => cursor = page.next_cursor,
            None => return records,
        }
    }
}

fn key(record: Record) -> Option<String> {
    record.key.map(|key| key.as_str().to_owned())
}

async fn keys(f: &Fixture, query: Query) -> Vec<String> {
    all(f, query).await.into_iter().filter_map(key).collect()
}

/// What is there from the beginning to the end of a listing is listed once; what comes meanwhile comes at the end.
pub async fn pages_show_everything_once_while_records_come_and_go(f: Fixture) {
    for key in 0..50 {
        f.won(&format!("old-{key:02}")).await;
        f.pass(Duration::from_millis(1));
    }
    let mut seen = Vec::new();
    let mut cursor = None;
    for round in 0.. {
        let page = f.store.list(Query { cursor, limit: 7, ..query() }).await.expect("the store works");
        seen.extend(page.records.into_iter().filter_map(key));
        if page.next_cursor.is_none() {
            break;
        }
        cursor = page.next_cursor;
        if round < 5 {
            f.won(&format!("new-{round}")).await;
        }
    }
    let old: Vec<String> = (0..50).map(|key| format!("old-{key:02}")).collect();
    assert_eq!(seen[..50], old, "in the order of making");
    assert_eq!(seen[50..], ["new-0", "new-1", "new-2", "new-3", "new-4"]);
    let page = f.store.list(Query { limit: 55, ..query() }).await.expect("the store works");
    assert_eq!(
        (page.records.len(), page.next_cursor),
        (55, None),
        "a full last page says that it is the last"
    );
}

/// Each filter by itself.
pub async fn every_filter_narrows_the_list(f: Fixture) {
    f.settled("done", State::Succeeded).await;
    f.pass(Duration::from_secs(10));
    let other = Scope::new([("tenant", "b,c=d"), ("user", "x")]);
    let claim = Claim { operation: "Refund".into(), ..f.claim_in(other.clone(), "other") };
    let id = f.won_as(claim).await;
    let resource = Some(Resource { kind: "location".into(), id: "/orders/7".into() });
    f.done(id, RUNNING, 1, Step::Settle { state: State::Rejected, kept: Kept::Nothing, resource }).await;
    let unknown = f.won("unknown").await;
    f.done(unknown, RUNNING, 1, Step::LoseOutcome).await;
    f.pass(Duration::from_secs(10));
    f.won("running").await;

    assert_eq!(keys(&f, query()).await, ["done", "other", "unknown", "running"]);
    for (state, key) in [
        (State::Succeeded, "done"),
        (State::Rejected, "other"),
        (State::OutcomeUnknown, "unknown"),
        (State::Processing, "running"),
    ] {
        assert_eq!(keys(&f, Query { state: Some(state), ..query() }).await, [key]);
    }
    assert_eq!(keys(&f, Query { state: Some(State::Failed), ..query() }).await, [""; 0]);
    assert_eq!(keys(&f, Query { operation: Some("Refund".into()), ..query() }).await, ["other"]);
    assert_eq!(keys(&f, Query { operation: Some("refund".into()), ..query() }).await, [""; 0]);
    assert_eq!(keys(&f, Query { scope: Some(other.to_string()), ..query() }).await, ["other"]);
    assert_eq!(keys(&f, Query { key: Some("done".into()), ..query() }).await, ["done"]);
    assert_eq!(keys(&f, Query { resource: Some("/orders/7".into()), ..query() }).await, ["other"]);
    let older = |seconds| Query { older_than: Some(Duration::from_secs(seconds)), ..query() };
    assert_eq!(keys(&f, older(20)).await, ["done"]);
    assert_eq!(keys(&f, older(10)).await, ["done", "other", "unknown"]);
}

/// Every condition that is given must hold, on every page.
pub async fn filters_hold_together(f: Fixture) {
    for key in 0..30 {
        let id = f.won(&format!("k-{key}")).await;
        if key % 3 == 0 {
            f.done(id, RUNNING, 1, Step::LoseOutcome).await;
        }
        f.won_as(f.claim_in(Scope::shared(), &format!("shared-{key}"))).await;
    }
    let both =
        Query { state: Some(State::OutcomeUnknown), scope: Some("tenant=acme".into()), limit: 3, ..query() };
    let expected: Vec<String> = (0..30).step_by(3).map(|key| format!("k-{key}")).collect();
    assert_eq!(keys(&f, both).await, expected);
    let running = Query { state: Some(State::Processing), scope: Some("shared".into()), limit: 4, ..query() };
    assert_eq!(all(&f, running).await.len(), 30);
    let none = Query { state: Some(State::Processing), key: Some("k-0".into()), ..query() };
    assert_eq!(keys(&f, none).await, [""; 0]);
}

/// A list shows records as a reading does.
pub async fn list_has_payloads_and_judged_leases(f: Fixture) {
    let id = f.won("done").await;
    let kept = Kept::Full(answer(b"payload"));
    f.done(id, RUNNING, 1, Step::Settle { state: State::Succeeded, kept, resource: None }).await;
    let over = f.won("over").await;
    f.pass(LEASE);
    let failed = f.won("alive").await;
    let records = all(&f, query()).await;
    assert_eq!(records, [f.record(id).await, f.record(over).await, f.record(failed).await]);
    assert_eq!((records[1].lease, records[2].lease), (Lease::Over, Lease::Alive(LEASE)));
    f.done(failed, RUNNING, 1, settle(State::Failed)).await;
}
