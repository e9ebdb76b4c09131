//! `bfstore check`: a mark says that something was done. Is it there?
//!
//! Each mark is compared with its effect through the business key that both have. A mark and its effect are one commit, so
//! one without the other is always wrong: a handler that did nothing and said "done", a backup of half a database, or
//! somebody's hand. It is named and left as it is; what is to be done about it is a person's matter. Only reads.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::ExitCode;

use crate::story::ledgers::{open, rows as lines};

/// Marks of one kind whose effect is not there: the service, what kind, and how they are found.
const MARKS: &[(&str, &str, &str)] = &[
    (
        "order",
        "PlaceOrder has succeeded, and there is no order",
        "SELECT key FROM onefold_operations JOIN onefold_outcomes USING (seq) WHERE operation = 'PlaceOrder'
         AND state = 2 AND key NOT IN (SELECT checkout_id FROM orders)",
    ),
    (
        "order",
        "FulfilOrder has succeeded, and the order is not fulfilled",
        "SELECT key FROM onefold_operations JOIN onefold_outcomes USING (seq) WHERE operation = 'FulfilOrder'
         AND state = 2 AND key NOT IN (SELECT 'order-' || order_id FROM orders WHERE status <> 'placed')",
    ),
    (
        "order",
        "ConfirmOrder has succeeded, and the order is as it was",
        "SELECT correlation_id FROM onefold_operations JOIN onefold_outcomes USING (seq)
         WHERE operation = 'ConfirmOrder' AND state = 2
         AND correlation_id NOT IN (SELECT checkout_id FROM orders WHERE status <> 'placed')",
    ),
    (
        "inventory",
        "Reserve has succeeded, and there is no reservation",
        "SELECT key FROM onefold_operations JOIN onefold_outcomes USING (seq) WHERE operation = 'Reserve'
         AND state = 2 AND key NOT IN (SELECT reservation_id FROM reservations)",
    ),
    (
        "payment",
        "NoteCapture has succeeded, and there is no capture",
        "SELECT key FROM onefold_operations JOIN onefold_outcomes USING (seq) WHERE operation = 'NoteCapture'
         AND state = 2 AND key NOT IN (SELECT payment_attempt_id FROM captures)",
    ),
    (
        "notification",
        "the message is processed, and nobody has asked for a mail",
        "SELECT message FROM onefold_inbox WHERE consumer = 'notification' AND state = 1 AND message NOT IN (
            SELECT 'order-' || order_id || CASE event WHEN 'order.confirmed' THEN '/confirmed' ELSE '/captured' END
                || '/notification' FROM requests)",
    ),
    (
        "notification",
        "a mail was asked for, and its effect is not noted",
        "SELECT DISTINCT 'order-' || order_id || '/ORDER_CONFIRMED' FROM requests
         WHERE 'order-' || order_id || '/ORDER_CONFIRMED' NOT IN (SELECT key FROM onefold_effects)",
    ),
    (
        "loyalty",
        "the message is processed, and there is no award",
        "SELECT DISTINCT message FROM onefold_inbox WHERE consumer = 'loyalty' AND state = 1
         AND replace(message, '/confirmed/loyalty', '/POINTS') NOT IN (SELECT key FROM onefold_effects)",
    ),
    (
        "storefront",
        "the version is applied, and the price is another",
        "SELECT entity || ' ' || version FROM onefold_projections WHERE NOT EXISTS (
            SELECT 1 FROM prices WHERE 'product/' || product = entity AND prices.version = onefold_projections.version)",
    ),
];
/// Awards that are noted, by order; points that are there, by customer; what an order is worth and to whom.
const AWARDS: &str = "SELECT replace(replace(key, 'order-', ''), '/POINTS', '') FROM onefold_effects";
const POINTS: &str = "SELECT customer_id || '=' || points FROM points";
const WORTH: &str = "SELECT order_id || '=' || customer_id || '=' || (cents / 100) FROM orders";

/// Prints what is wrong.
pub fn tell(folder: &Path) -> anyhow::Result<ExitCode> {
    let findings = findings(folder)?;
    if findings.is_empty() {
        println!("every mark has its effect");
        return Ok(ExitCode::SUCCESS);
    }
    for finding in findings {
        println!("{finding}");
    }
    Ok(ExitCode::FAILURE)
}

/// Each mark without its effect, as `service: id: what is wrong`.
pub fn findings(folder: &Path) -> anyhow::Result<Vec<String>> {
    let mut findings = Vec::new();
    for (service, wrong, sql) in MARKS {
        let ids = lines(&open(folder, service)?, sql)?;
        findings.extend(ids.iter().map(|id| format!("{service}: {id}: {wrong}")));
    }
    findings.extend(points(folder)?);
    Ok(findings)
}

/// The points of a customer are the sum of the awards.
fn points(folder: &Path) -> anyhow::Result<Vec<String>> {
    // Both from one moment; the orders afterwards, since an order is older than its award.
    let loyalty = open(folder, "loyalty")?;
    let moment = loyalty.unchecked_transaction()?;
    let (awards, points) = (lines(&moment, AWARDS)?, lines(&moment, POINTS)?);
    let awards: BTreeSet<String> = awards.into_iter().collect();
    let mut sums: BTreeMap<String, (i64, i64)> = BTreeMap::new();
    for line in points {
        if let Some((customer, points)) = line.rsplit_once('=') {
            sums.entry(customer.to_owned()).or_default().0 = points.parse()?;
        }
    }
    for line in lines(&open(folder, "order")?, WORTH)? {
        let Some((order, rest)) = line.split_once('=') else { continue };
        if let (true, Some((customer, worth))) = (awards.contains(order), rest.rsplit_once('=')) {
            sums.entry(customer.to_owned()).or_default().1 += worth.parse::<i64>()?;
        }
    }
    let wrong = sums.into_iter().filter(|(_, (points, awarded))| points != awarded);
    let said = |(customer, (points, awarded))| {
        format!("loyalty: {customer}: there are {points} points, and the awards add up to {awarded}")
    };
    Ok(wrong.map(said).collect())
}
