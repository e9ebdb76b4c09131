//! What is there in the end: every table of every database, and everything that happened outside, as lines of text.
//!
//! Left out are times, ids that dice have made, and how often a workflow was interrupted. The layer's own records are there too: operations, messages in and out,
//! effects and versions.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags, Row};

use crate::outside::Happened;
use crate::services::NAMES;

/// The business's own tables.
const OWN: &[(&str, &str, &str)] = &[
    ("storefront", "checkouts", "SELECT customer_id, product, quantity, cents FROM checkouts ORDER BY rowid"),
    ("storefront", "prices", "SELECT product, cents, version FROM prices ORDER BY 1"),
    ("order", "baskets", "SELECT product, quantity, cents FROM baskets ORDER BY rowid"),
    (
        "order",
        "orders",
        "SELECT order_id, customer_id, product, quantity, cents, status, version FROM orders ORDER BY 1",
    ),
    ("inventory", "stock", "SELECT product, available FROM stock ORDER BY 1"),
    (
        "inventory",
        "reservations",
        "SELECT order_id, product, quantity FROM reservations WHERE released = 0 ORDER BY 1",
    ),
    ("payment", "captures", "SELECT order_id, customer_id, cents FROM captures ORDER BY 1"),
    ("notification", "requests", "SELECT order_id, count(*), sum(made) FROM requests GROUP BY 1 ORDER BY 1"),
    ("loyalty", "points", "SELECT customer_id, points FROM points ORDER BY 1"),
];
/// The layer's tables, which every service has.
const LAYER: &[(&str, &str)] = &[
    (
        "operations",
        "SELECT operation, CASE coalesce(state, 1) WHEN 1 THEN 'processing' WHEN 2 THEN 'succeeded'
         WHEN 3 THEN 'rejected' WHEN 4 THEN 'failed' ELSE 'unknown' END, count(*)
         FROM onefold_operations LEFT JOIN onefold_outcomes USING (seq) GROUP BY 1, 2 ORDER BY 1, 2",
    ),
    (
        "outgoing",
        "SELECT destination, CASE coalesce(open.state, done.state) WHEN 2 THEN 'delivered' WHEN 3 THEN 'dead'
         WHEN 4 THEN 'unknown' WHEN 5 THEN 'discarded' ELSE 'waiting' END, count(*)
         FROM onefold_outbox AS all_of_them LEFT JOIN (SELECT seq, state FROM onefold_outbox_open) AS open USING (seq)
         LEFT JOIN onefold_outbox_done AS done USING (seq) GROUP BY 1, 2 ORDER BY 1, 2",
    ),
    (
        "incoming",
        "SELECT source, CASE state WHEN 0 THEN 'failing' WHEN 1 THEN 'processed' WHEN 2 THEN 'rejected'
         WHEN 3 THEN 'superseded' ELSE 'parked' END, count(*) FROM onefold_inbox GROUP BY 1, 2 ORDER BY 1, 2",
    ),
    (
        "evidence",
        "SELECT CASE kind WHEN 0 THEN 'unknown' WHEN 3 THEN 'late_success' WHEN 4 THEN 'happened'
         WHEN 5 THEN 'did_not_happen' ELSE 'other' END, count(*)
         FROM onefold_events JOIN onefold_operations ON onefold_operations.seq = onefold_events.operation
         WHERE kind <> 6 AND onefold_operations.operation <> 'FulfilOrder' GROUP BY 1 ORDER BY 1",
    ),
    (
        "again",
        "SELECT source, CASE state WHEN 1 THEN 'processed' ELSE 'other' END, 'by', handler, count(*) FROM onefold_inbox
         WHERE round > 0 GROUP BY 1, 2, 4 ORDER BY 1, 2, 4",
    ),
    (
        "permits",
        "SELECT consumer, 'of', coalesce(damaged, message), 'by', who FROM onefold_permits ORDER BY number",
    ),
    (
        "acts",
        "SELECT CASE kind WHEN 0 THEN 'redriven' WHEN 1 THEN 'delivered' ELSE 'discarded' END, who, count(*)
         FROM onefold_acts GROUP BY 1, 2 ORDER BY 1, 2",
    ),
    ("effects", "SELECT key FROM onefold_effects ORDER BY 1"),
    ("versions", "SELECT entity, version FROM onefold_projections ORDER BY 1"),
    ("superseded", "SELECT entity, version FROM onefold_superseded ORDER BY 1, 2"),
];
/// What has not come to its end yet.
const OPEN: &str = "SELECT (SELECT count(*) FROM onefold_outbox_open WHERE state <> 3)
    + (SELECT count(*) FROM onefold_operations LEFT JOIN onefold_outcomes USING (seq)
       WHERE coalesce(state, 5) = 5)";
const ORDERS_OPEN: &str = "SELECT count(*) FROM orders WHERE status = 'placed'";
const SENDINGS: &str =
    "SELECT coalesce(sum(attempt), 0) FROM onefold_outbox_done JOIN onefold_outbox USING (seq)
    WHERE destination <> 'mail'";

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Books {
    tables: BTreeMap<String, Vec<String>>,
}

impl Books {
    /// As it is now.
    pub fn read(folder: &Path, happened: &Happened) -> anyhow::Result<Books> {
        let mut books = Books::default();
        for name in NAMES {
            let database = open(folder, name)?;
            for (_, table, sql) in OWN.iter().filter(|(of, ..)| *of == name) {
                books.add(name, table, lines(&database, sql)?);
            }
            for (table, sql) in LAYER {
                books.add(name, table, lines(&database, sql)?);
            }
        }
        let known = lines(&open(folder, "payment")?, "SELECT payment_attempt_id, charge FROM captures")?;
        let captures = happened.captures.iter().map(|captured| {
            let key = if known.contains(&format!("{} {}", captured.key, captured.charge)) {
                "under its own key"
            } else {
                "under a foreign key"
            };
            format!("{} {} {key}", captured.order_id, captured.cents)
        });
        books.add("outside", "captures", captures.collect());
        books.add("outside", "requests", vec![happened.capture_requests.to_string()]);
        let mails = happened.mails.iter().map(|mail| format!("{}: {}", mail.to.join(", "), mail.subject));
        books.add("outside", "mails", mails.collect());
        Ok(books)
    }

    /// Whether nothing is on its way any more.
    pub fn settled(folder: &Path) -> anyhow::Result<bool> {
        let mut open_ones: i64 = open(folder, "order")?.query_row(ORDERS_OPEN, [], |row| row.get(0))?;
        for name in NAMES {
            open_ones += open(folder, name)?.query_row(OPEN, [], |row| row.get::<_, i64>(0))?;
        }
        Ok(open_ones == 0)
    }

    /// How often the relays have sent events, those that had to be sent again counted each time.
    pub fn sendings(folder: &Path) -> anyhow::Result<usize> {
        let mut counted = 0;
        for name in NAMES {
            counted += open(folder, name)?.query_row(SENDINGS, [], |row| row.get::<_, u32>(0))?;
        }
        Ok(counted as usize)
    }

    /// Each line that is there and should not be, or should be there and is not. `expected` has lines as [`Books`] is
    /// printed.
    pub fn differences(&self, expected: &[&str]) -> Vec<String> {
        let (all, expected) = (self.to_string(), expected.join("\n"));
        let mut differences = Vec::new();
        let (found, wanted) = (counted(&all), counted(&expected));
        let names: BTreeSet<&str> = found.keys().chain(wanted.keys()).copied().collect();
        for line in names {
            let count = |lines: &BTreeMap<&str, usize>| lines.get(line).copied().unwrap_or(0);
            match count(&found).cmp(&count(&wanted)) {
                std::cmp::Ordering::Less => differences.push(format!("missing: {line}")),
                std::cmp::Ordering::Greater => differences.push(format!("too much: {line}")),
                std::cmp::Ordering::Equal => {}
            }
        }
        differences
    }

    /// How many effects there are: orders, reservations, captures, mails, awards of points.
    pub fn effects(&self) -> [usize; 5] {
        ["order.orders", "inventory.reservations", "outside.captures", "outside.mails", "loyalty.effects"]
            .map(|table| self.tables.get(table).map_or(0, Vec::len))
    }

    fn add(&mut self, of: &str, table: &str, lines: Vec<String>) {
        self.tables.insert(format!("{of}.{table}"), lines);
    }
}

impl std::fmt::Display for Books {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (table, lines) in &self.tables {
            for line in lines {
                writeln!(f, "{table}: {line}")?;
            }
        }
        Ok(())
    }
}

fn counted(text: &str) -> BTreeMap<&str, usize> {
    let mut counted = BTreeMap::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        *counted.entry(line).or_default() += 1;
    }
    counted
}

/// A service's database, to read from.
pub(crate) fn open(folder: &Path, name: &str) -> anyhow::Result<Connection> {
    let database =
        Connection::open_with_flags(folder.join(format!("{name}.db")), OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    database.busy_timeout(Duration::from_secs(10))?;
    Ok(database)
}

/// The rows of a query, each as one line.
pub(crate) fn lines(database: &Connection, sql: &str) -> anyhow::Result<Vec<String>> {
    let mut statement = database.prepare(sql)?;
    let columns = statement.column_count();
    let line = |row: &Row<'_>| {
        let cells: rusqlite::Result<Vec<String>> =
            (0..columns).map(|at| Ok(cell(row.get_ref(at)?))).collect();
        Ok(cells?.join(" "))
    };
    Ok(statement.query_map([], line)?.collect::<Result<_, _>>()?)
}

fn cell(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Integer(number) => number.to_string(),
        ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned(),
        other => format!("{other:?}"),
    }
}
