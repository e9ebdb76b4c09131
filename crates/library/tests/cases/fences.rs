//! A provider that first answers "not found" and then lets the delayed original land: one effect behind each fence, and
//! two where the fence is only claimed.
//!
//! The original lands when the history says so: in the window that the fence `settled` waits for, or after a retry was
//! sent on. The engine has the same on paused time; here the verdicts go through the stores.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use onefold::{CallError, Verdict};
use onefold_core::Kept;
use onefold_core::reconcile::{Fence, Found, Verdict as Probe};
use onefold_engine::{Probed, Reconciler, Registration, Subject};
use onefold_testkit::{Store, on_each_store, wait};
use parking_lot::Mutex;

use crate::service::{Service, call};

on_each_store!(
    late_original_is_refused_by_the_tombstone,
    late_original_and_its_retry_are_one_under_the_same_key,
    late_original_is_found_at_the_end_of_the_window,
    without_the_fence_a_late_original_is_a_second_order,
);

const WINDOW: Duration = Duration::from_secs(1);
const STEP: &str = "order";

/// What a provider does about an original that comes late.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Provider {
    /// Notes what it was asked about and refuses it from then on.
    Tombstones,
    /// Makes one order of all requests under one key.
    OneForEachKey,
    /// Neither.
    Plain,
}

/// When the original lands.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Lands {
    AfterTheFirstLookUp,
    AfterTheRetry,
}

#[derive(Default)]
struct Books {
    orders: Vec<String>,
    refused: Vec<String>,
    on_its_way: Option<String>,
}

struct Shop {
    provider: Provider,
    claims: Fence,
    lands: Lands,
    books: Mutex<Books>,
}

impl Shop {
    fn key(&self, attempt: u32, downstream: String) -> String {
        // A provider that tombstones names each attempt's request, so that the next one is not refused with it.
        if self.provider == Provider::Tombstones { format!("{downstream}/{attempt}") } else { downstream }
    }

    /// The first request is delayed; a later one takes effect at once. Whether it was accepted.
    fn receive(&self, attempt: u32, key: String) -> Option<bool> {
        if attempt == 1 {
            self.books.lock().on_its_way = Some(key);
            return None;
        }
        let accepted = self.land(key);
        self.original_lands();
        Some(accepted)
    }

    fn original_lands(&self) {
        let original = self.books.lock().on_its_way.take();
        if let Some(key) = original {
            self.land(key);
        }
    }

    fn land(&self, key: String) -> bool {
        let mut books = self.books.lock();
        if books.refused.contains(&key) {
            return false;
        }
        if self.provider != Provider::OneForEachKey || !books.orders.contains(&key) {
            books.orders.push(key);
        }
        true
    }
}

#[async_trait]
impl Reconciler for Shop {
    async fn probe(&self, subject: &Subject) -> Probed {
        let key = self.key(subject.record().attempt, subject.downstream_key(STEP));
        let found = self.books.lock().orders.contains(&key);
        let verdict = match found {
            true => Probe::Happened(Found { kept: Kept::Nothing, resource: None }),
            false => {
                if self.provider == Provider::Tombstones {
                    self.books.lock().refused.push(key);
                }
                Probe::DidNotHappen(Some(self.claims))
            }
        };
        if self.lands == Lands::AfterTheFirstLookUp {
            self.original_lands();
        }
        Probed { verdict, reason: "looked".into(), evidence: String::new() }
    }
}

/// How many orders there are once the operation is finished and the original has landed.
async fn orders_after(store: &Store, key: &str, provider: Provider, claims: Fence, lands: Lands) -> usize {
    let service = Service::open(store.url()).await;
    let shop = Arc::new(Shop { provider, claims, lands, books: Mutex::default() });
    let perform = async || {
        let shop = shop.clone();
        let work = move |attempt: onefold::Performing| async move {
            let key = shop.key(attempt.attempt(), attempt.downstream_key(STEP));
            match shop.receive(attempt.attempt(), key) {
                None => Err("the caller waited long enough".into()),
                Some(true) => Ok(Verdict::succeeded(5001)),
                Some(false) => Ok(Verdict::not_done("refused")),
            }
        };
        service.reserved(call(key), work).await
    };
    let lost = perform().await;
    assert!(matches!(lost, Err(CallError::OutcomeUnknown { error: Some(_), .. })), "{lost:?}");
    let _running = service.engine().reconcile(vec![Registration {
        operation: "PlaceOrder".into(),
        label: "PlaceOrder".into(),
        reconciler: shop.clone(),
        probe_max: Duration::from_secs(5),
        sends_for: Duration::ZERO,
        companion: None,
    }]);
    wait::until_within(wait::DEADLINE, "the operation is finished", async || match perform().await {
        Ok(_) | Err(CallError::ValueNotKept { .. }) => true,
        Err(CallError::OutcomeUnknown { error: None, .. }) => false,
        Err(other) => panic!("{other}"),
    })
    .await;
    let books = shop.books.lock();
    assert_eq!(books.on_its_way, None, "the original has landed");
    books.orders.len()
}

async fn late_original_is_refused_by_the_tombstone(store: &Store) {
    let orders =
        orders_after(store, "k", Provider::Tombstones, Fence::Tombstoned, Lands::AfterTheRetry).await;
    assert_eq!(orders, 1);
}

async fn late_original_and_its_retry_are_one_under_the_same_key(store: &Store) {
    let orders =
        orders_after(store, "k", Provider::OneForEachKey, Fence::SameKey, Lands::AfterTheRetry).await;
    assert_eq!(orders, 1);
}

async fn late_original_is_found_at_the_end_of_the_window(store: &Store) {
    let settled = Fence::Settled { window: WINDOW };
    assert_eq!(orders_after(store, "k", Provider::Plain, settled, Lands::AfterTheFirstLookUp).await, 1);
}

/// The witness: without what the fence stands for, the same history has two effects.
async fn without_the_fence_a_late_original_is_a_second_order(store: &Store) {
    let too_short = Fence::Settled { window: Duration::ZERO };
    for (key, claims) in [("t", Fence::Tombstoned), ("s", Fence::SameKey), ("w", too_short)] {
        let orders = orders_after(store, key, Provider::Plain, claims, Lands::AfterTheRetry).await;
        assert_eq!(orders, 2, "{claims:?}");
    }
}
