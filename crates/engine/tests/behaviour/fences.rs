//! A negative answer that is overtaken by the late original: one effect behind each fence, and two without.
//!
//! The provider here first answers "not found", and then the delayed original lands. Each fence is what a provider of
//! that kind does; the last test takes it away and lets the reconciler claim it all the same, to show what the fence
//! is for.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use onefold_core::contract::OnStale;
use onefold_core::reconcile::{Fence, Found, Verdict as Probe};
use onefold_core::{Contract, Kept, Outcome};
use onefold_engine::{Attempt, Call, Engine, Entered, Probed, Reconciler, Registration, Subject, Verdict};
use parking_lot::Mutex;
use tokio::time::sleep;

use crate::world::*;

/// How long the original is on its way: longer than the caller waits, shorter than the window.
const ON_ITS_WAY: Duration = secs(20);
const WINDOW: Duration = secs(30);

#[derive(Clone, Copy, PartialEq)]
enum Provider {
    /// Notes what it was asked about and refuses it from then on.
    Tombstones,
    /// Makes one order of all requests under one key.
    OneForEachKey,
    /// Neither.
    Plain,
}

#[derive(Default)]
struct Books {
    orders: Vec<String>,
    refused: Vec<String>,
}

struct Shop {
    provider: Provider,
    claims: Fence,
    books: Mutex<Books>,
}

impl Shop {
    fn new(provider: Provider, claims: Fence) -> Arc<Shop> {
        Arc::new(Shop { provider, claims, books: Mutex::default() })
    }

    fn lands(&self, key: &str) -> Outcome {
        let mut books = self.books.lock();
        if books.refused.iter().any(|refused| refused == key) {
            return Outcome::NotDone;
        }
        if self.provider == Provider::OneForEachKey && books.orders.iter().any(|order| order == key) {
            return Outcome::Succeeded;
        }
        books.orders.push(key.to_owned());
        Outcome::Succeeded
    }

    fn orders(&self) -> usize {
        self.books.lock().orders.len()
    }

    fn key(&self, attempt: u32, downstream: String) -> String {
        // A provider that tombstones names each attempt's request, so that the next one is not refused with it.
        if self.provider == Provider::Tombstones { format!("{downstream}/{attempt}") } else { downstream }
    }
}

#[async_trait]
impl Reconciler for Shop {
    async fn probe(&self, subject: &Subject) -> Probed {
        let key = self.key(subject.record().attempt, subject.downstream_key("order"));
        let mut books = self.books.lock();
        let verdict = if books.orders.contains(&key) {
            Probe::Happened(Found { kept: Kept::Nothing, resource: None })
        } else {
            if self.provider == Provider::Tombstones {
                books.refused.push(key);
            }
            Probe::DidNotHappen(Some(self.claims))
        };
        Probed { verdict, reason: "looked".into(), evidence: String::new() }
    }
}

/// The process is lost with its request on the way: nobody will ever hear of what becomes of it.
fn lose_on_the_way(shop: &Arc<Shop>, engine: &Engine, attempt: &Attempt) {
    let key = shop.key(attempt.number(), attempt.downstream_key("order", engine.identity_key()));
    let shop = shop.clone();
    tokio::spawn(async move {
        sleep(ON_ITS_WAY).await;
        shop.lands(&key);
    });
}

/// The caller retries each second; what is sent on takes effect at once.
async fn retry_until_done(shop: &Shop, engine: &Engine, order: &Call) {
    for _ in 0..600 {
        sleep(secs(1)).await;
        if let Ok(Entered::Attempt(attempt)) = enter(engine, order).await {
            let key = shop.key(attempt.number(), attempt.downstream_key("order", engine.identity_key()));
            let outcome = shop.lands(&key);
            recorded(attempt.settle(Verdict::known(outcome, answered(201, "order"), None)).await);
        }
    }
    let known = known(engine, order).await;
    assert_eq!(known.record.expect("a record").state.name(), "succeeded");
}

async fn orders_after_a_late_original(provider: Provider, claims: Fence) -> usize {
    let engine = World::new().engine();
    let shop = Shop::new(provider, claims);
    let order = call(Contract { on_stale: OnStale::Reconcile, ..busy() }, "3 apples");
    let mut attempt = begin(&engine, &order).await;
    lose_on_the_way(&shop, &engine, &attempt);
    attempt.lose("the caller waited long enough").await;
    drop(attempt);
    let _running = engine.reconcile(vec![Registration {
        operation: "PlaceOrder".into(),
        label: "PlaceOrder".into(),
        reconciler: shop.clone(),
        probe_max: secs(5),
        sends_for: Duration::ZERO,
        companion: None,
    }]);
    retry_until_done(&shop, &engine, &order).await;
    shop.orders()
}

#[tokio::test(start_paused = true)]
async fn late_original_is_refused_by_the_tombstone() {
    assert_eq!(orders_after_a_late_original(Provider::Tombstones, Fence::Tombstoned).await, 1);
}

#[tokio::test(start_paused = true)]
async fn late_original_and_its_retry_are_one_under_the_same_key() {
    assert_eq!(orders_after_a_late_original(Provider::OneForEachKey, Fence::SameKey).await, 1);
}

#[tokio::test(start_paused = true)]
async fn late_original_is_found_at_the_end_of_the_window() {
    assert_eq!(orders_after_a_late_original(Provider::Plain, Fence::Settled { window: WINDOW }).await, 1);
}

/// The witness: without what the fence stands for, the same history has two effects.
#[tokio::test(start_paused = true)]
async fn without_the_fence_there_are_two_orders() {
    assert_eq!(orders_after_a_late_original(Provider::Plain, Fence::Tombstoned).await, 2);
    assert_eq!(orders_after_a_late_original(Provider::Plain, Fence::SameKey).await, 2);
    let too_short = Fence::Settled { window: ON_ITS_WAY / 4 };
    assert_eq!(orders_after_a_late_original(Provider::Plain, too_short).await, 2);
}
