//! Webhooks that are taken in: which of them go on, and what goes with them.

use onefold_core::contract::Retention;
use onefold_core::{FingerprintBuilder, IdentityKey, OutboxState};
use onefold_messages::{Admitted, Arrival, Intake};
use onefold_testkit::{Store, on_each_store};

use crate::rig::{DAY, Shop, key};

on_each_store!(
    an_older_version_of_an_entity_goes_on_to_nobody_and_of_equal_ones_the_first_counts,
    what_goes_on_names_the_webhook_that_caused_it_and_the_senders_workflow_and_trace,
);

/// A delivery of the shop's, about nothing.
fn arrival(id: &str) -> Arrival {
    Arrival {
        source: "shop".into(),
        id: key(id),
        fingerprint: FingerprintBuilder::new(&IdentityKey::none()).part("body", id.as_bytes()).finish(),
        entity: None,
        version: None,
        retention: Retention::For(DAY),
        headers: Vec::new(),
        body: id.as_bytes().to_vec(),
    }
}

fn about(id: &str, entity: &str, version: i64) -> Arrival {
    Arrival { entity: Some(entity.into()), version: Some(version), ..arrival(id) }
}

async fn admit(intake: &Intake, arrival: Arrival) -> Admitted {
    let room = intake.room("shop", 100).await.expect("the store works").expect("there is room");
    intake.admit(arrival, room).await.expect("the store works")
}

async fn an_older_version_of_an_entity_goes_on_to_nobody_and_of_equal_ones_the_first_counts(store: &Store) {
    let shop = Shop::open(store).await;
    let intake = Intake::new(shop.store.clone(), "gateway");
    let is_new = |admitted: &Admitted| matches!(admitted, Admitted::New(_));
    assert!(is_new(&admit(&intake, about("evt-2", "lamp", 2)).await));
    for late in [about("evt-1", "lamp", 1), about("evt-0", "lamp", 2), about("evt-1", "lamp", 1)] {
        assert_eq!(admit(&intake, late).await, Admitted::Superseded);
    }
    assert!(is_new(&admit(&intake, about("evt-3", "lamp", 3)).await));
    assert!(is_new(&admit(&intake, about("evt-4", "book", 1)).await), "it is about another thing");
    let of_nothing = Arrival { version: Some(1), ..arrival("evt-5") };
    assert!(is_new(&admit(&intake, of_nothing).await), "a version is one of an entity");
    let waiting = shop.store.survey_outbox().await.expect("the store works");
    assert_eq!(waiting.iter().map(|of| of.depth).sum::<u64>(), 4);
}

async fn what_goes_on_names_the_webhook_that_caused_it_and_the_senders_workflow_and_trace(store: &Store) {
    let shop = Shop::open(store).await;
    let intake = Intake::new(shop.store.clone(), "gateway");
    let line = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let sent = [
        line("onefold-correlation-id", "flow-7"),
        line("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
    ];
    // What this one was caused by causes nothing else.
    let headers = [&sent[..], &[line("Onefold-Causation-Id", "evt-0")]].concat();
    let Admitted::New(id) = admit(&intake, Arrival { headers, ..arrival("evt-1") }).await else {
        panic!("it is new")
    };
    let going_on = shop.store.outgoing(&id).await.expect("the store works").expect("it goes on");
    assert_eq!(going_on.state, OutboxState::Waiting);
    let caused = line("onefold-causation-id", "evt-1");
    assert_eq!(going_on.message.headers, [&sent[..], &[caused]].concat());
}
