//! `bfstore check`: a mark says that something was done. Is it there?
//!
//! Each mark is compared with its effect through the business key that both have. A mark and its effect are one commit, so
//! one without the other is always wrong: a handler that did nothing and said "done", a backup of half a database, or
//! somebody's hand. It is named and left as it is; what is to be done about it is a person's matter. Only reads.

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;

use crate::ledgers::Ledgers;

/// Marks of one kind whose effect is not there: the service, what kind, and how they are found.
const MARKS: &[(&str, &str, &str)] = &[
    (
        "order",
        "PlaceOrder has succeeded, and there is no order",
        "SELECT key FROM {operations} WHERE operation = 'PlaceOrder'
         AND state = 2 AND key NOT IN (SELECT checkout_id FROM orders)",
    ),
    (
        "order",
        "FulfilOrder has succeeded, and the order is not fulfilled",
        "SELECT key FROM {operations} WHERE operation = 'FulfilOrder'
         AND state = 2 AND key NOT IN (SELECT 'order-' || order_id FROM orders WHERE status <> 'placed')",
    ),
    (
        "order",
        "ConfirmOrder has succeeded, and the order is as it was",
        "SELECT correlation_id FROM {operations}
         WHERE operation = 'ConfirmOrder' AND state = 2
         AND correlation_id NOT IN (SELECT checkout_id FROM orders WHERE status <> 'placed')",
    ),
    (
        "inventory",
        "Reserve has succeeded, and there is no reservation",
        "SELECT key FROM {operations} WHERE operation = 'Reserve'
         AND state = 2 AND key NOT IN (SELECT reservation_id FROM reservations)",
    ),
    (
        "payment",
        "Capture has succeeded, and there is no capture",
        "SELECT key FROM {operations} WHERE operation = 'Capture'
         AND state = 2 AND key NOT IN (SELECT payment_attempt_id FROM captures)",
    ),
    (
        "notification",
        "the message is processed, and nobody has asked for a mail",
        "SELECT message FROM {inbox} WHERE consumer = 'notification' AND state = 1 AND message NOT IN (
            SELECT 'order-' || order_id || CASE event WHEN 'order.confirmed' THEN '/confirmed' ELSE '/captured' END
                || '/notification' FROM requests)",
    ),
    (
        "notification",
        "a mail was asked for, and its effect is not noted",
        "SELECT DISTINCT 'order-' || order_id || '/ORDER_CONFIRMED' FROM requests
         WHERE 'order-' || order_id || '/ORDER_CONFIRMED' NOT IN (SELECT key FROM {effects})",
    ),
    (
        "loyalty",
        "the message is processed, and there is no award",
        "SELECT DISTINCT message FROM {inbox} WHERE consumer = 'loyalty' AND state = 1
         AND replace(message, '/confirmed/loyalty', '/POINTS') NOT IN (SELECT key FROM {effects})",
    ),
    (
        "storefront",
        "the version is applied, and the price is another",
        "SELECT entity || ' ' || version FROM {projections} WHERE NOT EXISTS (
            SELECT 1 FROM prices WHERE 'product/' || product = entity AND prices.version = projections.version)",
    ),
];
/// Awards that are noted, by order, and points that are there, by customer.
const AWARDS_AND_POINTS: &str = "SELECT replace(replace(key, 'order-', ''), '/POINTS', '') FROM {effects}
    UNION ALL SELECT customer_id || '=' || points FROM points";
/// What an order is worth, and to whom.
const WORTH: &str = "SELECT order_id || '=' || customer_id || '=' || (cents / 100) FROM orders";

/// Prints what is wrong.
pub async fn tell(ledgers: &Ledgers) -> anyhow::Result<ExitCode> {
    let findings = findings(ledgers).await?;
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
pub async fn findings(ledgers: &Ledgers) -> anyhow::Result<Vec<String>> {
    let mut findings = Vec::new();
    for (service, wrong, sql) in MARKS {
        let ids = ledgers.ask(service, *sql).await?;
        findings.extend(ids.iter().map(|id| format!("{service}: {id}: {wrong}")));
    }
    findings.extend(points(ledgers).await?);
    Ok(findings)
}

/// The points of a customer are the sum of the awards.
async fn points(ledgers: &Ledgers) -> anyhow::Result<Vec<String>> {
    // Both in one query, so of one moment; the orders afterwards, since an order is older than its award.
    let (mut awards, mut sums) = (BTreeSet::new(), BTreeMap::<String, (i64, i64)>::new());
    for line in ledgers.ask("loyalty", AWARDS_AND_POINTS).await? {
        match line.rsplit_once('=') {
            Some((customer, points)) => sums.entry(customer.to_owned()).or_default().0 = points.parse()?,
            None => drop(awards.insert(line)),
        }
    }
    for line in ledgers.ask("order", WORTH).await? {
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
