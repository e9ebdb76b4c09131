//! An upstream that first answers "not found" and then lets the delayed original land, after the caller's retry: one
//! effect behind the fences `tombstoned` and `same_key`, and two where a fence is only claimed.
//!
//! The fence `settled` waits for the original to land before it lets anybody retry: reconcile.rs has that.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

use onefold_e2e::{ROUTE, assert_fresh, order, setup};
use onefold_testkit::{Gate, Reply, Seen, Store, Upstream, on_each_store, wait};
use parking_lot::Mutex;

on_each_store!(
    late_original_is_refused_behind_a_tombstone,
    late_original_and_its_retry_are_one_under_the_same_key,
    late_original_is_a_second_effect_where_a_tombstone_is_only_claimed,
    late_original_is_a_second_effect_where_the_same_key_means_nothing,
    late_original_is_a_second_effect_where_it_lands_after_the_window,
);

/// Where orders are looked up.
const LOOK_UP: &str = "/lookup";

/// What the upstream does about an original that comes late.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Provider {
    /// Refuses what was on its way when it was asked.
    Tombstones,
    /// Has one effect of all requests under one key.
    OneForEachKey,
    /// Neither.
    Plain,
}

#[derive(Default)]
struct Books {
    asked_at: Option<Instant>,
    keys: HashSet<String>,
    /// Requests that have come through, with an effect or without.
    landed: usize,
}

impl Provider {
    fn has_effect(self, request: &Seen, books: &mut Books) -> bool {
        books.landed += 1;
        let key = request.header("idempotency-key").expect("it goes on under its key");
        let is_first = books.keys.insert(key.to_owned());
        match self {
            Provider::Tombstones => books.asked_at.is_none_or(|asked| request.at > asked),
            Provider::OneForEachKey => is_first,
            Provider::Plain => true,
        }
    }
}

/// How many effects there are once the caller has his answer and the original has landed.
async fn effects(store: &Store, provider: Provider, fence: &str) -> u64 {
    let upstream = Upstream::start().await;
    let books: Arc<Mutex<Books>> = Arc::default();
    let reply = || {
        let books = books.clone();
        Reply::count().effect_if(move |request| provider.has_effect(request, &mut books.lock()))
    };
    let gate = Gate::closed();
    upstream.next(ROUTE, reply().hold_before(&gate));
    upstream.always(ROUTE, reply());
    let asked = books.clone();
    upstream.responds(LOOK_UP, move |_| {
        asked.lock().asked_at = Some(Instant::now());
        Reply::status(404)
    });
    let reconcile = format!(
        "while_running = {{ busy = true }}\n\
         reconcile = {{ get = \"{}{LOOK_UP}?key={{{{key}}}}\", happened = \"200\", did_not_happen = \"404\", {fence} }}",
        upstream.url()
    );
    let gateway =
        setup(&upstream, &reconcile).store_url(store.url()).upstream("timeout = \"200ms\"").start().await;
    let lost = gateway.send(&order("k-1")).await;
    assert_eq!(lost.problem().as_deref(), Some("outcome-unknown"), "{lost}");
    let answer = wait::some(wait::DEADLINE, "the retry has gone on", async || {
        let answer = gateway.send(&order("k-1")).await;
        (answer.problem().as_deref() != Some("outcome-unknown")).then_some(answer)
    })
    .await;
    assert_fresh(&answer, 200);
    assert_eq!((books.lock().landed, upstream.count(ROUTE)), (1, 1), "the retry alone");
    gate.open();
    wait::until("the original has landed", || books.lock().landed == 2).await;
    if provider == Provider::Plain {
        upstream.reached(ROUTE, 2).await;
    }
    assert!(gateway.send(&order("k-1")).await.is_replay());
    assert_eq!(upstream.seen_at(ROUTE).len(), 2);
    upstream.count(ROUTE)
}

async fn late_original_is_refused_behind_a_tombstone(store: &Store) {
    assert_eq!(effects(store, Provider::Tombstones, "fence = \"tombstoned\"").await, 1);
}

async fn late_original_and_its_retry_are_one_under_the_same_key(store: &Store) {
    assert_eq!(effects(store, Provider::OneForEachKey, "fence = \"same_key\"").await, 1);
}

async fn late_original_is_a_second_effect_where_a_tombstone_is_only_claimed(store: &Store) {
    assert_eq!(effects(store, Provider::Plain, "fence = \"tombstoned\"").await, 2);
}

async fn late_original_is_a_second_effect_where_the_same_key_means_nothing(store: &Store) {
    assert_eq!(effects(store, Provider::Plain, "fence = \"same_key\"").await, 2);
}

async fn late_original_is_a_second_effect_where_it_lands_after_the_window(store: &Store) {
    assert_eq!(effects(store, Provider::Plain, "fence = \"settled\", window = \"200ms\"").await, 2);
}
