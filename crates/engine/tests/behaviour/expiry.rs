//! Results answer until the end of their retention and no longer; what follows is the contract's word. A key that
//! says itself that it is too old, and one key too many, begin nothing.

use onefold_core::contract::{AfterExpiry, Retention};
use onefold_core::key::KeyTime;
use onefold_core::{Contract, Decision, Expiry, State};
use onefold_engine::{Limits, Refusal};
use tokio::time::sleep;

use crate::world::*;

const HOUR: u64 = 3600;

fn for_an_hour() -> Contract {
    Contract { retention: Retention::For(secs(HOUR)), ..contract() }
}

#[tokio::test(start_paused = true)]
async fn result_is_replayed_until_the_end_of_its_retention_and_then_expired() {
    let engine = World::new().engine();
    let order = call(for_an_hour(), "3 apples");
    recorded(begin(&engine, &order).await.settle(placed("order 5001")).await);
    sleep(secs(HOUR - 1)).await;
    assert_eq!(decision(&engine, &order).await, Decision::Replay);
    sleep(secs(1)).await;
    let expired = Decision::Expired(Expiry::Tombstone);
    assert_eq!(decision(&engine, &order).await, expired);
    assert_eq!(decision(&engine, &call(for_an_hour(), "4 apples")).await, expired, "to any request");
    assert_eq!(metric(&engine, "expired_keys_total"), 2);
    assert_eq!(metric(&engine, "attempts_begun_total"), 1);
}

#[tokio::test(start_paused = true)]
async fn replays_do_not_prolong_the_retention() {
    let engine = World::new().engine();
    let order = call(for_an_hour(), "3 apples");
    recorded(begin(&engine, &order).await.settle(placed("order 5001")).await);
    for _ in 0..4 {
        assert_eq!(decision(&engine, &order).await, Decision::Replay);
        sleep(secs(HOUR / 4)).await;
    }
    assert_eq!(decision(&engine, &order).await, Decision::Expired(Expiry::Tombstone));
}

#[tokio::test(start_paused = true)]
async fn key_is_new_after_its_retention_where_the_contract_says_so() {
    let world = World::new();
    let engine = world.engine();
    let order = call(Contract { after_expiry: AfterExpiry::New, ..for_an_hour() }, "3 apples");
    recorded(begin(&engine, &order).await.settle(placed("order 5001")).await);
    sleep(secs(HOUR)).await;
    let changed = call(Contract { after_expiry: AfterExpiry::New, ..for_an_hour() }, "4 apples");
    let anew = begin(&engine, &changed).await;
    assert_eq!(anew.number(), 2, "the number goes on: it stays a fence");
    let now = record(&engine, &changed).await;
    assert_eq!((now.created_at, now.fingerprint), (anew.created_at(), Some(changed.fingerprint)));
    recorded(anew.settle(placed("order 5002")).await);
    for process in [engine, world.engine()] {
        let known = known(&process, &changed).await;
        assert_eq!(known.record.unwrap().kept, answered(201, "order 5002"));
    }
}

#[tokio::test(start_paused = true)]
async fn business_key_is_remembered_for_good() {
    let engine = World::new().engine();
    let order = call(Contract { retention: Retention::Forever, ..contract() }, "3 apples");
    recorded(begin(&engine, &order).await.settle(placed("order 5001")).await);
    sleep(secs(1000 * 86_400)).await;
    assert_eq!(decision(&engine, &order).await, Decision::Replay);
}

#[tokio::test(start_paused = true)]
async fn memory_of_a_finished_record_does_not_outlive_its_retention() {
    let world = World::new();
    let engine = world.engine();
    let order = call(Contract { retention: Retention::For(secs(1)), ..contract() }, "3 apples");
    recorded(begin(&engine, &order).await.settle(placed("order 5001")).await);
    sleep(millis(900)).await;
    let reader = world.engine();
    for process in [&engine, &reader] {
        assert_eq!(decision(process, &order).await, Decision::Replay);
    }
    sleep(millis(100)).await;
    for process in [&engine, &reader] {
        assert_eq!(decision(process, &order).await, Decision::Expired(Expiry::Tombstone));
    }
}

#[tokio::test(start_paused = true)]
async fn memory_does_not_outlive_the_retention_when_the_store_was_slow_to_tell() {
    let world = World::new();
    let order = call(Contract { retention: Retention::For(secs(2)), ..contract() }, "3 apples");
    let (writer, slow) = world.flaky();
    slow.next(Asked::Settle, Fault::ToldLate(secs(1)));
    let (reader, slow) = world.flaky();
    let attempt = begin(&writer, &order).await;
    slow.next(Asked::Read, Fault::ToldLate(secs(1)));
    let (_, read) = tokio::join!(attempt.settle(placed("order 5001")), async {
        settle_down().await;
        decision(&reader, &order).await
    });
    assert_eq!(read, Decision::Replay);
    sleep(secs(1)).await;
    for process in [&writer, &reader] {
        assert_eq!(decision(process, &order).await, Decision::Expired(Expiry::Tombstone));
    }
}

#[tokio::test(start_paused = true)]
async fn free_key_and_unknown_outcome_do_not_expire_into_a_refusal() {
    let engine = World::new().engine();
    let free = keyed(Contract { after_expiry: AfterExpiry::New, ..for_an_hour() }, "k-1", "3 apples");
    recorded(begin(&engine, &free).await.settle(not_done("try again")).await);
    let unknown = keyed(for_an_hour(), "k-2", "3 apples");
    drop(begin(&engine, &unknown).await);
    sleep(secs(2 * HOUR)).await;
    assert_eq!(begin(&engine, &free).await.number(), 2);
    assert_eq!(decision(&engine, &unknown).await, Decision::Unknown);
}

/// A UUIDv7 that was made so many hours before the test began.
fn uuid_of_hours_ago(hours: u64) -> String {
    let made_at = START.0 - i64::try_from(hours * HOUR * 1000).unwrap();
    format!("{:08x}-{:04x}-7000-8000-000000000001", made_at >> 16, made_at & 0xffff)
}

#[tokio::test(start_paused = true)]
async fn key_that_says_itself_that_it_is_older_than_the_retention_begins_nothing() {
    let engine = World::new().engine();
    let old = keyed(for_an_hour(), &uuid_of_hours_ago(1), "3 apples");
    let known = known(&engine, &old).await;
    let Decision::Expired(Expiry::KeyTooOld { made_at }) = known.decision else {
        panic!("{:?}", known.decision)
    };
    assert_eq!(made_at.until(known.now), secs(HOUR));
    assert!(known.record.is_none());
    assert!(shown(&engine, &old).await.is_none());
    assert_eq!(metric(&engine, "expired_keys_total"), 1);

    let off = Contract {
        key: onefold_core::contract::KeyRule { time: KeyTime::Off, ..for_an_hour().key },
        ..for_an_hour()
    };
    begin(&engine, &keyed(off, &uuid_of_hours_ago(1), "3 apples")).await;
}

#[tokio::test(start_paused = true)]
async fn key_whose_time_is_within_the_retention_is_an_ordinary_key() {
    let engine = World::new().engine();
    let young = keyed(
        Contract { retention: Retention::For(secs(2 * HOUR)), ..contract() },
        &uuid_of_hours_ago(1),
        "3",
    );
    recorded(begin(&engine, &young).await.settle(placed("order 5001")).await);
    sleep(secs(HOUR + 1)).await;
    assert_eq!(decision(&engine, &young).await, Decision::Replay, "its record decides, not its time");
}

#[tokio::test(start_paused = true)]
async fn one_key_too_many_in_a_scope_begins_nothing() {
    let engine = World::new().limited(Limits { live_keys_per_scope: Some(2), ..Limits::default() });
    let [one, two, three] = ["k-1", "k-2", "k-3"].map(|key| keyed(contract(), key, "3 apples"));
    let _running = begin(&engine, &one).await;
    recorded(begin(&engine, &two).await.settle(placed("order 5001")).await);
    assert!(matches!(enter(&engine, &three).await, Err(Refusal::TooManyKeys)));
    assert!(shown(&engine, &three).await.is_none());
    assert_eq!(decision(&engine, &two).await, Decision::Replay, "known keys are answered");
    let mut elsewhere = three.clone();
    elsewhere.identity.scope = onefold_core::Scope::new([("tenant", "other")]);
    let other = begin(&engine, &elsewhere).await;
    assert_eq!(recorded(other.settle(placed("order 1")).await).state, State::Succeeded);
}
