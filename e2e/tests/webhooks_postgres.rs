//! Webhooks over PostgreSQL, beside the cases that run on each store: what a killed gateway leaves, and what no index of
//! a database takes.

use std::time::Duration;

use onefold_e2e::assert_problem;
use onefold_e2e::webhooks::{HANDLER, all_delivered, event, inbox, setup, stripe};
use onefold_testkit::postgres::{Database, Isolation};
use onefold_testkit::{Gate, Gateway, Reply, Upstream, wait};

const ORDERED: &str = "entity = \"/data/object/id\"\nversion = \"/created\"";

/// A gateway on a database of its own; `None` where there is no server, which is said.
async fn gateway(upstream: &Upstream, forward: &str, lines: &str) -> Option<(Database, Gateway)> {
    let database = Database::create("webhooks over PostgreSQL", Isolation::ReadCommitted).await?;
    let section = inbox(upstream, "stripe", "stripe", forward, lines);
    let gateway = setup(upstream).store_url(&database.url()).section(&section).start().await;
    Some((database, gateway))
}

#[tokio::test]
async fn a_gateway_killed_while_the_handler_works_asks_again_under_the_same_key() {
    let upstream = Upstream::start().await;
    let gate = Gate::closed();
    upstream.next(HANDLER, Reply::count().hold_after(&gate));
    let Some((_database, mut gateway)) = gateway(&upstream, ", timeout = \"1s\"", "").await else { return };
    let delivery = stripe(event("evt_1", "sub_1", 1, "active"));
    assert_eq!(gateway.send(&delivery).await.status, 202);
    upstream.reached(HANDLER, 1).await;
    gateway.kill();
    gate.open();
    gateway.restart().await;
    let after_the_lease = Duration::from_secs(60);
    wait::until_within(after_the_lease, "it is asked again", async || upstream.count(HANDLER) == 2).await;
    all_delivered(&gateway, 1).await;
    let seen = upstream.seen_at(HANDLER);
    assert_eq!(seen[0].header("idempotency-key"), seen[1].header("idempotency-key"));
}

/// It would not fit into an index of the database: the sender is told so, and not that it should try for ever.
#[tokio::test]
async fn an_entity_that_is_too_long_to_be_ordered_by_is_refused_and_nothing_is_noted() {
    let upstream = Upstream::start().await;
    let Some((_database, gateway)) = gateway(&upstream, "", ORDERED).await else { return };
    // No two pieces of it are alike, so that it cannot be compressed.
    let long: String = (0..1500_u32).map(|n| format!("{:08x}", n.wrapping_mul(2_654_435_761))).collect();
    let answer = gateway.send(&stripe(event("evt_1", &long, 1, "active"))).await;
    assert_problem(&answer, 400, "request-invalid");
    let fits = &long[..1024];
    assert_eq!(gateway.send(&stripe(event("evt_1", fits, 1, "active"))).await.status, 202);
    upstream.reached(HANDLER, 1).await;
    assert_eq!(upstream.seen_at(HANDLER)[0].header("onefold-ordering-key"), Some(fits));
}
