//! What fails in the middle of a rerun, what a person has a running consumer handle again, and a redrive with a pace.

use std::time::Duration;

use onefold_core::InboxState;
use onefold_core::contract::Retention;
use onefold_messages::{
    ActError, ActOnIncoming, HandleAgain, Handled, Handling, Inbound, InboxSettings, Rerun, WhichIncoming,
};
use onefold_store::{Failure, InboxQuery, Mark, NewPermit};
use onefold_testkit::{Store, on_each_store};

use crate::rig::{Does, Shop, key, message, nameless, settings};

on_each_store!(
    a_fault_of_a_moment_takes_no_message_out_of_its_order_in_a_rerun,
    what_failed_in_a_rerun_that_ended_is_handled_by_the_next_one,
    what_a_person_has_handled_again_waits_for_a_build_that_the_permit_is_for,
    what_cannot_be_handled_again_is_told_and_left_alone,
    an_act_that_was_broken_off_between_its_two_writes_is_finished_when_it_is_asked_again,
    a_redrive_of_a_consumer_keeps_its_pace_and_passes_over_what_was_put_aside,
    a_redrive_of_a_source_leaves_other_sources_alone,
);

const DONE: Handling = Handling::Done(InboxState::Processed);
const SECOND: Duration = Duration::from_secs(1);

fn keeping(build: &str) -> InboxSettings {
    InboxSettings { keep_bodies: true, ..settings(build) }
}

async fn grant(shop: &Shop, damaged: Option<&str>) -> u32 {
    let permit = NewPermit {
        consumer: "loyalty".into(),
        source: Some("shop".into()),
        damaged: damaged.map(Into::into),
        handler: None,
        message: None,
        who: "ann".into(),
        reason: "too few points".into(),
    };
    shop.people().grant(permit).await.unwrap().number
}

fn again(permit: u32) -> HandleAgain {
    HandleAgain { permit, per_second: None, who: "ann".into(), reason: "too few points".into() }
}

async fn handled(shop: &Shop, build: &str, bodies: &[&str]) {
    let (consumer, _) = shop.scripted(keeping(build), []);
    for body in bodies {
        assert_eq!(consumer.handle(message(body, body)).await, DONE);
    }
}

async fn in_state(shop: &Shop, state: InboxState) -> Vec<String> {
    let listed = shop.listed(InboxQuery { state: Some(state), ..InboxQuery::default() }).await;
    listed.into_iter().map(|entry| entry.identity.message.as_str().to_owned()).collect()
}

async fn a_fault_of_a_moment_takes_no_message_out_of_its_order_in_a_rerun(store: &Store) {
    let shop = Shop::open(store).await;
    handled(&shop, "41", &["a", "b"]).await;
    grant(&shop, None).await;
    let (consumer, _) = shop.scripted(keeping("42"), [Does::Fails("no answer"), Does::Fails("no answer")]);
    assert_eq!(consumer.rerun().await.unwrap(), Rerun { handled: 2, ..Rerun::default() });
    assert_eq!(shop.effects().await, ["a", "b", "a", "b"]);
}

async fn what_failed_in_a_rerun_that_ended_is_handled_by_the_next_one(store: &Store) {
    let shop = Shop::open(store).await;
    handled(&shop, "41", &["a"]).await;
    grant(&shop, Some("41")).await;
    let put_off = Does::Says(Handled::NotYet { after: None });
    let (consumer, script) = shop.scripted(keeping("42"), [Does::Fails("no answer"), put_off]);
    assert_eq!(consumer.rerun().await.unwrap(), Rerun { left: 1, ..Rerun::default() });
    assert_eq!(in_state(&shop, InboxState::Failing).await, ["a"]);
    let (damaged, _) = shop.scripted(keeping("41"), []);
    assert_eq!(damaged.rerun().await.unwrap(), Rerun::default(), "not by the damaged build");
    // What has failed before in the round takes none of its tries.
    script.lock().extend([Does::Fails("no answer"), Does::Fails("no answer")]);
    assert_eq!(consumer.rerun().await.unwrap(), Rerun { handled: 1, ..Rerun::default() });
    assert_eq!(shop.effects().await, ["a", "a"]);
}

async fn what_a_person_has_handled_again_waits_for_a_build_that_the_permit_is_for(store: &Store) {
    let shop = Shop::open(store).await;
    handled(&shop, "41", &["a", "b"]).await;
    let round = grant(&shop, Some("41")).await;
    let acted = shop.people().handle_again(again(round)).await.unwrap();
    assert_eq!((acted.done.len(), acted.passed_over), (2, Vec::new()));
    let acted = shop.people().handle_again(again(round)).await.unwrap();
    assert_eq!((acted.done.len(), acted.passed_over), (0, Vec::new()), "once");
    let mut park_at_once = settings("41");
    park_at_once.park_after = Some(1);
    let (damaged, _) = shop.scripted(park_at_once, [Does::Fails("no stock")]);
    assert_eq!(damaged.handle(message("a", "a")).await, Handling::Duplicate, "not by the damaged build");
    assert_eq!(damaged.handle(message("c", "c")).await, Handling::Parked);
    shop.people().unpark(&[shop.entries().await[4].id], "ann", "mended").await.unwrap();
    // It stands behind the others: had the damaged build taken them too, it would have taken them first.
    shop.comes_to(&["a", "b", "c"]).await;
    drop(damaged);
    let _mended = shop.consumer("42");
    shop.comes_to(&["a", "b", "c", "a", "b"]).await;
    let rounds: Vec<_> = shop.entries().await.into_iter().map(|e| (e.round, e.handler)).collect();
    let by = |round: u32, build: &str| (round, build.to_owned());
    assert_eq!(rounds, [by(0, "41"), by(0, "41"), by(round, "42"), by(round, "42"), by(0, "41")]);
    let acted = shop.people().handle_again(again(grant(&shop, None).await)).await.unwrap();
    assert_eq!((acted.done.len(), acted.passed_over.len()), (0, 3), "each is told once, whatever its rounds");
}

async fn what_cannot_be_handled_again_is_told_and_left_alone(store: &Store) {
    let shop = Shop::open(store).await;
    let mut park_at_once = settings("41");
    park_at_once.park_after = Some(1);
    let (consumer, script) = shop.scripted(park_at_once, []);
    assert_eq!(consumer.handle(message("not kept", "a")).await, DONE);
    script.lock().extend([Does::Fails("no stock")]);
    assert_eq!(consumer.handle(message("parked", "b")).await, Handling::Parked);
    let (permit, people) = (grant(&shop, None).await, shop.people());
    let acted = people.handle_again(again(permit)).await.unwrap();
    assert!(acted.done.is_empty());
    let why: Vec<&str> = acted.passed_over.iter().map(|(_, why)| why.as_str()).collect();
    assert_eq!(why, ["its body is not kept; it comes through when it is delivered", "it is parked"]);
    let nothing = HandleAgain { permit: 9, ..again(permit) };
    assert!(matches!(people.handle_again(nothing).await, Err(ActError::NotFound("permit"))));
    let silent = HandleAgain { reason: " ".into(), ..again(permit) };
    assert!(matches!(people.handle_again(silent).await, Err(ActError::ReasonMissing)));
    people.revoke(permit, "ann", "enough").await.unwrap();
    assert!(matches!(people.handle_again(again(permit)).await, Err(ActError::Revoked)));
    assert_eq!(shop.entries().await.len(), 2);
}

async fn an_act_that_was_broken_off_between_its_two_writes_is_finished_when_it_is_asked_again(store: &Store) {
    let shop = Shop::open(store).await;
    handled(&shop, "41", &["a"]).await;
    let round = grant(&shop, Some("41")).await;
    let last = shop.entries().await.remove(0);
    let mark = Mark {
        id: last.id,
        round,
        body: shop.store.kept_message(last.id, last.round).await.unwrap(),
        identity: last.identity,
        handler: last.handler,
        fingerprint: last.fingerprint,
        retention: Retention::Forever,
        too_old_at: None,
        versioned: None,
    };
    let reason = format!("permit {round} lets it through");
    shop.store.fail(Failure { mark, reason, park_after: Some(1) }).await.unwrap();
    assert_eq!(in_state(&shop, InboxState::Parked).await, ["a"]);
    let acted = shop.people().handle_again(again(round)).await.unwrap();
    assert_eq!((acted.done.len(), acted.passed_over), (1, Vec::new()));
    let _mended = shop.consumer("42");
    shop.comes_to(&["a", "a"]).await;
}

/// A shop whose messages are parked, each of its source, with nobody who handles them.
async fn parked(store: &Store, messages: impl IntoIterator<Item = Inbound>) -> Shop {
    let shop = Shop::open(store).await;
    let mut park_at_once = settings("41");
    park_at_once.park_after = Some(1);
    let (consumer, script) = shop.scripted(park_at_once, []);
    for message in messages {
        script.lock().extend([Does::Fails("no stock")]);
        assert_eq!(consumer.handle(message).await, Handling::Parked);
        script.lock().clear();
    }
    shop
}

fn redrive(consumer: Option<&str>, source: Option<&str>, per_second: Option<u32>) -> ActOnIncoming {
    let which = WhichIncoming::All { consumer: consumer.map(Into::into), source: source.map(Into::into) };
    ActOnIncoming { which, per_second, who: "ann".into(), reason: "mended".into() }
}

async fn a_redrive_of_a_consumer_keeps_its_pace_and_passes_over_what_was_put_aside(store: &Store) {
    let shop = parked(store, [message("a", "a"), nameless("x"), message("b", "b"), message("z", "z")]).await;
    let people = shop.people();
    let nobody = people.act_on_incoming(redrive(Some("mail"), None, None)).await.unwrap();
    assert!(nobody.done.is_empty() && nobody.passed_over.is_empty(), "{nobody:?}");
    assert!(matches!(people.act_on_incoming(redrive(None, None, None)).await, Err(ActError::Invalid(_))));
    let acted = people.act_on_incoming(redrive(Some("loyalty"), None, Some(1))).await.unwrap();
    assert_eq!(acted.done.len(), 3);
    assert_eq!(acted.passed_over[0].1, "it has no id; name its id");
    let (consumer, _) = shop.scripted(settings("42"), []);
    shop.comes_to(&["a"]).await;
    assert_eq!(consumer.handle(message("z", "z")).await, DONE, "a delivery waits for nothing");
    shop.clock.pass(SECOND);
    shop.comes_to(&["a", "z", "b"]).await;
    assert_eq!(in_state(&shop, InboxState::Failing).await, [""; 0]);
    assert_eq!(in_state(&shop, InboxState::Parked).await.len(), 1);
}

async fn a_redrive_of_a_source_leaves_other_sources_alone(store: &Store) {
    let other = Inbound { source: "bank".into(), id: Some(key("c")), ..message("c", "c") };
    let shop = parked(store, [message("a", "a"), other]).await;
    let acted = shop.people().act_on_incoming(redrive(None, Some("bank"), None)).await.unwrap();
    assert_eq!(acted.done.len(), 1);
    let _consumer = shop.consumer("42");
    shop.comes_to(&["c"]).await;
    assert_eq!(in_state(&shop, InboxState::Parked).await, ["a"]);
}
