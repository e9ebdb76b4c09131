//! What an operator does to a store of each kind with commands: sweep it, see what needs a person, and check one that is
//! damaged.

use std::io::{Seek, SeekFrom, Write};

use onefold_e2e::{ROUTE, assert_fresh, assert_problem, gateway_on, order, setup, setup_on};
use onefold_testkit::expired::{self, Then};
use onefold_testkit::{Gate, Reply, Store, Upstream, on_each_store, onefold, sql, wait};

on_each_store!(
    store_sweep_loses_the_owners_that_are_gone_and_sweeps_what_has_expired,
    what_no_look_up_can_say_is_listed_as_needing_a_person,
);

async fn store_sweep_loses_the_owners_that_are_gone_and_sweeps_what_has_expired(store: &Store) {
    let upstream = Upstream::start().await;
    let mut gateway = gateway_on(store, &upstream, "lease = \"1s\"").await;
    assert_fresh(&gateway.send(&order("live")).await, 200);
    upstream.next(ROUTE, Reply::count().hold_after(&Gate::closed()));
    let address = gateway.address();
    let lost = tokio::spawn(async move { order("lost").try_send(address).await });
    upstream.reached(ROUTE, 2).await;
    gateway.kill();
    assert!(lost.await.expect("it ends").is_err(), "nobody was there to answer");
    expired::make(store.url(), 30, Then::Buried).await;
    expired::make(store.url(), 20, Then::Deleted).await;
    let sweep = async || {
        let swept = gateway.command(&["store", "sweep"]).await;
        swept.assert_code(0);
        let number = |member: &str| swept.json()[member].as_u64().expect("a number");
        (number("lost"), number("tombstones"), number("deleted"))
    };
    let (mut lost, tombstones, deleted) = sweep().await;
    // The copies that have no time as a tombstone are buried before they are deleted.
    assert!((30..=50).contains(&tombstones) && deleted == 20, "{tombstones} buried, {deleted} deleted");
    wait::until_within(wait::DEADLINE, "the owner is lost", async || {
        if lost == 0 {
            lost = sweep().await.0;
        }
        lost == 1
    })
    .await;
    assert_eq!(sweep().await, (0, 0, 0), "nothing is left to do");
    let counted = expired::count(store.url()).await;
    assert_eq!((counted.tombstones, counted.live, counted.in_scopes), (30, 2, 2), "{counted:?}");
    assert_eq!(gateway.operations_in("outcome_unknown").await.len(), 1);
}

async fn what_no_look_up_can_say_is_listed_as_needing_a_person(store: &Store) {
    const LOOK_UP: &str = "/lookup";
    // Asking so often takes hours.
    let but_one = match store.database() {
        None => "UPDATE onefold_outcomes SET probes = 19 WHERE state = 5",
        Some(_) => "UPDATE onefold.operations SET probes = 19 WHERE state = 5",
    };
    let upstream = Upstream::start().await;
    let look_up = format!(
        "reconcile = {{ get = \"{}{LOOK_UP}?key={{{{key}}}}\", happened = \"200\" }}",
        upstream.url()
    );
    let gateway = setup_on(store, &upstream, &look_up).start().await;
    upstream.next(ROUTE, Reply::count().close_after_effect());
    upstream.always(LOOK_UP, Reply::status(500));
    let lost = gateway.send(&order("k-1")).await;
    assert_problem(&lost, 502, "outcome-unknown");
    let list = async || {
        let args = ["operations", "list", "--state", "outcome_unknown", "--store", store.url()];
        let listed = onefold(gateway.setup().directory().path(), &args).await;
        listed.assert_code(0);
        listed.stdout
    };
    let id = lost.operation().expect("an id");
    let history = async || {
        let shown = gateway.command(&["operations", "show", &id]).await.json();
        shown["history"].as_array().expect("a history").len()
    };
    wait::until_within(wait::DEADLINE, "an answer that says nothing is noted", async || history().await >= 2)
        .await;
    assert!(!list().await.contains("needs a person"), "it is asked again");
    sql::execute(store.url(), but_one).await;
    wait::until_within(wait::DEADLINE, "it is given up", async || list().await.contains("(needs a person)"))
        .await;
    let asked = upstream.seen_at(LOOK_UP).len();
    let shown = gateway.command(&["operations", "show", &id]).await.json();
    assert_eq!((&shown["state"], &shown["reconciliation"]), (&"outcome_unknown".into(), &"escalated".into()));
    assert_problem(&gateway.send(&order("k-1")).await, 409, "outcome-unknown");
    let resolve = ["operations", "resolve", &id, "--as", "succeeded"];
    let why = ["--reason", "the supplier has it", "--evidence", "its order 5001"];
    gateway.command(&[&resolve[..], &why].concat()).await.assert_code(0);
    assert_problem(&gateway.send(&order("k-1")).await, 409, "response-not-kept");
    assert_eq!((upstream.count(ROUTE), upstream.seen_at(LOOK_UP).len()), (1, asked));
}

#[tokio::test]
async fn store_check_finds_a_damaged_page_of_a_file() {
    const PAGE: u64 = 4096;
    let upstream = Upstream::start().await;
    let mut gateway = setup(&upstream, "").start().await;
    for n in 0..50 {
        assert_fresh(&gateway.send(&order(&format!("k-{n}"))).await, 200);
    }
    gateway.kill();
    let path = gateway.setup().store_path();
    let log = rusqlite::Connection::open(&path).expect("the store opens");
    log.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).expect("everything is in the file");
    let root = "SELECT rootpage FROM sqlite_schema WHERE name = 'onefold_outcomes'";
    let page: u32 = log.query_row(root, [], |row| row.get(0)).expect("a table");
    drop(log);
    gateway.command(&["store", "check"]).await.assert_code(0);
    let mut file = std::fs::OpenOptions::new().write(true).open(&path).expect("the file");
    file.seek(SeekFrom::Start(u64::from(page - 1) * PAGE)).expect("a place");
    file.write_all(&[0xff; 64]).expect("it is damaged");
    drop(file);
    let checked = gateway.command(&["store", "check"]).await;
    checked.assert_code(69);
    assert!(
        format!("{checked:?}").contains("damaged") || checked.stderr.contains("malformed"),
        "{checked:?}"
    );
}
