//! A service that is not the owner of the schema.

mod asking;

use asking::{claim, open, open_with, settle};
use onefold_core::Kept;
use onefold_store::{
    Advanced, AtomicStore, Atomically, Claimed, Ended, Entry, Finding, Finish, Gravity, OperationStore,
};
use onefold_store_postgres::{Address, Options, PostgresStore, PostgresWork};
use onefold_testkit::postgres::{Database, Isolation};

const PAGE: &str = include_str!("../../../docs/operating.md");

async fn grants(url: &str) -> Finding {
    let findings = PostgresStore::check(&Address::parse(url).expect("an address")).await.expect("it answers");
    findings.into_iter().find(|finding| finding.what == "grants").expect("it is looked at")
}

#[tokio::test]
async fn check_says_nothing_good_of_grants_where_there_is_no_schema_yet() {
    let what = "grants on a new database of PostgreSQL";
    let Some(database) = Database::create(what, Isolation::ReadCommitted).await else { return };
    let before = grants(&database.url()).await;
    assert_eq!(before.gravity, Gravity::Warning, "{}", before.says);
    assert!(before.says.contains("migrated"), "{}", before.says);
    drop(open(&database.url()).await);
    assert_eq!(grants(&database.url()).await.gravity, Gravity::Fine);
}

#[tokio::test]
async fn check_names_what_is_missing_and_the_lines_of_the_page_are_enough() {
    let what = "grants on PostgreSQL";
    let Some(database) = Database::create(what, Isolation::ReadCommitted).await else { return };
    let role = format!("service_{}", database.ask("SELECT current_database()").await);
    database.execute(&format!("CREATE ROLE {role} LOGIN PASSWORD 'service'")).await;
    let owner = database.url();
    let (scheme, rest) = owner.split_once("://").expect("an address");
    let (_, place) = rest.split_once('@').expect("a user");
    let service = format!("{scheme}://{role}:service@{place}");
    drop(open(&owner).await);
    // Functions are everybody's unless somebody sees to it that they are not.
    database.execute("REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA onefold FROM PUBLIC").await;
    assert_eq!(grants(&owner).await.gravity, Gravity::Fine);
    let missing = grants(&service).await;
    assert_eq!(missing.gravity, Gravity::Failure);
    for what in [
        "USAGE ON SCHEMA onefold",
        "SELECT, INSERT, UPDATE, DELETE ON onefold.steps",
        "onefold.atomic_finish(",
    ] {
        assert!(missing.says.contains(what), "{what}: {}", missing.says);
    }

    let lines = PAGE.lines().map(str::trim).filter(|line| line.starts_with("GRANT "));
    let lines: Vec<String> = lines.map(|line| line.replace("TO shop", &format!("TO {role}"))).collect();
    assert!(lines.len() >= 3, "the page has them");
    database.execute(&lines.join("\n")).await;
    let fine = grants(&service).await;
    assert_eq!(fine.gravity, Gravity::Fine, "{}", fine.says);
    let no_migration = Options { migrate: false, ..Options::default() };
    let store = open_with(&service, no_migration).await.expect("it opens");
    let reserved = claim(&store, "reserved");
    let id = reserved.id;
    assert!(matches!(store.claim(reserved).await, Ok(Claimed::Won { .. })));
    assert!(matches!(store.advance(settle(id, b"x", None)).await, Ok(Advanced::Done { .. })));
    let mut work = PostgresWork::new(|tx| {
        Box::pin(async move {
            tx.effect("order-1/CONFIRMED").await.expect("it may");
            tx.apply_if_newer("order-1", 1).await.expect("it may");
            Ended::Finished { finish: Finish::Succeeded, kept: Kept::Nothing, resource: None }
        })
    });
    let ended = store.atomically(Entry::New(Box::new(claim(&store, "atomic"))), &mut work).await;
    assert!(matches!(ended, Ok(Atomically::Committed { .. })), "{ended:?}");
    store.sweep(10).await.expect("it may");
    database.execute("REVOKE DELETE ON onefold.steps, onefold.events FROM PUBLIC").await;
    database.execute(&format!("REVOKE DELETE ON onefold.steps FROM {role}")).await;
    let missing = grants(&service).await;
    assert!(missing.says.contains("the user lacks DELETE ON onefold.steps:"), "{}", missing.says);
    drop(store);
    database.execute(&format!("DROP OWNED BY {role}; DROP ROLE {role}")).await;
}
