//! One chapter of the story: what happened to its callers, what should have come of it, and the comparison with both
//! databases.
//!
//! A promise is written down before the chapter is played; every count of it is compared, and each that differs is a
//! fault in words. An answer that only asks to wait is no result, so how many of those came is not promised.

use std::collections::{BTreeMap, BTreeSet};

use crate::demo::books::{Operation, OrderRow};
use crate::demo::caller::Got;

/// How many of each kind.
pub(crate) type Tally = BTreeMap<String, usize>;

/// What should come of a chapter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Promise {
    /// Rows in the orders table.
    pub(crate) orders: usize,
    /// Answers by kind.
    pub(crate) answers: &'static [(&'static str, usize)],
    /// Operations that succeeded. There are no others.
    pub(crate) succeeded: usize,
}

/// A chapter that was played.
#[derive(Clone, Debug)]
pub(crate) struct Chapter {
    pub(crate) title: &'static str,
    /// What is ordered in this chapter and in no other.
    pub(crate) item: &'static str,
    /// The keys of this chapter and of no other.
    pub(crate) keys: &'static [&'static str],
    /// One for each request that was sent.
    pub(crate) got: Vec<Got>,
    pub(crate) promise: Promise,
}

/// A row of the table.
#[derive(Clone, Debug, Default)]
pub(crate) struct Row {
    pub(crate) title: &'static str,
    /// Requests that callers sent.
    pub(crate) sent: usize,
    /// Orders in the orders table.
    pub(crate) orders: usize,
    /// What the callers got, in the order in which each kind first came.
    pub(crate) answers: Vec<Answers>,
    /// Operations in the store by state.
    pub(crate) operations: Tally,
    /// What is not as it should be; empty when all is right.
    pub(crate) faults: Vec<String>,
}

/// The answers of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answers {
    pub(crate) kind: String,
    pub(crate) count: usize,
    /// The orders that they confirm.
    pub(crate) orders: BTreeSet<i64>,
}

impl Chapter {
    /// Compares what was promised with what is there.
    pub(crate) fn compare(&self, orders: &[OrderRow], operations: &[Operation]) -> Row {
        let made: BTreeSet<i64> = orders.iter().filter(|o| o.item == self.item).map(|o| o.id).collect();
        let told: BTreeSet<i64> = self.got.iter().filter_map(Got::order).collect();
        let own = operations.iter().filter(|o| self.keys.contains(&o.key.as_str()));
        let operations = tally(own.map(|o| o.state.clone()));
        let results = tally(self.got.iter().filter(|got| got.asks_to_wait().is_none()).map(Got::kind));

        let mut faults = Vec::new();
        different(&mut faults, "orders", made.len(), self.promise.orders);
        if told != made {
            faults.push(format!("callers were told of the orders {told:?}, the table has {made:?}"));
        }
        let promised = self.promise.answers.iter().map(|(kind, n)| ((*kind).to_owned(), *n)).collect();
        each_different(&mut faults, "answers", &results, &promised);
        let promised = Tally::from([("succeeded".to_owned(), self.promise.succeeded)]);
        each_different(&mut faults, "operations", &operations, &promised);
        Row {
            title: self.title,
            sent: self.got.len(),
            orders: made.len(),
            answers: by_kind(&self.got),
            operations,
            faults,
        }
    }
}

/// The sum of all chapters, against the databases as wholes: nothing is there that no chapter promised.
pub(crate) fn together(chapters: &[Chapter], orders: &[OrderRow], operations: &[Operation]) -> Row {
    let promised = |count: fn(&Promise) -> usize| chapters.iter().map(|c| count(&c.promise)).sum::<usize>();
    let states = tally(operations.iter().map(|o| o.state.clone()));
    let mut faults = Vec::new();
    different(&mut faults, "orders", orders.len(), promised(|p| p.orders));
    let succeeded = Tally::from([("succeeded".to_owned(), promised(|p| p.succeeded))]);
    each_different(&mut faults, "operations", &states, &succeeded);
    Row {
        title: "All together",
        sent: chapters.iter().map(|c| c.got.len()).sum(),
        orders: orders.len(),
        answers: by_kind(chapters.iter().flat_map(|c| &c.got)),
        operations: states,
        faults,
    }
}

fn tally(kinds: impl Iterator<Item = String>) -> Tally {
    let mut tally = Tally::new();
    for kind in kinds {
        *tally.entry(kind).or_default() += 1;
    }
    tally
}

fn by_kind<'a>(got: impl IntoIterator<Item = &'a Got>) -> Vec<Answers> {
    let mut all: Vec<Answers> = Vec::new();
    for got in got {
        let kind = got.kind();
        match all.iter_mut().find(|answers| answers.kind == kind) {
            Some(answers) => {
                answers.count += 1;
                answers.orders.extend(got.order());
            }
            None => all.push(Answers { kind, count: 1, orders: got.order().into_iter().collect() }),
        }
    }
    all
}

fn different(faults: &mut Vec<String>, what: &str, found: usize, promised: usize) {
    if found != promised {
        faults.push(format!("{found} {what} instead of {promised}"));
    }
}

fn each_different(faults: &mut Vec<String>, what: &str, found: &Tally, promised: &Tally) {
    let kinds: BTreeSet<&String> = found.keys().chain(promised.keys()).collect();
    for kind in kinds {
        let count = |tally: &Tally| tally.get(kind).copied().unwrap_or(0);
        different(faults, &format!("× {kind} among the {what}"), count(found), count(promised));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn answer(status: u16, code: Option<&str>, order: Option<i64>, replayed: bool) -> Got {
        let code = code.map(str::to_owned);
        Got::Answer { status, code, order, replayed, retry_after: Some(Duration::from_secs(1)) }
    }

    fn chapter() -> Chapter {
        Chapter {
            title: "a retry",
            item: "tea",
            keys: &["one"],
            got: vec![
                Got::Nothing,
                answer(409, Some("in-progress"), None, false),
                answer(201, None, Some(1), true),
            ],
            promise: Promise { orders: 1, answers: &[("no answer", 1), ("201 replayed", 1)], succeeded: 1 },
        }
    }

    fn order(id: i64, item: &str) -> OrderRow {
        OrderRow { id, item: item.to_owned(), quantity: 1, key: None }
    }

    fn operation(key: &str, state: &str) -> Operation {
        Operation { id: String::new(), key: key.to_owned(), state: state.to_owned() }
    }

    #[test]
    fn right_counts_have_no_fault_and_those_who_were_asked_to_wait_do_not_matter() {
        let row = chapter().compare(&[order(1, "tea")], &[operation("one", "succeeded")]);
        assert_eq!((row.faults, row.sent, row.orders), (vec![], 3, 1));
    }

    #[test]
    fn a_second_order_is_a_fault() {
        let twice = [order(1, "tea"), order(2, "tea")];
        let row = chapter().compare(&twice, &[operation("one", "succeeded")]);
        assert_eq!(
            row.faults,
            ["2 orders instead of 1", "callers were told of the orders {1}, the table has {1, 2}"]
        );
    }

    #[test]
    fn an_answer_or_a_state_that_was_not_promised_is_a_fault() {
        let mut played = chapter();
        played.got[2] = answer(201, None, Some(1), false);
        let row = played.compare(&[order(1, "tea")], &[operation("one", "outcome_unknown")]);
        assert_eq!(
            row.faults,
            [
                "1 × 201 among the answers instead of 0",
                "0 × 201 replayed among the answers instead of 1",
                "1 × outcome_unknown among the operations instead of 0",
                "0 × succeeded among the operations instead of 1",
            ]
        );
    }

    #[test]
    fn what_no_chapter_promised_is_a_fault_of_the_whole() {
        let orders = [order(1, "tea"), order(2, "coffee")];
        let operations = [operation("one", "succeeded"), operation("two", "processing")];
        let row = together(&[chapter()], &orders, &operations);
        assert_eq!(row.faults, ["2 orders instead of 1", "1 × processing among the operations instead of 0"]);
    }
}
