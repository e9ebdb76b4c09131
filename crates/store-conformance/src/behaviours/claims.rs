//! A claim is won once, and whoever loses it sees what is there.

use std::time::Duration;

use onefold_core::{Counters, Kept, Lease, OperationId, Reconciliation, Record, State, StoreTime};
use onefold_store::{Claim, Claimed};

use crate::fixture::{Fixture, LEASE, START, answer, fingerprint};

/// Of 32 claims at once one wins, and the others find a record.
pub async fn claim_is_won_once_by_many_claimers(f: Fixture) {
    let mut claims = tokio::task::JoinSet::new();
    for claimer in 0..32 {
        let (store, mut claim) = (f.store.clone(), f.claim("k"));
        claim.owner = format!("process-{claimer}");
        claims
            .spawn(async move { (claim.owner.clone(), store.claim(claim).await.expect("the store works")) });
    }
    let mut winners = Vec::new();
    let mut seen = Vec::new();
    for (owner, claimed) in claims.join_all().await {
        match claimed {
            Claimed::Won { .. } => winners.push(owner),
            Claimed::Exists(read) => seen.push(read.record.expect("the record exists").owner),
            refused => panic!("nothing speaks against the claim: {refused:?}"),
        }
    }
    assert_eq!(winners.len(), 1, "one claim wins: {winners:?}");
    assert_eq!(seen.len(), 31);
    assert!(seen.iter().all(|owner| *owner == winners[0]), "everybody sees the winner");
}

/// The loser gets the record as it is, and has changed nothing of it.
pub async fn loser_of_a_claim_sees_the_winners_record(f: Fixture) {
    f.won("k").await;
    let mut loser = f.claim("k");
    loser.fingerprint = fingerprint("another");
    loser.owner = "process-2".into();
    let id = loser.id;
    let Claimed::Exists(read) = f.store.claim(loser).await.expect("the store works") else {
        panic!("the key is taken")
    };
    let record = read.record.expect("the record is there");
    assert_eq!(record.owner, "process-1");
    assert_eq!(record.fingerprint, Some(fingerprint("first")));
    assert_eq!(record.lease, Lease::Alive(LEASE));
    assert_eq!(f.record(id).await, record);
}

/// The store's own time judges, from the very moment on, and a record that exists is found however old its key is.
pub async fn key_that_is_too_old_makes_no_record(f: Fixture) {
    f.won("known").await;
    f.pass(LEASE);
    let now = f.now().await;
    let old = |key: &str, at: StoreTime| Claim { key_expires_at: Some(at), ..f.claim(key) };
    assert_eq!(f.store.claim(old("new", now)).await.expect("the store works"), Claimed::KeyTooOld { now });
    assert!(matches!(f.store.claim(old("known", now)).await.expect("the store works"), Claimed::Exists(_)));
    let later = now.plus(Duration::from_millis(1));
    assert!(matches!(f.store.claim(old("new", later)).await.expect("the store works"), Claimed::Won { .. }));
}

/// Nothing that a claim says is lost or changed.
pub async fn claim_keeps_everything_it_was_given(f: Fixture) {
    let claim = f.claim("k");
    let expected = Record {
        id: claim.id,
        scope: claim.scope.clone(),
        operation: claim.operation.clone(),
        key: Some(claim.key.clone()),
        correlation_id: claim.correlation_id.clone(),
        fingerprint: Some(claim.fingerprint),
        ignored: claim.ignored.clone(),
        state: State::Processing,
        attempt: 1,
        owner: claim.owner.clone(),
        lease: Lease::Alive(LEASE),
        on_stale: claim.promise.on_stale,
        reconciliation: Reconciliation::Open,
        resource: None,
        kept: Kept::Nothing,
        created_at: START,
        begun_at: Some(START),
        completed_at: None,
        expires_at: None,
        counters: Counters::default(),
    };
    f.won_as(claim).await;
    assert_eq!(f.record(expected.id).await, expected);
}

/// A claim of a finished record shows the result.
pub async fn claim_of_a_finished_record_shows_its_result(f: Fixture) {
    let id = f.settled("k", State::Succeeded).await;
    let Claimed::Exists(read) = f.store.claim(f.claim("k")).await.expect("the store works") else {
        panic!("the key is taken")
    };
    let record = f.record(id).await;
    assert_eq!((record.state, &record.kept), (State::Succeeded, &Kept::Full(answer(b"{}"))));
    assert_eq!(read.record, Some(record));
}

/// Reading what is not there tells the time and nothing else.
pub async fn absent_record_reads_as_absent_with_the_time(f: Fixture) {
    let read = f.store.read(OperationId::from_bytes([1; 32])).await.expect("the store works");
    assert_eq!((read.now, read.record), (START, None));
}
