//! Webhooks as their handlers meet them: one key, order, patience, dead letters. B81, B83, B84, B86, B87.

mod killed;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use onefold_e2e::webhooks::{
    HANDLER, all_delivered, event, inbox, incoming, odd_characters_are_carried, outgoing, setup, stripe,
    stripe_gateway, stripe_gateway_on,
};
use onefold_e2e::{assert_problem, parallel};
use onefold_testkit::{
    Answer, Gate, Gateway, Reply, ReservedAddress, Seen, Store, Upstream, on_each_store, wait,
};

on_each_store!(
    b81_a_message_whose_handler_failed_is_not_done_and_a_redelivery_runs_it,
    b81_with_the_handlers_answer_as_the_reply_the_sender_is_told_and_delivers_again,
    b83_a_redelivery_is_absorbed_and_seen_and_a_permit_lets_the_kept_message_go_on_again,
    b84_an_older_version_is_superseded_and_kept_and_of_equal_ones_the_first_counts,
    b86_every_duplicate_is_answered_at_once_and_counted_and_nothing_waits,
    b87_a_handler_that_asks_for_patience_is_asked_again_and_that_is_no_failure,
    ids_and_entities_of_odd_characters_are_carried,
);

/// By entity and version.
const ORDERED: &str = "entity = \"/data/object/id\"\nversion = \"/created\"";

fn key(seen: &Seen) -> &str {
    seen.header("idempotency-key").expect("every message goes on under a key")
}

fn one_key(upstream: &Upstream) -> bool {
    let seen = upstream.seen_at(HANDLER);
    seen.iter().map(key).collect::<BTreeSet<_>>().len() == 1
}

fn state(answer: &Answer) -> String {
    answer.json()["state"].as_str().expect("a state").to_owned()
}

async fn in_state(gateway: &Gateway, state: &str, messages: usize) {
    wait::until_within(wait::DEADLINE, &format!("{messages} messages are {state}"), async || {
        outgoing(gateway, &["--state", state]).await.len() == messages
    })
    .await;
}

#[tokio::test]
async fn a_message_goes_on_under_one_key_until_it_is_accepted_and_never_again() {
    let upstream = Upstream::start().await;
    for reply in
        [Reply::status(500), Reply::count().close_after_effect(), Reply::status(302), Reply::status(404)]
    {
        upstream.next(HANDLER, reply);
    }
    let gateway = stripe_gateway(&upstream, "", "").await;
    let delivery = stripe(event("evt_1", "sub_1", 1, "active"));
    assert_eq!(gateway.send(&delivery).await.status, 202);
    all_delivered(&gateway, 1).await;
    assert_eq!(upstream.seen_at(HANDLER).len(), 5);
    assert!(one_key(&upstream));
    for _ in 0..5 {
        let again = gateway.send(&delivery).await;
        assert_eq!((again.status, state(&again)), (200, "duplicate".into()));
    }
    assert_eq!((upstream.seen_at(HANDLER).len(), outgoing(&gateway, &[]).await.len()), (5, 1));
}

async fn b81_a_message_whose_handler_failed_is_not_done_and_a_redelivery_runs_it(store: &Store) {
    let upstream = Upstream::start().await;
    upstream.next(HANDLER, Reply::status(500));
    let gateway = stripe_gateway_on(store, &upstream, ", attempts = 1", "").await;
    let delivery = stripe(event("evt_1", "sub_1", 1, "active"));
    assert_eq!(gateway.send(&delivery).await.status, 202);
    in_state(&gateway, "dead", 1).await;
    let again = gateway.send(&delivery).await;
    assert_eq!((again.status, state(&again)), (202, "duplicate".into()));
    all_delivered(&gateway, 1).await;
    assert_eq!(upstream.seen_at(HANDLER).len(), 2);
    assert!(one_key(&upstream));
    let id = outgoing(&gateway, &[]).await[0]["id"].as_str().expect("an id").to_owned();
    let shown = gateway.command(&["outbox", "show", &id]).await;
    assert!(shown.stdout.contains("the sender"), "who sent it on is kept: {}", shown.stdout);
}

async fn b81_with_the_handlers_answer_as_the_reply_the_sender_is_told_and_delivers_again(store: &Store) {
    let upstream = Upstream::start().await;
    upstream.next(HANDLER, Reply::status(500).body("no room"));
    upstream.next(HANDLER, Reply::status(201).json(r#"{"done":true}"#));
    let gateway = stripe_gateway_on(store, &upstream, ", attempts = 1", "reply = \"forwarded\"").await;
    let delivery = stripe(event("evt_1", "sub_1", 1, "active"));
    let failed = gateway.send(&delivery).await;
    assert_eq!((failed.status, failed.text()), (500, "no room".into()));
    in_state(&gateway, "dead", 1).await;
    let done = gateway.send(&delivery).await;
    assert_eq!((done.status, done.text()), (201, r#"{"done":true}"#.into()), "{done}");
    all_delivered(&gateway, 1).await;
    let again = gateway.send(&delivery).await;
    assert_eq!((again.status, state(&again)), (200, "duplicate".into()));
    assert_eq!(upstream.seen_at(HANDLER).len(), 2);
    assert!(one_key(&upstream));
}

#[tokio::test]
async fn a_duplicate_of_a_running_message_waits_for_the_same_answer() {
    let upstream = Upstream::start().await;
    let gate = Gate::closed();
    upstream.always(HANDLER, Reply::status(201).body("done").hold_before(&gate));
    let gateway = stripe_gateway(&upstream, "", "reply = \"forwarded\"").await;
    let delivery = stripe(event("evt_1", "sub_1", 1, "active"));
    let sent = parallel::send_all(&delivery, 3, &[gateway.address()]);
    upstream.received(HANDLER, 1).await;
    wait::until_within(wait::DEADLINE, "the duplicates wait", async || {
        incoming(&gateway, &[]).await.first().is_some_and(|entry| entry["duplicates"] == 2)
    })
    .await;
    gate.open();
    for answer in parallel::answers(sent).await {
        assert_eq!((answer.status, answer.text()), (201, "done".into()), "{answer}");
    }
    assert_eq!(upstream.count(HANDLER), 1);
}

#[tokio::test]
async fn a_sender_learns_that_the_handler_was_not_reached_or_is_late_and_the_message_goes_on() {
    let reserved = ReservedAddress::take();
    let upstream = Upstream::start().await;
    let section = inbox(&upstream, "stripe", "stripe", ", timeout = \"1s\"", "reply = \"forwarded\"");
    let section = section.replace(&upstream.url(), &reserved.url());
    let gateway = setup(&upstream).section(&section).start().await;
    let delivery = stripe(event("evt_1", "sub_1", 1, "active"));
    assert_problem(&gateway.send(&delivery).await, 502, "upstream-unreachable");
    let handler = Upstream::start_on(reserved);
    let gate = Gate::closed();
    handler.always(HANDLER, Reply::count().hold_after(&gate));
    // The next try comes up to five seconds later, and a sender is kept waiting for three at most.
    let mut late = gateway.send(&delivery).await;
    for _ in 0..4 {
        if late.status == 409 {
            assert_problem(&late, 409, "in-progress");
            late = gateway.send(&delivery).await;
        }
    }
    assert_problem(&late, 504, "outcome-unknown");
    gate.open();
    all_delivered(&gateway, 1).await;
    assert!(one_key(&handler));
}

async fn b83_a_redelivery_is_absorbed_and_seen_and_a_permit_lets_the_kept_message_go_on_again(store: &Store) {
    let upstream = Upstream::start().await;
    let gateway = stripe_gateway_on(store, &upstream, "", "").await;
    let body = event("evt_1", "sub_1", 1, "active");
    assert_eq!(gateway.send(&stripe(&body)).await.status, 202);
    all_delivered(&gateway, 1).await;
    assert_eq!(gateway.send(&stripe(&body)).await.status, 200);
    wait::until_within(wait::DEADLINE, "the redelivery is in its history", async || {
        incoming(&gateway, &[]).await[0]["duplicates"] == 1
    })
    .await;
    let grant = ["permits", "grant", "--consumer", "webhooks", "--source", "stripe", "--message", "evt_1"];
    let reason = ["--reason", "the handler lost its database"];
    gateway.command(&[&grant[..], &reason].concat()).await.assert_code(0);
    all_delivered(&gateway, 2).await;
    let seen = upstream.seen_at(HANDLER);
    assert_eq!((seen.len(), &seen[1].body[..]), (2, body.as_bytes()));
    assert_ne!(key(&seen[0]), key(&seen[1]), "on purpose, and so under a key of its own");
    let rounds = incoming(&gateway, &[]).await;
    assert_eq!(rounds.iter().map(|entry| entry["round"].as_u64()).collect::<Vec<_>>(), [Some(0), Some(1)]);
    let permits = gateway.command(&["permits", "list"]).await;
    let permits = permits.json();
    let permit = &permits["items"][0];
    assert_eq!(permit["reason"], "the handler lost its database", "{permit}");
    let said = |member: &str| permit[member].as_str().is_some_and(|text| !text.is_empty());
    assert!(said("who") && said("granted_at"), "{permit}");
    // Once: neither the permit nor a delivery lets it through again.
    assert_eq!(state(&gateway.send(&stripe(&body)).await), "duplicate");
    assert_eq!((upstream.seen_at(HANDLER).len(), outgoing(&gateway, &[]).await.len()), (2, 2));
}

async fn b84_an_older_version_is_superseded_and_kept_and_of_equal_ones_the_first_counts(store: &Store) {
    let upstream = Upstream::start().await;
    let gateway = stripe_gateway_on(store, &upstream, "", ORDERED).await;
    let send = async |id, created, status| {
        let answer = gateway.send(&stripe(event(id, "sub_1", created, status))).await;
        (answer.status, state(&answer))
    };
    assert_eq!(send("evt_updated", 2, "active").await, (202, "accepted".into()));
    assert_eq!(send("evt_created", 1, "incomplete").await, (200, "superseded".into()));
    assert_eq!(send("evt_equal_1", 3, "paused").await, (202, "accepted".into()));
    assert_eq!(send("evt_equal_2", 3, "active").await, (200, "superseded".into()));
    assert_eq!(send("evt_created", 1, "incomplete").await, (200, "superseded".into()), "a redelivery too");
    all_delivered(&gateway, 2).await;
    let bodies: Vec<String> = upstream
        .seen_at(HANDLER)
        .iter()
        .map(|seen| String::from_utf8_lossy(&seen.body).into_owned())
        .collect();
    assert!(bodies[0].contains("evt_updated") && bodies[1].contains("evt_equal_1"), "{bodies:?}");
    let superseded = incoming(&gateway, &["--state", "superseded"]).await;
    assert_eq!(superseded.len(), 2);
    let kept = gateway.command(&["inbox", "show", superseded[0]["id"].as_str().expect("an id")]).await;
    assert!(kept.stdout.contains("incomplete"), "not lost: {}", kept.stdout);
}

async fn b86_every_duplicate_is_answered_at_once_and_counted_and_nothing_waits(store: &Store) {
    let upstream = Upstream::start().await;
    let gateway = stripe_gateway_on(store, &upstream, "", "").await;
    let delivery = stripe(event("evt_1", "sub_1", 1, "active"));
    gateway.send(&delivery).await;
    all_delivered(&gateway, 1).await;
    for _ in 0..5 {
        assert_eq!(gateway.send(&delivery).await.status, 200);
    }
    wait::until_within(wait::DEADLINE, "the duplicates are counted", async || {
        let entries = incoming(&gateway, &[]).await;
        entries[0]["duplicates"] == 5
            && gateway.metrics().await.sum("onefold_outbox_oldest_age_seconds") == 0.0
    })
    .await;
    assert_eq!(upstream.count(HANDLER), 1);
}

async fn b87_a_handler_that_asks_for_patience_is_asked_again_and_that_is_no_failure(store: &Store) {
    for (n, reply) in ["accepted", "forwarded"].into_iter().enumerate() {
        let upstream = Upstream::start().await;
        for reply in
            [Reply::status(503).header("retry-after", "1"), Reply::status(425).header("retry-after", "1")]
        {
            upstream.next(HANDLER, reply);
        }
        let gateway =
            stripe_gateway_on(store, &upstream, ", attempts = 1", &format!("reply = \"{reply}\"")).await;
        let delivery = stripe(event(&format!("evt_{n}"), "sub_1", 1, "active"));
        let first = gateway.send(&delivery).await;
        assert_eq!(first.status, if reply == "accepted" { 202 } else { 503 });
        upstream.received(HANDLER, 1).await;
        // Neither dropped nor run at once: it is known to be on its way.
        let again = gateway.send(&delivery).await;
        assert!(matches!(again.status, 202 | 425), "{again}");
        all_delivered(&gateway, n + 1).await;
        assert_eq!(upstream.seen_at(HANDLER).len(), 3);
        assert!(one_key(&upstream));
        let seen = upstream.seen_at(HANDLER);
        assert!(seen[1].at - seen[0].at >= Duration::from_secs(1), "not before it asked for");
        assert_eq!(outgoing(&gateway, &[]).await[n]["failures"], 0);
    }
}

#[tokio::test]
async fn a_poison_message_holds_its_own_entity_alone_until_a_person_sends_it_on() {
    let upstream = Upstream::start().await;
    upstream.responds(HANDLER, |seen| {
        let poison = String::from_utf8_lossy(&seen.body).contains("poison");
        Reply::status(if poison { 500 } else { 200 })
    });
    let gateway = stripe_gateway(&upstream, ", attempts = 2", ORDERED).await;
    let send = async |id: &str, entity: &str, created: u64, status: &str| {
        assert_eq!(gateway.send(&stripe(event(id, entity, created, status))).await.status, 202);
    };
    send("evt_1", "sub_1", 1, "poison").await;
    send("evt_2", "sub_1", 2, "active").await;
    for n in 3..10 {
        send(&format!("evt_{n}"), "sub_2", n, "active").await;
    }
    in_state(&gateway, "dead", 1).await;
    in_state(&gateway, "delivered", 7).await;
    in_state(&gateway, "waiting", 1).await;
    wait::until_within(wait::DEADLINE, "the dead letter is in the metrics", async || {
        gateway.metrics().await.sum("onefold_outbox_dead") == 1.0
    })
    .await;
    let order = || -> Vec<String> {
        let bodies = upstream.seen_at(HANDLER);
        bodies
            .iter()
            .map(|seen| {
                serde_json::from_slice::<serde_json::Value>(&seen.body).expect("JSON")["id"].to_string()
            })
            .collect()
    };
    assert_eq!(order().iter().filter(|id| *id == "\"evt_1\"").count(), 2, "two tries");
    let of_two: Vec<String> = order().into_iter().filter(|id| id != "\"evt_1\"").collect();
    assert_eq!(of_two, (3..10).map(|n| format!("\"evt_{n}\"")).collect::<Vec<_>>(), "in order");
    upstream.always(HANDLER, Reply::count());
    let redrive = ["outbox", "redrive", "--destination", "inbox/stripe", "--as", "send-again"];
    gateway.command(&[&redrive[..], &["--reason", "the handler is mended"]].concat()).await.assert_code(0);
    all_delivered(&gateway, 9).await;
    assert_eq!(order()[order().len() - 2..], ["\"evt_1\"", "\"evt_2\""], "in order");
}

#[tokio::test]
async fn a_handler_that_is_down_for_a_while_gets_everything_once_it_is_back() {
    let reserved = ReservedAddress::take();
    let upstream = Upstream::start().await;
    let section = inbox(&upstream, "stripe", "stripe", ", attempts = 1", ORDERED);
    let gateway = setup(&upstream).section(&section.replace(&upstream.url(), &reserved.url())).start().await;
    for n in 0..20 {
        let delivery = stripe(event(&format!("evt_{n}"), &format!("sub_{}", n % 4), n, "active"));
        assert_eq!(gateway.send(&delivery).await.status, 202);
    }
    wait::until_within(wait::DEADLINE, "the handler was looked for several times", async || {
        gateway.metrics().await.sum("onefold_inbox_forwards_total") >= 6.0
    })
    .await;
    let handler = Upstream::start_on(reserved);
    all_delivered(&gateway, 20).await;
    assert_eq!(handler.seen_at(HANDLER).len(), 20, "nobody was asked while it was down");
    let mut order: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for seen in handler.seen_at(HANDLER) {
        let body: serde_json::Value = serde_json::from_slice(&seen.body).expect("JSON");
        let entity = body["data"]["object"]["id"].to_string();
        order.entry(entity).or_default().push(body["created"].as_u64().expect("a number"));
    }
    assert!(order.values().all(|versions| versions.is_sorted()), "{order:?}");
}

async fn ids_and_entities_of_odd_characters_are_carried(store: &Store) {
    let upstream = Upstream::start().await;
    let gateway = stripe_gateway_on(store, &upstream, "", ORDERED).await;
    odd_characters_are_carried(&gateway, &upstream).await;
}
