//! Many messages, several destinations, several relays.

use std::time::Duration;

use onefold_core::OutboxState;
use onefold_core::budget::BudgetSettings;
use onefold_messages::{Message, Sending};
use onefold_testkit::wait;

use crate::rig::{Scripted, Step, accepted, failed, message, outbox};

#[tokio::test]
async fn b91_poison_at_the_head_starves_nobody() {
    let outbox = outbox(None);
    let sink = Scripted::new(|message, _| match message.id.as_str().starts_with("poison") {
        true => failed(),
        false => accepted(),
    });
    let poison = (0..10).map(|n| message(&format!("poison{n}"), "shop", None));
    let good: Vec<Message> = (0..100).map(|n| message(&format!("good{n}"), "shop", None)).collect();
    outbox.put(poison.chain(good).collect()).await;
    let _relay = outbox.relay(vec![sink.destination("shop").concurrency(10).attempts(Some(3))]);
    for n in 0..100 {
        outbox.becomes(&format!("good{n}"), OutboxState::Delivered).await;
    }
    for n in 0..10 {
        let id = format!("poison{n}");
        outbox.becomes(&id, OutboxState::Dead).await;
        assert_eq!(sink.times(&id), 3);
    }
}

#[tokio::test]
async fn dead_letter_holds_up_its_own_key_and_nobody_else() {
    let outbox = outbox(None);
    let sink = Scripted::new(|message, _| match message.id.as_str() {
        "a1" => failed(),
        _ => accepted(),
    });
    let of = |id: &str| message(id, "shop", Some(&id[..1]));
    outbox.put(["a1", "a2", "b1", "b2"].into_iter().map(of).collect()).await;
    let relay = outbox.relay(vec![sink.destination("shop").attempts(Some(2))]);
    outbox.becomes("a1", OutboxState::Dead).await;
    outbox.becomes("b2", OutboxState::Delivered).await;
    assert_eq!(relay.stop(Duration::from_secs(10)).await, 0);
    assert_eq!((outbox.entry("a2").await.state, sink.times("a2")), (OutboxState::Waiting, 0));
}

#[tokio::test]
async fn destination_that_fails_is_not_flooded_with_retries() {
    let outbox = outbox(None);
    let sink = Scripted::new(|_, _| failed());
    let ids = ["a", "b", "c", "d", "e"];
    outbox.put(ids.iter().map(|id| message(id, "shop", None)).collect()).await;
    let budget = BudgetSettings { share: 0.2, reserve: 3, window: Duration::from_secs(600) };
    let _relay = outbox.relay(vec![sink.destination("shop").attempts(None).budget(budget)]);
    for id in ids {
        let what = format!("{id} is held back");
        wait::until_within(wait::DEADLINE, &what, async || {
            outbox.entry(id).await.reason.is_some_and(|reason| reason.starts_with("held back"))
        })
        .await;
    }
    assert_eq!(sink.order().len(), ids.len() + 3, "each once, and as many retries as are lent");
}

#[tokio::test]
async fn b95_several_relays_never_send_one_message_at_once() {
    let outbox = outbox(None);
    let sink = Scripted::new(|_, _| Step::Later(Duration::from_millis(5), Sending::Accepted));
    let ids: Vec<String> = (0..300).map(|n| format!("m{n}")).collect();
    outbox.put(ids.iter().map(|id| message(id, "shop", None)).collect()).await;
    let relays: Vec<_> =
        (0..3).map(|_| outbox.relay(vec![sink.destination("shop").concurrency(8)])).collect();
    for id in &ids {
        outbox.becomes(id, OutboxState::Delivered).await;
        assert_eq!(sink.times(id), 1, "{id}");
    }
    assert!(!sink.crossed());
    drop(relays);
}

#[tokio::test]
async fn no_more_bytes_are_on_their_way_than_may_be_and_one_message_more() {
    let outbox = outbox(None);
    let (slow, fast) = (Scripted::new(|_, _| Step::Hang), Scripted::new(|_, _| accepted()));
    let long = |n| Message { body: vec![b'x'; 400], ..message(&format!("long{n}"), "slow", None) };
    outbox.put((0..20).map(long).collect()).await;
    let _relay = outbox.relay(vec![slow.destination("slow").bytes(1000), fast.destination("fast")]);
    wait::until("some are on their way", || slow.order().len() >= 3).await;
    for n in 0..20 {
        let id = format!("fast{n}");
        outbox.put(vec![message(&id, "fast", None)]).await;
        outbox.becomes(&id, OutboxState::Delivered).await;
    }
    assert_eq!(slow.order().len(), 3);
}

#[tokio::test]
async fn messages_longer_than_may_be_on_their_way_are_sent_one_after_the_other() {
    let outbox = outbox(None);
    let sink = Scripted::new(|_, _| accepted());
    let long = |n| Message { body: vec![b'x'; 400], ..message(&format!("long{n}"), "shop", None) };
    outbox.put((0..5).map(long).collect()).await;
    let relay = outbox.relay(vec![sink.destination("shop").bytes(10)]);
    for n in 0..5 {
        outbox.becomes(&format!("long{n}"), OutboxState::Delivered).await;
    }
    assert_eq!(relay.stop(Duration::from_secs(10)).await, 0);
}

#[tokio::test]
async fn b96_slow_destination_holds_up_nobody_else() {
    let outbox = outbox(None);
    let (slow, fast) = (Scripted::new(|_, _| Step::Hang), Scripted::new(|_, _| accepted()));
    outbox.put((0..200).map(|n| message(&format!("slow{n}"), "slow", None)).collect()).await;
    let relay = outbox.relay(vec![slow.destination("slow").concurrency(4), fast.destination("fast")]);
    for n in 0..20 {
        let id = format!("fast{n}");
        outbox.put(vec![message(&id, "fast", None)]).await;
        outbox.becomes(&id, OutboxState::Delivered).await;
    }
    assert_eq!(slow.order().len(), 4, "no more than its own places");
    assert_eq!(relay.stop(Duration::from_millis(200)).await, 4, "these are left to their leases");
}
