//! What `onefold store check` looks at in a store that is open: whether its content is whole.

use onefold_core::StoreTime;
use onefold_store::{Finding, Gravity, Judge, clock_of_the_host};
use rusqlite::Connection;

use crate::{SCHEMA_VERSION, migrate, open};

/// Walks over every page; stops at the first fault.
const WHOLE: &str = "PRAGMA quick_check(1)";
const DURABLE: &str = "SELECT (SELECT journal_mode FROM pragma_journal_mode)";

/// Looks at the store and changes nothing. That it was opened shows already that it is ours, of a schema that this
/// release may work on, writable and unlocked.
pub(crate) fn run(connection: &Connection, judge: &Judge) -> rusqlite::Result<Vec<Finding>> {
    let schema = match migrate::versions(connection)?.0 {
        SCHEMA_VERSION => format!("schema {SCHEMA_VERSION}, this release's"),
        found => {
            format!("schema {found} of a later release, which lets this one (schema {SCHEMA_VERSION}) work")
        }
    };
    let mut findings = vec![
        Finding::new("schema", Gravity::Fine, schema),
        Finding::new("file", Gravity::Fine, "it can be read and written"),
    ];
    let log: String = connection.query_row(DURABLE, [], |row| row.get(0))?;
    findings.push(match log.as_str() {
        "wal" => Finding::new("durability", Gravity::Fine, "every commit is in the log and synced"),
        other => {
            Finding::new("durability", Gravity::Failure, format!("the log is off: journal_mode is {other}"))
        }
    });
    let latest = StoreTime(connection.query_row(open::FLOOR, [], |row| row.get(0))?);
    findings.push(clock_of_the_host(latest, judge.timeline().wall()));
    let whole: String = connection.query_row(WHOLE, [], |row| row.get(0))?;
    findings.push(match whole.as_str() {
        "ok" => Finding::new("content", Gravity::Fine, "every page is whole"),
        fault => Finding::new("content", Gravity::Failure, format!("the file is damaged: {fault}")),
    });
    Ok(findings)
}
