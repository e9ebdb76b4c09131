//! Every statement of the crate, prepared on the latest schema, and whether the hot ones can go by an index.

use onefold_testkit::postgres::{Database, Isolation};
use tokio_postgres::{NoTls, SimpleQueryMessage};

use crate::{Address, Options, PostgresStore};
use crate::{
    acts, advance, alone,
    atomic::{new, settle},
    begin, check, claim, companion, consume, counts, events, grants, inbox, inbox_row, interrupted,
    inventory, list, marks, outbox, outbox_row, outgoing, permits, probes, projection, read, seal_keys,
    steps, store, survey, sweep, tx, versions,
};

/// With the name under which a failure is told.
const STATEMENTS: [(&str, &str); 76] = [
    ("claim alone", alone::CLAIM),
    ("settle alone", alone::SETTLE),
    ("enter", new::ENTER),
    ("look", new::LOOK),
    ("before", new::BEFORE),
    ("finish", new::FINISH),
    ("finish, prepared", new::FINISH_PREPARED),
    ("settling", settle::STANDS),
    ("note companion", companion::NOTE),
    ("companion", companion::STANDS),
    ("interrupted", interrupted::OVER),
    ("effect", tx::EFFECT),
    ("apply", projection::APPLY),
    ("version", projection::VERSION),
    ("superseded", projection::SUPERSEDED),
    ("forget entity", tx::FORGET),
    ("put step", steps::PUT),
    ("steps", steps::OF),
    ("claim", claim::CLAIM),
    ("advance", advance::ADVANCE),
    ("begin", begin::BEGIN),
    ("read", read::READ),
    ("count", counts::COUNT),
    ("events", events::OF),
    ("list", list::ALL),
    ("list open", list::OPEN),
    ("lose", sweep::LOSE),
    ("take probes", probes::TAKE),
    ("sweep", sweep::SWEEP),
    ("empty scopes", sweep::EMPTY_SCOPES),
    ("survey", survey::SURVEY),
    ("probe", store::PROBE),
    ("look", check::LOOK),
    ("grants", grants::MISSING),
    ("bytes", inventory::BYTES),
    ("by state", inventory::BY_STATE),
    ("secret", seal_keys::SECRET),
    ("put secret", seal_keys::PUT_SECRET),
    ("keys", seal_keys::KEYS),
    ("add key", seal_keys::ADD_KEY),
    ("drop key", seal_keys::DROP_KEY),
    ("key in use", seal_keys::IN_USE),
    ("put message", outgoing::PUT_ONE),
    ("put messages", outgoing::PUT),
    ("place of a message", outgoing::GOES_TO),
    ("take", outbox::TAKE),
    ("settle", outbox::SETTLE),
    ("redrive", outbox::REDRIVE),
    ("sweep outbox", outbox::SWEEP),
    ("one message", outbox_row::ONE),
    ("list outbox", outbox_row::ALL),
    ("list outbox not done", outbox_row::NOT_DONE),
    ("outbox now", outbox_row::NOW),
    ("survey outbox", outbox_row::SURVEY),
    ("acts", acts::OF),
    ("begin with a message", consume::BEGIN_NEW),
    ("put mark", inbox::ending::PUT),
    ("end mark", inbox::ending::END),
    ("newer", inbox::newer::NEWER),
    ("try lock", consume::TRY_LOCK),
    ("entries", inbox_row::OF),
    ("list inbox", inbox_row::ALL),
    ("list inbox not done", inbox_row::NOT_DONE),
    ("kept", inbox_row::KEPT),
    ("survey inbox", inbox_row::SURVEY),
    ("count deliveries", marks::COUNT),
    ("unpark", marks::UNPARK),
    ("sweep inbox", marks::SWEEP),
    ("sweep entities", versions::ENTITIES),
    ("sweep notes", versions::NOTES),
    ("grant", permits::GRANT),
    ("permits", permits::OF),
    ("revoke", permits::REVOKE),
    ("forget effect", outgoing::FORGET_EFFECT),
    ("forget done messages", outgoing::FORGET_DONE),
    ("note effect", outgoing::EFFECT),
];
/// These are asked rarely, and walk over all records.
const WALKS: [&str; 2] = ["by state", "key in use"];

#[tokio::test]
async fn every_statement_prepares_and_none_but_two_must_walk_over_the_operations() {
    let what = "the statements of the PostgreSQL store";
    let Some(database) = Database::create(what, Isolation::ReadCommitted).await else { return };
    let address = Address::parse(&database.url()).expect("an address");
    drop(PostgresStore::open(&address, Options::default()).await.expect("a new store opens"));
    let (client, connection) = tokio_postgres::connect(&database.url(), NoTls).await.expect("it connects");
    tokio::spawn(connection);
    // Only where there is no other way; and the plan of any parameters, not of some.
    client
        .batch_execute("SET enable_seqscan = off; SET plan_cache_mode = force_generic_plan")
        .await
        .expect("set");
    for (n, (name, sql)) in STATEMENTS.into_iter().enumerate() {
        let prepared = client.prepare(sql).await.unwrap_or_else(|error| panic!("{name}: {error:?}"));
        let params = vec!["NULL"; prepared.params().len()].join(", ");
        let params = if params.is_empty() { params } else { format!("({params})") };
        let plan = format!("PREPARE p{n} AS {sql}; EXPLAIN EXECUTE p{n}{params}");
        let plan = client.simple_query(&plan).await.unwrap_or_else(|error| panic!("{name}: {error:?}"));
        let lines = plan.into_iter().filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
            _ => None,
        });
        let plan = lines.collect::<Vec<_>>().join("\n");
        let walks = ["operations", "inbox", "outbox", "outbox_done", "acts"];
        let walks = walks.iter().any(|table| plan.contains(&format!("Seq Scan on {table} ")));
        assert_eq!(walks, WALKS.contains(&name), "{name}\n{plan}");
    }
}
