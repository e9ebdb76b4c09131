//! The quota of live keys of a scope.

use onefold_core::{Scope, State};
use onefold_store::{Advanced, Also, Claim, Claimed, Start};

use crate::fixture::{Fixture, RETENTION, RUNNING, TOMBSTONE, begin, settle};

fn within(claim: Claim, max: u64) -> Claim {
    Claim { live_keys_max: Some(max), ..claim }
}

async fn claimed(f: &Fixture, key: &str, max: u64) -> Claimed {
    f.store.claim(within(f.claim(key), max)).await.expect("the store works")
}

/// Also when all claims come at once.
pub async fn claim_beyond_the_quota_writes_nothing(f: Fixture) {
    let mut claims = tokio::task::JoinSet::new();
    for key in 0..20 {
        let (store, claim) = (f.store.clone(), within(f.claim(&format!("k-{key}")), 5));
        claims.spawn(async move { (claim.id, store.claim(claim).await.expect("the store works")) });
    }
    let mut won = 0;
    for (id, claimed) in claims.join_all().await {
        match claimed {
            Claimed::Won { .. } => won += 1,
            Claimed::QuotaReached => {
                assert_eq!(f.store.read(id).await.expect("the store works").record, None)
            }
            other => panic!("every key is new and young: {other:?}"),
        }
    }
    assert_eq!(won, 5);
}

/// A duplicate is answered, however full the scope is.
pub async fn known_key_is_never_refused_by_the_quota(f: Fixture) {
    f.won("k").await;
    assert!(matches!(claimed(&f, "k", 1).await, Claimed::Exists(_)));
    assert_eq!(claimed(&f, "other", 1).await, Claimed::QuotaReached);
    assert_eq!(claimed(&f, "other", 0).await, Claimed::QuotaReached);
}

/// Room comes with the end of retention.
pub async fn finished_record_counts_until_it_is_a_tombstone(f: Fixture) {
    f.settled("k", State::Succeeded).await;
    assert_eq!(claimed(&f, "other", 1).await, Claimed::QuotaReached);
    f.pass(RETENTION);
    f.store.sweep(100).await.expect("the store works");
    assert!(matches!(claimed(&f, "other", 1).await, Claimed::Won { .. }));
    f.pass(TOMBSTONE);
    assert_eq!(f.store.sweep(100).await.expect("the store works").deleted, 1);
    assert_eq!(claimed(&f, "third", 1).await, Claimed::QuotaReached, "a tombstone gives its room once");
}

/// A retry of a free key is not a new key.
pub async fn record_that_begins_again_counts_once(f: Fixture) {
    let id = f.settled("k", State::Failed).await;
    f.done(id, &[State::Failed], 1, begin()).await;
    f.done(id, RUNNING, 2, settle(State::Succeeded)).await;
    f.pass(RETENTION);
    let expired = Start { states: &[State::Succeeded], attempt: 2, also: Also::Expired };
    assert!(matches!(f.ask_also(id, expired, begin()).await, Advanced::Done { .. }));
    assert!(matches!(claimed(&f, "second", 2).await, Claimed::Won { .. }));
    assert_eq!(claimed(&f, "third", 2).await, Claimed::QuotaReached);
}

/// A tombstone had given its room away.
pub async fn tombstone_that_begins_anew_counts_again(f: Fixture) {
    let id = f.settled("k", State::Succeeded).await;
    f.pass(RETENTION);
    f.store.sweep(100).await.expect("the store works");
    let expired = Start { states: &[State::Succeeded], attempt: 1, also: Also::Expired };
    assert!(matches!(f.ask_also(id, expired, begin()).await, Advanced::Done { .. }));
    assert_eq!(claimed(&f, "other", 1).await, Claimed::QuotaReached);
}

/// One tenant's keys take no other's room.
pub async fn each_scope_has_its_own_quota(f: Fixture) {
    for tenant in ["a", "b"] {
        let claim = |key| within(f.claim_in(Scope::new([("tenant", tenant)]), key), 1);
        f.won_as(claim("k")).await;
        assert_eq!(f.store.claim(claim("other")).await.expect("the store works"), Claimed::QuotaReached);
    }
    f.won_as(within(f.claim_in(Scope::shared(), "k"), 1)).await;
}
