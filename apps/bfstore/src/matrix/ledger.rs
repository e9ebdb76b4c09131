//! What has come of every checkout: its effects, counted in all databases and outside, and everything that is there and
//! should not be, or is missing.

use std::collections::BTreeMap;

use super::catalogue;
use super::plan::{ASK_FOR_MAILS, Effect, Plan, Source};
use super::traffic::{checkout_of, customer};
use crate::outside::Happened;
use crate::story::Books;

/// What each checkout costs, in cents, and gives in points.
const CENTS: i64 = 2500;
const POINTS: i64 = 25;

/// The effects of every checkout, and what is wrong.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    effects: Vec<[usize; Effect::ALL.len()]>,
    /// One line for each row that is too much or missing.
    pub faults: Vec<String>,
}

/// A row that should be there as often as it says.
type Rows = BTreeMap<String, i64>;

impl Ledger {
    /// Of the checkouts of these plans. `lamps` is what there was at the beginning.
    pub fn read(books: &Books, happened: &Happened, plans: &[Plan], lamps: usize) -> Ledger {
        let mut ledger = Ledger { effects: vec![Default::default(); plans.len()], faults: Vec::new() };
        let orders = ledger.orders(books);
        let of_order = |line: &str| {
            let order_id = line.split([' ', '/']).next()?;
            orders.get(order_id.strip_prefix("order-").unwrap_or(order_id)).copied()
        };
        for line in books.table("inventory.reservations") {
            ledger.count(of_order(line), Effect::Reservation);
        }
        for line in books.table("outside.captures") {
            ledger.count(of_order(line), Effect::Capture);
        }
        for line in books.table("loyalty.effects") {
            ledger.count(of_order(line), Effect::Award);
        }
        for mail in &happened.mails {
            let customer = mail.to.first().and_then(|to| to.strip_suffix("@example.org"));
            ledger.count(customer.and_then(checkout_of), Effect::Notification);
        }
        let (expected, found) = (expected(&orders, plans, lamps), found(books));
        for (row, count) in &found {
            let wanted = expected.get(row).copied().unwrap_or(0);
            if *count > wanted {
                ledger.faults.push(format!("too much: {row} ({count}, not {wanted})"));
            }
        }
        for (row, wanted) in &expected {
            let count = found.get(row).copied().unwrap_or(0);
            if count < *wanted {
                ledger.faults.push(format!("missing: {row} ({count}, not {wanted})"));
            }
        }
        ledger
    }

    /// How often this effect has happened for this checkout.
    pub fn effects(&self, checkout: usize, effect: Effect) -> usize {
        self.effects[checkout][effect as usize]
    }

    /// The checkouts of the orders.
    fn orders(&mut self, books: &Books) -> BTreeMap<String, usize> {
        let mut orders = BTreeMap::new();
        for line in books.table("order.orders") {
            let mut cells = line.split(' ');
            let (order_id, customer_id) = (cells.next(), cells.next());
            let checkout = customer_id.and_then(checkout_of);
            self.count(checkout, Effect::Order);
            orders.extend(order_id.map(str::to_owned).zip(checkout));
        }
        orders
    }

    fn count(&mut self, checkout: Option<usize>, effect: Effect) {
        match checkout.and_then(|checkout| self.effects.get_mut(checkout)) {
            Some(effects) => effects[effect as usize] += 1,
            None => self.faults.push(format!("of nobody: {}", effect.name())),
        }
    }
}

/// Every row that should be there, in all databases and outside.
fn expected(orders: &BTreeMap<String, usize>, plans: &[Plan], lamps: usize) -> Rows {
    let (mut rows, each) = (Rows::new(), plans.len() as i64);
    for checkout in 0..plans.len() {
        rows.insert(format!("loyalty.points: {} {POINTS}", customer(checkout)), 1);
    }
    for (order_id, checkout) in orders {
        let customer_id = customer(*checkout);
        // Two events ask for the mail, and whoever asks by hand does so with a third.
        let by_hand = plans[*checkout].source(Effect::Notification) == Source::OperatorReplay;
        let asked = ASK_FOR_MAILS.len() + usize::from(by_hand);
        for row in [
            format!("order.orders: {order_id} {customer_id} lamp 1 {CENTS} confirmed 2"),
            format!("inventory.reservations: {order_id} lamp 1"),
            format!("payment.captures: {order_id} {customer_id} {CENTS}"),
            format!("notification.requests: {order_id} {asked} 1"),
            format!("notification.effects: order-{order_id}/ORDER_CONFIRMED"),
            format!("loyalty.effects: order-{order_id}/POINTS"),
            format!("outside.captures: {order_id} {CENTS} under its own key"),
            format!("outside.mails: {customer_id}@example.org: Your order {order_id}"),
        ] {
            rows.insert(row, 1);
        }
    }
    for row in [
        "order.baskets: lamp 1 2500",
        "order.operations: PlaceOrder succeeded",
        "order.operations: FulfilOrder succeeded",
        "order.operations: ConfirmOrder succeeded",
        "order.outgoing: loyalty delivered",
        "order.outgoing: notification delivered",
        "inventory.operations: Reserve succeeded",
        "payment.operations: Capture succeeded",
        "payment.outgoing: notification delivered",
        "notification.outgoing: mail delivered",
    ] {
        rows.insert(row.to_owned(), each);
    }
    rows.insert(format!("inventory.stock: lamp {}", lamps - plans.len()), 1);
    rows.insert("inventory.stock: chair 100".into(), 1);
    for number in 0..plans.len() {
        let newest = catalogue::newest(number);
        rows.insert(format!("storefront.prices: {newest}"), 1);
        rows.insert(
            format!("storefront.versions: product/{} {}", catalogue::product(number), catalogue::NEW),
            1,
        );
    }
    rows.insert("storefront.prices: chair 9900 0".into(), 1);
    rows.insert("storefront.prices: lamp 2500 0".into(), 1);
    rows
}

/// Every row that is there. Left out is what repetition may leave: deliveries that were handled as duplicates of an effect
/// that is kept, old prices that were not applied, evidence of what was lost and found, and pages that were opened and not
/// used.
fn found(books: &Books) -> Rows {
    let mut rows = Rows::new();
    for (table, lines) in books.tables() {
        for line in lines {
            let words: Vec<&str> = line.split(' ').collect();
            let (row, count) = match (table, &words[..]) {
                ("storefront.checkouts" | "storefront.superseded" | "outside.requests", _) => continue,
                (_, [_, "processed" | "superseded", _]) if table.ends_with(".incoming") => continue,
                (_, _) if table.ends_with(".evidence") || table.ends_with(".acts") => continue,
                (_, [what, state, count])
                    if table.ends_with(".operations") || table.ends_with(".outgoing") =>
                {
                    (format!("{what} {state}"), count.parse().unwrap_or(0))
                }
                _ => (line.clone(), 1),
            };
            *rows.entry(format!("{table}: {row}")).or_default() += count;
        }
    }
    rows
}
