//! Rolling upgrades as processes: gateways of this release stay on a store that a later release migrates under them.
//!
//! The later release is its migration alone, as its first process would leave it, with one statement of its own; no
//! second build is made. What a later release does besides is played inside one process by the stores' own tests.

use std::time::Duration;

use onefold_e2e::kill_clients::Clients;
use onefold_e2e::order_service::{Keys, OrderService};
use onefold_e2e::{ROUTE, assert_fresh, assert_problem, assert_replay, order, setup_on, twins};
use onefold_testkit::{Gateway, Setup, Store, Upstream, on_each_store, sql, wait};

on_each_store!(
    gateways_work_on_and_restart_while_a_later_release_migrates_their_store,
    gateways_that_a_migration_shuts_out_run_nothing_and_are_refused_at_their_next_start,
);

const CLIENTS: usize = 8;

/// What a later release adds, and lets this one work beside it.
fn additive(store: &Store) -> String {
    let change = match store.database() {
        Some(_) => {
            "ALTER TABLE onefold.operations ADD COLUMN region bytea;
            CREATE TABLE onefold.regions (name bytea PRIMARY KEY);
            CREATE INDEX operations_region ON onefold.operations (region) WHERE region IS NOT NULL;"
        }
        None => {
            "ALTER TABLE onefold_operations ADD COLUMN region BLOB;
            CREATE TABLE onefold_regions (name BLOB PRIMARY KEY);
            CREATE INDEX onefold_operations_region ON onefold_operations (region) WHERE region IS NOT NULL;"
        }
    };
    format!("{change} {}", noted(store, 0))
}

/// What a later release changes under this one, which may not work any more.
fn shutting_out(store: &Store) -> String {
    let change = match store.database() {
        Some(_) => "ALTER TABLE onefold.operations RENAME COLUMN owner TO holder;",
        None => "ALTER TABLE onefold_operations RENAME COLUMN owner TO holder;",
    };
    format!("{change} {}", noted(store, 1))
}

/// The next schema, on which releases of this one's, and so many later, may work.
fn noted(store: &Store, min_reader: u32) -> String {
    match store.database() {
        Some(_) => format!(
            "INSERT INTO onefold.migrations (version, min_reader)
            SELECT max(version) + 1, max(version) + {min_reader} FROM onefold.migrations"
        ),
        None => format!(
            "UPDATE onefold_schema SET version = version + 1, min_reader = version + {min_reader} WHERE one = 1"
        ),
    }
}

async fn gateways_work_on_and_restart_while_a_later_release_migrates_their_store(store: &Store) {
    let service = OrderService::start(Keys::Ignored, 7).await;
    let setup = Setup::new(&service.url()).operation("CreateOrder", "POST", ROUTE, "lease = \"1s\"");
    let mut gateways = twins(setup.store_url(store.url()), 2).await;
    let clients: Vec<Clients> = gateways.iter().map(|g| Clients::start(CLIENTS, g.address())).collect();
    wait::until("orders are placed", || service.orders().len() > 16).await;
    sql::execute(store.url(), &additive(store)).await;
    let migrated = service.orders().len();
    wait::until("orders are placed after the migration", || service.orders().len() > migrated + 16).await;

    gateways[1].restart().await;
    assert!(gateways[1].log().contains("a later release has migrated the store"), "{}", gateways[1].log());
    let restarted = service.orders().len();
    wait::until("orders are placed after the restart", || service.orders().len() > restarted + 16).await;
    gateways[0].command(&["store", "migrate"]).await.assert_code(0);
    let checked = gateways[0].command(&["store", "check"]).await;
    checked.assert_code(0);
    assert!(checked.stdout.contains("of a later release, which lets this one"), "{checked:?}");

    for clients in clients {
        let ledger = clients.finish(Duration::from_secs(60)).await;
        assert!(ledger.unexpected.is_empty(), "{:?}", ledger.unexpected);
        assert!(!ledger.acknowledged.is_empty());
        for (key, first) in &ledger.acknowledged {
            for gateway in &gateways {
                assert_replay(&gateway.send(&order(key)).await, first);
            }
        }
    }
    let twice: Vec<_> = service.orders().into_iter().filter(|(_, numbers)| numbers.len() > 1).collect();
    assert!(twice.is_empty(), "keys with two orders: {twice:?}");
}

async fn gateways_that_a_migration_shuts_out_run_nothing_and_are_refused_at_their_next_start(store: &Store) {
    let upstream = Upstream::start().await;
    let mut gateway: Gateway = setup_on(store, &upstream, "").start().await;
    assert_fresh(&gateway.send(&order("before")).await, 200);
    sql::execute(store.url(), &shutting_out(store)).await;
    assert_problem(&gateway.send(&order("after")).await, 503, "store-unavailable");
    assert_eq!(upstream.count(ROUTE), 1, "nothing ran without a claim");
    gateway.kill();
    let refused = gateway.setup().run().await;
    refused.assert_code(69);
    assert!(refused.stderr.contains("start the release that migrated it"), "{refused:?}");
}
