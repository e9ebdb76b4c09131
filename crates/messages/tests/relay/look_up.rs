//! Looking up what became of a message: what is found settles it, what is not found counts after a window.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use onefold_core::{ActKind, OutboxState, StoreTime};
use onefold_messages::{Found, LookUp, Message, Sending};
use onefold_store::clock::ManualClock;
use onefold_testkit::{Store, on_each_store, wait};

use crate::rig::{Scripted, Step, accepted, key, message, outbox};

on_each_store!(what_is_found_settles_and_what_is_not_found_counts_only_after_the_window,);

const WINDOW: Duration = Duration::from_secs(3600);
const OFTEN: Duration = Duration::from_millis(10);

/// Knows by the message's id, and counts how often it was asked for `missing`.
#[derive(Clone, Default)]
struct Archive(Arc<AtomicU32>);

#[async_trait]
impl LookUp for Archive {
    fn settled_after(&self) -> Duration {
        WINDOW
    }

    async fn look_up(&self, message: &Message) -> Found {
        match message.id.as_str() {
            "found" => Found::Happened { evidence: "archived".into() },
            "missing" => {
                self.0.fetch_add(1, Ordering::Relaxed);
                Found::DidNotHappen { evidence: "not archived".into() }
            }
            "panics" => panic!("a bug of the look-up"),
            _ => Found::Inconclusive,
        }
    }
}

async fn what_is_found_settles_and_what_is_not_found_counts_only_after_the_window(store: &Store) {
    let clock = Arc::new(ManualClock::at(StoreTime(1_700_000_000_000)));
    let outbox = outbox(store, Some(clock.clone())).await;
    let sink = Scripted::new(|_, before| match before {
        0 => Step::Answer(Sending::Unknown { reason: "cut behind the final dot".into() }),
        _ => accepted(),
    })
    .holding();
    let archive = Archive::default();
    let _relay = outbox.relay(vec![sink.destination("mail").look_up(archive.clone(), OFTEN)]);
    for id in ["panics", "silent", "found", "missing"] {
        outbox.put(vec![message(id, "mail", None)]).await;
    }
    outbox.becomes("found", OutboxState::Delivered).await;
    clock.pass(WINDOW - Duration::from_secs(1));
    let asked = archive.0.load(Ordering::Relaxed);
    wait::until("it was asked for again", || archive.0.load(Ordering::Relaxed) > asked + 3).await;
    assert_eq!((outbox.entry("missing").await.state, sink.times("missing")), (OutboxState::Unknown, 1));

    clock.pass(Duration::from_secs(2));
    outbox.becomes("missing", OutboxState::Delivered).await;
    let times = ["found", "missing", "silent", "panics"].map(|id| sink.times(id));
    assert_eq!(times, [1, 2, 1, 1]);
    for id in ["silent", "panics"] {
        assert_eq!(outbox.entry(id).await.state, OutboxState::Unknown, "{id}");
    }
    for (id, kind, why) in
        [("found", ActKind::Delivered, "archived"), ("missing", ActKind::Redriven, "not archived")]
    {
        let acts = outbox.store.outbox_acts(&key(id)).await.unwrap();
        let kept: Vec<_> = acts.iter().map(|act| (act.kind, act.who.as_str(), act.reason.as_str())).collect();
        assert_eq!(kept, [(kind, "look-up", why)]);
    }
}
