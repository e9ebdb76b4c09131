//! Builds of a handler, and the permits that let another build handle messages again.

use onefold_core::InboxState;
use onefold_messages::{Handling, InboxSettings, Rerun};
use onefold_store::{InboxQuery, NewPermit};
use onefold_testkit::{Store, on_each_store};

use crate::rig::{Does, Shop, key, message, settings};

on_each_store!(
    b83_a_redelivery_is_absorbed_and_a_permit_lets_it_through_once,
    what_a_build_has_handled_is_listed_and_handled_again_from_kept_bodies_once,
    a_projection_is_rebuilt_from_its_start_in_the_order_of_arrival,
    messages_without_kept_bodies_are_told_and_come_through_when_they_are_delivered,
);

const DONE: Handling = Handling::Done(InboxState::Processed);

fn permit(damaged: Option<&str>, handler: Option<&str>) -> NewPermit {
    NewPermit {
        consumer: "loyalty".into(),
        source: None,
        damaged: damaged.map(Into::into),
        handler: handler.map(Into::into),
        message: None,
        who: "ann".into(),
        reason: "build 41 gave too few points".into(),
    }
}

fn keeping(build: &str) -> InboxSettings {
    InboxSettings { keep_bodies: true, ..settings(build) }
}

async fn b83_a_redelivery_is_absorbed_and_a_permit_lets_it_through_once(store: &Store) {
    let shop = Shop::open(store).await;
    let (old, new) = (shop.consumer("41"), shop.consumer("42"));
    assert_eq!(old.handle(message("evt-1", "a")).await, DONE);
    assert_eq!(new.handle(message("evt-1", "a")).await, Handling::Duplicate);
    let only = NewPermit { message: Some(key("evt-1")), ..permit(Some("41"), Some("42")) };
    let number = shop.store.grant_permit(only).await.unwrap().number;
    assert_eq!(old.handle(message("evt-1", "a")).await, Handling::Duplicate, "by the other build alone");
    assert_eq!(new.handle(message("evt-1", "a")).await, DONE);
    assert_eq!(new.handle(message("evt-1", "a")).await, Handling::Duplicate);
    assert_eq!(shop.effects().await, ["a", "a"]);
    let rounds: Vec<_> = shop.entries().await.into_iter().map(|e| (e.round, e.handler)).collect();
    assert_eq!(rounds, [(0, "41".to_owned()), (number, "42".to_owned())]);
}

async fn what_a_build_has_handled_is_listed_and_handled_again_from_kept_bodies_once(store: &Store) {
    let shop = Shop::open(store).await;
    let (sound, _) = shop.scripted(keeping("40"), []);
    let (damaged, _) = shop.scripted(keeping("41"), []);
    assert_eq!(sound.handle(message("evt-0", "whole")).await, DONE);
    assert_eq!(damaged.handle(message("evt-1", "a")).await, DONE);
    assert_eq!(damaged.handle(message("evt-2", "b")).await, DONE);
    let by_41 = shop.listed(InboxQuery { handler: Some("41".into()), ..InboxQuery::default() }).await;
    let ids: Vec<_> = by_41.iter().map(|entry| entry.identity.message.as_str()).collect();
    assert_eq!(ids, ["evt-1", "evt-2"]);
    let (mended, _) = shop.scripted(keeping("42"), []);
    assert_eq!(mended.rerun().await.unwrap(), Rerun::default(), "nothing is permitted");
    shop.store.grant_permit(permit(Some("41"), None)).await.unwrap();
    assert_eq!(damaged.rerun().await.unwrap(), Rerun::default(), "not by the damaged build");
    assert_eq!(mended.rerun().await.unwrap(), Rerun { handled: 2, ..Rerun::default() });
    assert_eq!(mended.rerun().await.unwrap(), Rerun::default());
    assert_eq!(shop.effects().await, ["whole", "a", "b", "a", "b"]);
}

async fn a_projection_is_rebuilt_from_its_start_in_the_order_of_arrival(store: &Store) {
    let shop = Shop::open(store).await;
    let (consumer, script) = shop.scripted(keeping("41"), []);
    for body in ["a", "b", "c"] {
        assert_eq!(consumer.handle(message(body, body)).await, DONE);
    }
    let all = NewPermit { source: Some("shop".into()), ..permit(None, None) };
    let number = shop.people().grant(all).await.unwrap().number;
    script.lock().extend((0..3).map(|_| Does::Fails("no stock")));
    let rerun = consumer.rerun().await.unwrap();
    assert_eq!(rerun, Rerun { handled: 2, parked: 1, left: 0 });
    assert!(script.lock().is_empty(), "it was tried three times");
    assert_eq!(shop.effects().await, ["a", "b", "c", "b", "c"]);
    let parked = InboxQuery { state: Some(InboxState::Parked), ..InboxQuery::default() };
    let parked = shop.listed(parked).await;
    assert_eq!((parked[0].round, parked[0].identity.message.as_str()), (number, "a"));
    shop.people().unpark(&[parked[0].id], "ann", "mended").await.unwrap();
    shop.comes_to(&["a", "b", "c", "b", "c", "a"]).await;
}

async fn messages_without_kept_bodies_are_told_and_come_through_when_they_are_delivered(store: &Store) {
    let shop = Shop::open(store).await;
    assert_eq!(shop.consumer("41").handle(message("evt-1", "a")).await, DONE);
    shop.store.grant_permit(permit(Some("41"), None)).await.unwrap();
    let mended = shop.consumer("42");
    assert_eq!(mended.rerun().await.unwrap(), Rerun { left: 1, ..Rerun::default() });
    assert_eq!(mended.handle(message("evt-1", "a")).await, DONE);
    assert_eq!(mended.rerun().await.unwrap(), Rerun::default());
}
