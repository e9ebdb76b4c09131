//! B132: everything expires at once, and the gateways that share a store sweep it together.

use std::time::Duration;

use onefold_e2e::{assert_fresh, assert_replay, gateway_on, order, setup_on, twins};
use onefold_testkit::expired::{self, Then};
use onefold_testkit::{Gateway, Store, Upstream, on_each_store, wait};

on_each_store!(b132_sweepers_of_many_gateways_do_not_disturb_each_other);

/// How many records expire, where it is not said: the full number is 1 000 000, which takes long.
const VARIABLE: &str = "ONEFOLD_EXPIRED";
const EXPIRED: u32 = 20_000;
/// Records that one transaction of a sweeper may change, in any store.
const BATCH_MAX: u64 = 500;
/// How long the sweep of as many as [`EXPIRED`] may take.
const SWEPT_WITHIN: Duration = Duration::from_secs(120);

/// The sessions that sweep end in between, as after an error between selecting and deleting.
const END_SWEEPERS: &str = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid() AND query LIKE '%SKIP LOCKED%'";
const BIGGEST_BATCH: &str = "SELECT coalesce(max(records), 0) FROM (
        SELECT count(*) AS records FROM onefold.operations WHERE scope IS NULL GROUP BY xmin
    ) batches";
const DEADLOCKS: &str = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()";

async fn b132_sweepers_of_many_gateways_do_not_disturb_each_other(store: &Store) {
    let said = std::env::var(VARIABLE).ok().and_then(|text| text.parse().ok());
    let expired = said.unwrap_or(EXPIRED);
    let upstream = Upstream::start().await;
    let mut first = gateway_on(store, &upstream, "").await;
    let mut live = Vec::new();
    for nth in 0..20 {
        let request = order(&format!("live-{nth}"));
        let answer = first.send(&request).await;
        assert_fresh(&answer, 200);
        live.push((request, answer));
    }
    first.kill();
    expired::make(store.url(), expired / 2, Then::Buried).await;
    expired::make(store.url(), expired / 2, Then::Deleted).await;

    let limits = "[limits]\nlive_keys_per_scope = 100000000";
    let setup = setup_on(store, &upstream, "").store("sweep_every = \"1s\"").section(limits);
    let mut gateways = twins(setup, 4).await;
    let mut orders = 0;
    wait::until_within(SWEPT_WITHIN * (1 + expired / EXPIRED), "everything is swept", async || {
        let due = expired::due(store.url()).await;
        if due < u64::from(expired) && gateways.len() == 4 {
            lose_a_sweeper(store, &mut gateways).await;
        }
        let answer = gateways[orders % gateways.len()].send(&order(&format!("k-{orders}"))).await;
        assert!([200, 503].contains(&answer.status), "the foreground goes on: {answer}");
        orders += 1;
        due == 0
    })
    .await;
    assert_eq!(gateways.len(), 3, "it was swept before a sweeper could be lost");

    let counted = expired::count(store.url()).await;
    assert_eq!(counted.tombstones, u64::from(expired / 2), "{counted:?}");
    assert_eq!(counted.live, counted.in_scopes, "each was taken from its scope once: {counted:?}");
    for (request, answer) in &live {
        assert_replay(&gateways[0].send(request).await, answer);
    }
    for gateway in &gateways {
        wait::until_within(wait::DEADLINE, "the lag is gone", async || {
            gateway.metrics().await.sum("onefold_sweep_lag_seconds") == 0.0
        })
        .await;
        assert!(!gateway.log().contains("40P01"), "{}", gateway.log());
    }
    if let Some(database) = store.database() {
        assert_eq!(database.ask(DEADLOCKS).await, "0");
        let biggest: u64 = database.ask(BIGGEST_BATCH).await.parse().expect("a count");
        assert!((1..=BATCH_MAX).contains(&biggest), "{biggest} records in one transaction");
    }
}

/// One of the sweepers is killed at its work, and on a server the sessions of the others are ended.
async fn lose_a_sweeper(store: &Store, gateways: &mut Vec<Gateway>) {
    gateways.pop().expect("there are some").kill();
    if let Some(database) = store.database() {
        database.ask(END_SWEEPERS).await;
    }
}
