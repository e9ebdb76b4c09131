//! The loop beside the requests: it marks lost outcomes, writes counters, sets gauges and sweeps. Nothing needs it
//! to be right.

use onefold_core::contract::Retention;
use onefold_core::{Contract, Decision, EventKind, Expiry, State};
use onefold_engine::Verdict;
use tokio::time::sleep;

use crate::world::*;

#[tokio::test(start_paused = true)]
async fn keeper_marks_attempts_whose_lease_is_over() {
    let world = World::new();
    let (silent, store) = world.flaky();
    store.next_times(1000, Asked::Renew, Fault::Unavailable);
    let unknown = keyed(Contract { lease: secs(3), ..contract() }, "k-1", "3 apples");
    let resumed = keyed(resumable(), "k-2", "3 apples");
    let _attempts = [begin(&silent, &unknown).await, begin(&silent, &resumed).await];
    let engine = world.engine();
    let _keeper = engine.keep(secs(60));
    sleep(millis(2500)).await;
    assert_eq!(record(&engine, &unknown).await.state, State::Processing, "its lease still runs");
    sleep(secs(2)).await;
    assert_eq!(record(&engine, &unknown).await.state, State::OutcomeUnknown);
    assert_eq!(events(&engine, &unknown).await[0].kind, EventKind::Unknown);
    assert_eq!(record(&engine, &resumed).await.state, State::Processing, "it waits for the next attempt");
}

#[tokio::test(start_paused = true)]
async fn keeper_marks_attempts_though_the_store_is_slow_about_claims_that_were_not_heard_of() {
    let world = World::new();
    let (silent, renews) = world.flaky();
    renews.next_times(1000, Asked::Renew, Fault::Unavailable);
    let (engine, store) = world.flaky();
    store.next(Asked::Claim, Fault::Unavailable);
    assert!(enter(&engine, &keyed(contract(), "k-1", "3 apples")).await.is_err());
    let order = keyed(Contract { lease: secs(3), ..contract() }, "k-2", "3 apples");
    let _attempt = begin(&silent, &order).await;
    store.next_times(1000, Asked::Read, Fault::ToldLate(secs(3600)));
    let _keeper = engine.keep(secs(3600));
    sleep(secs(10)).await;
    assert_eq!(record(&world.engine(), &order).await.state, State::OutcomeUnknown);
}

#[tokio::test(start_paused = true)]
async fn keeper_leaves_live_attempts_alone() {
    let engine = World::new().engine();
    let order = call(Contract { lease: secs(1), ..contract() }, "3 apples");
    let _keeper = engine.keep(secs(1));
    let attempt = begin(&engine, &order).await;
    sleep(secs(30)).await;
    assert_eq!(recorded(attempt.settle(placed("order 5001")).await).state, State::Succeeded);
}

#[tokio::test(start_paused = true)]
async fn gauges_say_what_stands_and_how_old_the_oldest_unknown_is() {
    let engine = World::new().engine();
    let [lost, running] = ["k-1", "k-2"].map(|key| keyed(contract(), key, "3 apples"));
    let attempt = begin(&engine, &lost).await;
    let id = attempt.id();
    recorded(attempt.settle(Verdict::unknown("hung up")).await);
    let _attempt = begin(&engine, &running).await;
    let _keeper = engine.keep(secs(60));
    sleep(millis(10_500)).await;
    assert_eq!((metric(&engine, "unknown"), metric(&engine, "processing")), (1, 1));
    assert_eq!(metric(&engine, "unknown_oldest_age_seconds"), 10);
    engine.resolve(id, crate::acts::resolution(onefold_engine::ResolvedAs::Failed)).await.unwrap();
    sleep(secs(1)).await;
    assert_eq!(metric(&engine, "unknown"), 0);
    assert_eq!(metric(&engine, "unknown_oldest_age_seconds"), 0);
}

#[tokio::test(start_paused = true)]
async fn keeper_writes_counters_and_sweeps_what_has_expired() {
    let engine = World::new().engine();
    let order = call(Contract { retention: Retention::For(secs(60)), ..contract() }, "3 apples");
    recorded(begin(&engine, &order).await.settle(placed("order 5001")).await);
    let keeper = engine.keep(secs(10));
    decision(&engine, &order).await;
    sleep(secs(2)).await;
    assert_eq!(record(&engine, &order).await.counters.replays, 1);
    sleep(secs(70)).await;
    let tombstone = record(&engine, &order).await;
    assert_eq!((tombstone.fingerprint, tombstone.kept), (None, onefold_core::Kept::Nothing));
    assert_eq!(decision(&engine, &order).await, Decision::Expired(Expiry::Tombstone));
    drop(keeper);
    sleep(secs(31 * 86_400)).await;
    let _keeper = engine.keep(secs(10));
    sleep(secs(12)).await;
    assert!(shown(&engine, &order).await.is_none(), "a tombstone is kept for 30 days");
}

#[tokio::test(start_paused = true)]
async fn long_sweep_rests_after_each_step_and_holds_up_nothing_else() {
    const STEP: u64 = 200;
    let (engine, store) = World::new().flaky();
    for n in 0..1000 {
        let short = Contract { retention: Retention::For(secs(1)), ..contract() };
        let order = keyed(short, &format!("k-{n}"), "3 apples");
        recorded(begin(&engine, &order).await.settle(placed("order 5001")).await);
    }
    store.next_times(100, Asked::Sweep, Fault::Late(millis(STEP)));
    let _keeper = engine.keep(secs(1));
    sleep(millis(1000 + 5 * STEP * 5 - 1)).await;
    assert_eq!(store.seen(Asked::Sweep), 5, "a fifth of the time");
    let lag = metric(&engine, "sweep_lag_seconds");
    assert!(lag >= 4, "the gauges go on: {lag}");
    sleep(secs(40)).await;
    assert!(store.seen(Asked::Sweep) > 10);
    assert_eq!(metric(&engine, "sweep_lag_seconds"), 0, "in the end all is swept");
}

#[tokio::test(start_paused = true)]
async fn keeper_ends_when_it_is_dropped() {
    let (engine, store) = World::new().flaky();
    let order = call(contract(), "3 apples");
    recorded(begin(&engine, &order).await.settle(placed("order 5001")).await);
    let keeper = engine.keep(secs(60));
    drop(keeper);
    decision(&engine, &order).await;
    sleep(secs(10)).await;
    assert_eq!(store.seen(Asked::Count), 0);
}
