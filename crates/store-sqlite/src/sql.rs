//! Every statement of the crate, prepared on the latest schema, and the indexes that the hot ones go by.

use std::path::Path;

use rusqlite::Connection;

use crate::FileUse;
use crate::migrate::{self, Migrate};
use crate::{
    acts, advance, batch, claim, companion, counts, events, inbox, inbox_row, interrupted, list, open,
    outbox, outbox_row, outcome, outgoing, permits, probes, projection, read, seal_keys, steps, survey,
    sweep, tx, versions,
};

const STATEMENTS: [&[&str]; 27] = [
    acts::SQL,
    advance::SQL,
    batch::SQL,
    claim::SQL,
    companion::SQL,
    counts::SQL,
    events::SQL,
    inbox::SQL,
    inbox_row::SQL,
    interrupted::SQL,
    list::SQL,
    open::SQL,
    outbox::SQL,
    outgoing::SQL,
    outbox_row::SQL,
    outcome::SQL,
    permits::SQL,
    probes::SQL,
    projection::SQL,
    read::SQL,
    migrate::SQL,
    seal_keys::SQL,
    steps::SQL,
    survey::SQL,
    sweep::SQL,
    tx::SQL,
    versions::SQL,
];

fn latest() -> Connection {
    let mut connection = Connection::open_in_memory().unwrap();
    let known = migrate::known(None);
    migrate::run(&mut connection, Path::new("memory"), Migrate::Yes, FileUse::Own, &known).unwrap();
    connection
}

fn plan(connection: &Connection, sql: &str) -> String {
    let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    let mut rows = statement.raw_query();
    let mut plan = String::new();
    while let Some(row) = rows.next().unwrap() {
        plan += &row.get::<_, String>(3).unwrap();
        plan.push('\n');
    }
    plan
}

#[test]
fn every_statement_prepares_on_the_latest_schema() {
    let connection = latest();
    for sql in STATEMENTS.concat() {
        if let Err(error) = connection.prepare(sql) {
            panic!("{sql}: {error}");
        }
    }
}

#[test]
fn no_statement_walks_over_operations_or_outcomes_but_lists_and_the_retiring_of_a_key() {
    let connection = latest();
    for sql in STATEMENTS.concat() {
        let plan = plan(&connection, sql);
        let walks = plan.lines().any(|line| {
            ["SCAN onefold_operations", "SCAN o", "SCAN onefold_outcomes", "SCAN u"].contains(&line)
        });
        assert_eq!(walks, sql.contains("substr(kept"), "{sql}\n{plan}");
    }
}

#[test]
fn unknown_and_due_records_are_found_by_their_small_indexes() {
    let connection = latest();
    let by =
        |sqls: &[&str], index: &str| sqls.iter().filter(|sql| plan(&connection, sql).contains(index)).count();
    assert_eq!(by(sweep::SQL, "INDEX onefold_outcomes_due"), 1);
    assert_eq!(by(survey::SQL, "INDEX onefold_outcomes_unknown"), 1);
    assert_eq!(by(list::SQL, "INDEX onefold_outcomes_unknown"), 1);
    assert_eq!(by(probes::SQL, "INDEX onefold_outcomes_probes"), 1);
}
