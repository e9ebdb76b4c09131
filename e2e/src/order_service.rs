//! A small order service in the test's process, which survives every kill of the gateway.
//!
//! It writes an order for each request as soon as it has read it, keeps which keys the orders came under, and
//! answers a random few milliseconds later. A service that honours keys writes one order for each and
//! answers the same every time.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use onefold_testkit::{Reply, Upstream};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::orders::ROUTE;

/// What the service makes of `Idempotency-Key`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Keys {
    /// Nothing: every request is an order.
    Ignored,
    /// One order for each.
    Honoured,
}

struct Books {
    /// Order numbers by key.
    orders: BTreeMap<String, Vec<u64>>,
    last: u64,
    random: StdRng,
}

/// The running service.
pub struct OrderService {
    upstream: Upstream,
    books: Arc<Mutex<Books>>,
}

/// The JSON that the service answers for an order.
#[must_use]
pub fn confirmation(number: u64) -> String {
    format!("{{\"order\":{number}}}")
}

impl OrderService {
    /// Starts it.
    pub async fn start(keys: Keys, seed: u64) -> Self {
        let upstream = Upstream::start().await;
        let random = StdRng::seed_from_u64(seed);
        let books = Arc::new(Mutex::new(Books { orders: BTreeMap::new(), last: 0, random }));
        let own = books.clone();
        upstream.responds(ROUTE, move |seen| {
            let key = seen.header("idempotency-key").unwrap_or_default();
            let mut books = lock(&own);
            let number = books.place(keys, key);
            let delay = Duration::from_micros(books.random.random_range(500..8000));
            Reply::status(201)
                .header("location", format!("/orders/{number}"))
                .json(confirmation(number))
                .delay_after(delay)
        });
        Self { upstream, books }
    }

    /// `http://127.0.0.1:PORT`.
    #[must_use]
    pub fn url(&self) -> String {
        self.upstream.url()
    }

    /// The numbers of the orders by key.
    #[must_use]
    pub fn orders(&self) -> BTreeMap<String, Vec<u64>> {
        lock(&self.books).orders.clone()
    }
}

impl Books {
    fn place(&mut self, keys: Keys, key: &str) -> u64 {
        if let (Keys::Honoured, Some(numbers)) = (keys, self.orders.get(key)) {
            return numbers[0];
        }
        self.last += 1;
        self.orders.entry(key.to_owned()).or_default().push(self.last);
        self.last
    }
}

fn lock(books: &Mutex<Books>) -> MutexGuard<'_, Books> {
    books.lock().unwrap_or_else(PoisonError::into_inner)
}
