//! What an operator does to a store on PostgreSQL with commands.

use onefold_e2e::{assert_fresh, order, setup};
use onefold_testkit::Upstream;
use onefold_testkit::postgres::{Database, Isolation};

#[tokio::test]
async fn commands_look_after_a_store_on_postgresql() {
    let what = "commands on a PostgreSQL store";
    let Some(database) = Database::create(what, Isolation::ReadCommitted).await else { return };
    let upstream = Upstream::start().await;
    let own = setup(&upstream, "").store_url(&database.url());
    let refused = own.clone().store("migrate = false").run().await;
    refused.assert_code(69);
    assert!(refused.stderr.contains("onefold store migrate"), "{refused:?}");
    let gateway = own.start().await;
    gateway.command(&["store", "migrate"]).await.assert_code(0);
    assert_fresh(&gateway.send(&order("k-1")).await, 200);
    let checked = gateway.command(&["store", "check"]).await;
    checked.assert_code(0);
    let checks = checked.json()["checks"].as_array().expect("a list").clone();
    // The server of the tests flushes nothing, and that is said.
    let durability = checks.iter().find(|check| check["check"] == "durability").expect("it is looked at");
    assert!(["warning", "ok"].contains(&durability["result"].as_str().expect("a word")), "{durability}");
    assert!(checks.iter().any(|check| check["check"] == "keys" && check["result"] == "ok"), "{checks:?}");
    let stats = gateway.command(&["store", "stats"]).await;
    stats.assert_code(0);
    assert_eq!(stats.json()["records"]["succeeded"], 1, "{stats:?}");
    assert!(stats.json()["bytes"]["operations"].as_u64() > Some(0), "{stats:?}");
    let swept = gateway.command(&["store", "sweep"]).await;
    swept.assert_code(0);
    assert_eq!(swept.json()["tombstones"], 0, "{swept:?}");
    assert_eq!(gateway.operations_in("succeeded").await.len(), 1);
    database.execute("INSERT INTO onefold.migrations (version) VALUES (99)").await;
    let newer = gateway.command(&["store", "check"]).await;
    newer.assert_code(69);
    assert!(newer.stdout.contains("schema 99"), "{newer:?}");
}
