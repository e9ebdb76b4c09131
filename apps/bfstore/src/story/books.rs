//! What is there in the end: every table of every database, and everything that happened outside, as lines of text.
//!
//! Left out are times, ids that dice have made, and how often a workflow was interrupted. The layer's own records are there too: operations, messages in and out,
//! effects and versions.

use std::collections::{BTreeMap, BTreeSet};

use crate::ground::between_services;
use crate::ledgers::{Ledgers, Query};
use crate::outside::Happened;
use crate::services::NAMES;

/// The business's own tables.
const OWN: &[(&str, &str, &str)] = &[
    ("storefront", "checkouts", "SELECT customer_id, product, quantity, cents FROM checkouts"),
    ("storefront", "prices", "SELECT product, cents, version FROM prices"),
    ("order", "baskets", "SELECT product, quantity, cents FROM baskets"),
    (
        "order",
        "orders",
        "SELECT order_id, customer_id, product, quantity, cents, status, version FROM orders",
    ),
    ("inventory", "stock", "SELECT product, available FROM stock"),
    ("inventory", "reservations", "SELECT order_id, product, quantity FROM reservations WHERE released = 0"),
    ("payment", "captures", "SELECT order_id, customer_id, cents FROM captures"),
    ("notification", "requests", "SELECT order_id, count(*), sum(made) FROM requests GROUP BY 1"),
    ("loyalty", "points", "SELECT customer_id, points FROM points"),
];
/// The layer's tables, which every service has, under names that both databases know.
const LAYER: &[(&str, &str)] = &[
    (
        "incoming",
        "SELECT source, CASE state WHEN 0 THEN 'failing' WHEN 1 THEN 'processed' WHEN 2 THEN 'rejected'
            WHEN 3 THEN 'superseded' ELSE 'parked' END, count(*) FROM {inbox} GROUP BY 1, 2",
    ),
    (
        "again",
        "SELECT source, CASE state WHEN 1 THEN 'processed' ELSE 'other' END, 'by', handler, count(*)
            FROM {inbox} WHERE round > 0 GROUP BY 1, 2, 4",
    ),
    ("effects", "SELECT key FROM {effects}"),
    ("versions", "SELECT entity, version FROM {projections}"),
];
/// Those that each database has in words of its own.
const LAYER_BY_DATABASE: &[(&str, Query<'static>)] = &[
    (
        "operations",
        Query {
            sqlite: "SELECT operation, CASE coalesce(state, 1) WHEN 1 THEN 'processing' WHEN 2 THEN 'succeeded'
                WHEN 3 THEN 'rejected' WHEN 4 THEN 'failed' ELSE 'unknown' END, count(*)
                FROM onefold_operations LEFT JOIN onefold_outcomes USING (seq) GROUP BY 1, 2",
            postgres: "SELECT convert_from(operation, 'UTF8'), CASE state WHEN 1 THEN 'processing'
                WHEN 2 THEN 'succeeded' WHEN 3 THEN 'rejected' WHEN 4 THEN 'failed' ELSE 'unknown' END, count(*)
                FROM onefold.operations GROUP BY 1, 2",
        },
    ),
    (
        "outgoing",
        Query {
            sqlite: "SELECT destination, CASE coalesce(open.state, done.state) WHEN 2 THEN 'delivered'
                WHEN 3 THEN 'dead' WHEN 4 THEN 'unknown' WHEN 5 THEN 'discarded' ELSE 'waiting' END, count(*)
                FROM onefold_outbox AS all_of_them
                LEFT JOIN (SELECT seq, state FROM onefold_outbox_open) AS open USING (seq)
                LEFT JOIN onefold_outbox_done AS done USING (seq) GROUP BY 1, 2",
            postgres: "SELECT convert_from(sent.destination, 'UTF8'), CASE coalesce(open.state, done.state)
                WHEN 2 THEN 'delivered' WHEN 3 THEN 'dead' WHEN 4 THEN 'unknown' WHEN 5 THEN 'discarded'
                ELSE 'waiting' END, count(*)
                FROM onefold.outbox AS sent LEFT JOIN onefold.outbox_open AS open USING (place)
                LEFT JOIN onefold.outbox_done AS done USING (place) GROUP BY 1, 2",
        },
    ),
    (
        "evidence",
        Query {
            sqlite: "SELECT CASE kind WHEN 0 THEN 'unknown' WHEN 3 THEN 'late_success' WHEN 4 THEN 'happened'
                WHEN 5 THEN 'did_not_happen' ELSE 'other' END, count(*)
                FROM onefold_events JOIN onefold_operations ON onefold_operations.seq = onefold_events.operation
                WHERE kind <> 6 AND onefold_operations.operation <> 'FulfilOrder' GROUP BY 1",
            postgres: "SELECT CASE kind WHEN 0 THEN 'unknown' WHEN 3 THEN 'late_success' WHEN 4 THEN 'happened'
                WHEN 5 THEN 'did_not_happen' ELSE 'other' END, count(*)
                FROM onefold.events JOIN onefold.operations USING (id)
                WHERE kind <> 6 AND operation <> 'FulfilOrder' GROUP BY 1",
        },
    ),
    (
        "permits",
        Query {
            sqlite: "SELECT consumer, 'of', coalesce(damaged, message), 'by', who FROM onefold_permits",
            postgres: "SELECT convert_from(consumer, 'UTF8'), 'of', convert_from(coalesce(damaged, message), 'UTF8'),
                'by', convert_from(who, 'UTF8') FROM onefold.permits",
        },
    ),
    (
        "acts",
        Query {
            sqlite: "SELECT CASE kind WHEN 0 THEN 'redriven' WHEN 1 THEN 'delivered' ELSE 'discarded' END, who,
                count(*) FROM onefold_acts GROUP BY 1, 2",
            postgres: "SELECT CASE kind WHEN 0 THEN 'redriven' WHEN 1 THEN 'delivered' ELSE 'discarded' END,
                convert_from(who, 'UTF8'), count(*) FROM onefold.acts GROUP BY 1, 2",
        },
    ),
    (
        "superseded",
        Query {
            sqlite: "SELECT entity, version FROM onefold_superseded",
            postgres: "SELECT convert_from(entity, 'UTF8'), version FROM onefold.superseded",
        },
    ),
];
/// What has not come to its end yet.
const OPEN: Query<'static> = Query {
    sqlite: "SELECT (SELECT count(*) FROM onefold_outbox_open WHERE state <> 3)
        + (SELECT count(*) FROM onefold_operations LEFT JOIN onefold_outcomes USING (seq)
           WHERE coalesce(state, 5) = 5)",
    postgres: "SELECT (SELECT count(*) FROM onefold.outbox_open WHERE state <> 3)
        + (SELECT count(*) FROM onefold.operations WHERE state IN (1, 5))",
};
const CUSTOMER: &str = "SELECT customer_id FROM orders WHERE order_id =";
const ORDERS_OPEN: &str = "SELECT count(*) FROM orders WHERE status = 'placed'";
/// How often events were sent that have arrived by now.
const SENDINGS: Query<'static> = Query {
    sqlite: "SELECT coalesce(sum(attempt), 0) FROM onefold_outbox_done JOIN onefold_outbox USING (seq)
        WHERE destination <> 'mail'",
    postgres: "SELECT coalesce(sum(attempt), 0) FROM onefold.outbox_done JOIN onefold.outbox USING (place)
        WHERE destination <> 'mail'",
};
/// Events that a broker has taken, with their receivers.
const TAKEN: Query<'static> = Query {
    sqlite: "SELECT destination || ' ' || id FROM onefold_outbox_done JOIN onefold_outbox USING (seq)",
    postgres: "SELECT convert_from(destination, 'UTF8') || ' ' || convert_from(id, 'UTF8')
        FROM onefold.outbox_done JOIN onefold.outbox USING (place)",
};
/// Events that a receiver is done with, with their senders.
const DONE: &str = "SELECT source || ' ' || message FROM {inbox} WHERE state <> 0 AND round = 0";

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Books {
    tables: BTreeMap<String, Vec<String>>,
}

impl Books {
    /// As it is now.
    pub async fn read(ledgers: &Ledgers, happened: &Happened) -> anyhow::Result<Books> {
        let mut books = Books::default();
        for name in NAMES {
            for (_, table, sql) in OWN.iter().filter(|(of, ..)| *of == name) {
                books.add(name, table, ledgers.ask(name, *sql).await?);
            }
            for (table, sql) in LAYER {
                books.add(name, table, ledgers.ask(name, *sql).await?);
            }
            for (table, query) in LAYER_BY_DATABASE {
                books.add(name, table, ledgers.ask(name, *query).await?);
            }
        }
        let known = ledgers.ask("payment", "SELECT payment_attempt_id, charge FROM captures").await?;
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

    /// Whether nothing is on its way any more, in the databases or at a broker.
    pub async fn settled(ledgers: &Ledgers) -> anyhow::Result<bool> {
        // In this order: what is handled in between may leave a mail on its way.
        Ok(Books::left(ledgers).await? && Books::handled(ledgers).await? && Books::left(ledgers).await?)
    }

    /// Whether everything has left the databases.
    async fn left(ledgers: &Ledgers) -> anyhow::Result<bool> {
        let mut open = ledgers.count("order", ORDERS_OPEN).await?;
        for name in NAMES {
            open += ledgers.count(name, OPEN).await?;
        }
        Ok(open == 0)
    }

    /// Whether the receivers are done with every event that a broker has taken for them. Where there is no broker, who
    /// takes an event is done with it.
    async fn handled(ledgers: &Ledgers) -> anyhow::Result<bool> {
        for (sender, receiver) in between_services() {
            let (taken, done) = (ledgers.ask(sender, TAKEN).await?, ledgers.ask(receiver, DONE).await?);
            let done = of(&done, sender);
            if !of(&taken, receiver).is_subset(&done) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// How often the relays have sent events, those that had to be sent again counted each time.
    pub async fn sendings(ledgers: &Ledgers) -> anyhow::Result<usize> {
        let mut counted = 0;
        for name in NAMES {
            counted += ledgers.count(name, SENDINGS).await?;
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

    /// The lines of one table, such as `order.orders`.
    pub fn table(&self, name: &str) -> &[String] {
        self.tables.get(name).map_or(&[], Vec::as_slice)
    }

    /// Every table with its lines.
    pub fn tables(&self) -> impl Iterator<Item = (&str, &[String])> {
        self.tables.iter().map(|(name, lines)| (name.as_str(), lines.as_slice()))
    }

    /// Lamps are delivered, until there are so many.
    pub async fn restock(ledgers: &Ledgers, lamps: usize) -> anyhow::Result<()> {
        let restock = format!("UPDATE stock SET available = {lamps} WHERE product = 'lamp'");
        ledgers.change("inventory", restock.as_str()).await
    }

    /// Whose order this is, if there is one.
    pub async fn customer_of(ledgers: &Ledgers, order_id: i64) -> anyhow::Result<Option<String>> {
        Ok(ledgers.ask("order", format!("{CUSTOMER} {order_id}").as_str()).await?.into_iter().next())
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

/// What stands behind a name.
fn of<'l>(lines: &'l [String], name: &str) -> BTreeSet<&'l str> {
    lines.iter().filter_map(|line| line.strip_prefix(name)?.strip_prefix(' ')).collect()
}
