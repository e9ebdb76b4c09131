//! Webhooks as their senders meet them: signatures, ids, duplicates, conflicts. B76, B77, B79, B80.

use std::time::Duration;

use onefold_e2e::webhooks::{
    HANDLER, OTHER_SECRET, SECRET, all_delivered, event, github, inbox, incoming, now_s, outgoing,
    plain_hmac, setup, setup_on, shopify, standard, stripe, stripe_at, stripe_gateway, stripe_gateway_on,
};
use onefold_e2e::{assert_problem, parallel};
use onefold_testkit::{Reply, Request, Setup, Store, Upstream, on_each_store, recordings, wait};

on_each_store!(
    b76_a_forged_delivery_does_not_burn_the_id,
    b77_one_id_of_two_sources_is_two_messages,
    b79_three_deliveries_at_one_instant_are_handled_once,
    fifty_deliveries_to_two_gateways_at_once_are_one_forward,
    b80_two_endpoints_with_a_secret_each_are_one_message,
    another_body_under_an_id_reaches_no_handler_and_is_kept_as_evidence,
);

async fn b76_a_forged_delivery_does_not_burn_the_id(store: &Store) {
    let upstream = Upstream::start().await;
    let gateway = stripe_gateway_on(store, &upstream, "", "").await;
    let body = event("evt_1", "sub_1", 1, "active");
    let forged = gateway.send(&stripe_at("stripe", &body, "whsec_guessed", now_s())).await;
    assert_problem(&forged, 401, "signature-invalid");
    assert!(!forged.text().contains("evt_1"), "{forged}");
    let unsigned = gateway.send(&Request::post("/inbox/stripe").json(&body)).await;
    assert_problem(&unsigned, 401, "signature-invalid");
    assert_eq!(incoming(&gateway, &[]).await, [0; 0], "nothing is noted of a forged delivery");
    assert_eq!(gateway.send(&stripe(&body)).await.status, 202);
    upstream.reached(HANDLER, 1).await;
    assert_eq!(upstream.seen_at(HANDLER)[0].body, body);
}

#[tokio::test]
async fn a_body_that_was_changed_on_its_way_is_refused_and_one_of_odd_bytes_goes_on_as_it_came() {
    let upstream = Upstream::start().await;
    let gateway = stripe_gateway(&upstream, "", "").await;
    let odd = "{ \"id\":\"evt_1\",\n\t\"n\":1.0e0, \"n\": 1, \"\\u0069\":\"\u{e9}\" }\r\n";
    let mut changed = stripe(odd);
    changed.body = odd.replace("1.0e0", "1").into_bytes();
    assert_problem(&gateway.send(&changed).await, 401, "signature-invalid");
    assert_eq!(gateway.send(&stripe(odd).chunked()).await.status, 202);
    upstream.reached(HANDLER, 1).await;
    assert_eq!(upstream.seen_at(HANDLER)[0].body, odd);
}

async fn b77_one_id_of_two_sources_is_two_messages(store: &Store) {
    let Some(body) = recordings::body("github-webhooks/installation-created.payload.json") else { return };
    let upstream = Upstream::start().await;
    let sources = ["gh/app1", "gh/app2"].map(|source| inbox(&upstream, source, "github", "", ""));
    let gateway = setup_on(store, &upstream).section(&sources.join("\n")).start().await;
    let other = [&body[..], b" "].concat();
    for (source, body) in [("gh/app1", &body), ("gh/app2", &other)] {
        let answer = gateway.send(&github(source, "72d3162e", "installation", body, SECRET)).await;
        assert_eq!(answer.status, 202, "{answer}");
    }
    upstream.reached(HANDLER, 2).await;
    let seen = upstream.seen_at(HANDLER);
    let keys: Vec<_> = seen.iter().map(|seen| seen.header("idempotency-key")).collect();
    assert!(keys[0].is_some() && keys[0] != keys[1], "{keys:?}");
    assert_eq!(seen[0].header("x-github-event"), Some("installation"), "the sender's headers go on");
}

async fn b79_three_deliveries_at_one_instant_are_handled_once(store: &Store) {
    for (n, reply) in ["accepted", "forwarded"].into_iter().enumerate() {
        let upstream = Upstream::start().await;
        upstream.always(HANDLER, Reply::count().delay_before(Duration::from_millis(300)));
        let gateway = stripe_gateway_on(store, &upstream, "", &format!("reply = \"{reply}\"")).await;
        let delivery = stripe(event(&format!("evt_{n}"), "sub_1", 1, "active"));
        let answers = parallel::answers(parallel::send_all(&delivery, 3, &[gateway.address()])).await;
        assert!(answers.iter().all(|answer| matches!(answer.status, 200 | 202)), "{answers:?}");
        assert_eq!(
            incoming(&gateway, &["--state", "processed"]).await.len(),
            n + 1,
            "durable when it is answered"
        );
        all_delivered(&gateway, n + 1).await;
        assert_eq!(upstream.count(HANDLER), 1, "{reply}");
    }
}

async fn fifty_deliveries_to_two_gateways_at_once_are_one_forward(store: &Store) {
    for (n, reply) in ["accepted", "forwarded"].into_iter().enumerate() {
        let upstream = Upstream::start().await;
        let gateway = stripe_gateway_on(store, &upstream, "", &format!("reply = \"{reply}\"")).await;
        let twin = gateway.twin().await;
        let delivery = stripe(event(&format!("evt_{n}"), "sub_1", 1, "active"));
        let both = [gateway.address(), twin.address()];
        let answers = parallel::answers(parallel::send_all(&delivery, 50, &both)).await;
        assert!(answers.iter().all(|answer| matches!(answer.status, 200 | 202)), "{answers:?}");
        all_delivered(&gateway, n + 1).await;
        assert_eq!(upstream.count(HANDLER), 1, "{reply}");
    }
}

async fn b80_two_endpoints_with_a_secret_each_are_one_message(store: &Store) {
    let upstream = Upstream::start().await;
    let both = "secrets = [\"env:HOOK_SECRET\", \"env:OTHER_SECRET\"]";
    let gateway = stripe_gateway_on(store, &upstream, "", both).await;
    let body = |pending: u32| {
        let event = event("evt_1", "sub_1", 1, "active");
        event.replacen('{', &format!("{{\"pending_webhooks\":{pending},"), 1)
    };
    let first = gateway.send(&stripe_at("stripe", body(2), SECRET, now_s())).await;
    assert_eq!(first.status, 202, "{first}");
    upstream.reached(HANDLER, 1).await;
    // One endpoint fewer has yet to answer; nothing else differs.
    let second = gateway.send(&stripe_at("stripe", body(1), OTHER_SECRET, now_s())).await;
    assert!(matches!(second.status, 200 | 202), "{second}");
    all_delivered(&gateway, 1).await;
    assert_eq!(upstream.count(HANDLER), 1);
}

#[tokio::test]
async fn secrets_change_without_a_gap_and_the_old_one_ends() {
    let upstream = Upstream::start().await;
    let section =
        inbox(&upstream, "stripe", "stripe", "", "secrets = [\"env:HOOK_SECRET\", \"env:OTHER_SECRET\"]");
    let secrets = |setup: Setup, new: &str, old: &str| setup.env("HOOK_SECRET", new).env("OTHER_SECRET", old);
    let mut gateway = secrets(setup(&upstream).section(&section), SECRET, SECRET).start().await;
    let by = |secret, id| stripe_at("stripe", event(id, "sub_1", 1, "active"), secret, now_s());
    assert_eq!(gateway.send(&by(SECRET, "evt_1")).await.status, 202);
    assert_problem(&gateway.send(&by(OTHER_SECRET, "evt_2")).await, 401, "signature-invalid");
    // Nothing is on its way when the gateway is restarted, which kills it.
    all_delivered(&gateway, 1).await;
    gateway.restart_with(|setup| secrets(setup, OTHER_SECRET, SECRET)).await;
    for (secret, id) in [(SECRET, "evt_3"), (OTHER_SECRET, "evt_2")] {
        assert_eq!(gateway.send(&by(secret, id)).await.status, 202);
    }
    all_delivered(&gateway, 3).await;
    gateway.restart_with(|setup| secrets(setup, OTHER_SECRET, OTHER_SECRET)).await;
    assert_problem(&gateway.send(&by(SECRET, "evt_4")).await, 401, "signature-invalid");
    let again = gateway.send(&by(OTHER_SECRET, "evt_1")).await;
    assert_eq!(again.json()["state"], "duplicate", "signed with another secret it is the same message");
    assert_eq!(upstream.count(HANDLER), 3);
}

async fn another_body_under_an_id_reaches_no_handler_and_is_kept_as_evidence(store: &Store) {
    let upstream = Upstream::start().await;
    let gateway = stripe_gateway_on(store, &upstream, "", "").await;
    assert_eq!(gateway.send(&stripe(event("evt_1", "sub_1", 1, "active"))).await.status, 202);
    upstream.reached(HANDLER, 1).await;
    let other = event("evt_1", "sub_1", 1, "incomplete");
    for _ in 0..2 {
        assert_problem(&gateway.send(&stripe(&other)).await, 409, "message-conflict");
    }
    let parked = incoming(&gateway, &["--state", "parked"]).await;
    let [evidence] = &parked[..] else { panic!("one is parked, however often it came: {parked:?}") };
    assert!(evidence["reason"].as_str().is_some_and(|reason| reason.contains("evt_1")), "{evidence}");
    let id = evidence["id"].as_str().expect("an id");
    let kept = gateway.command(&["inbox", "show", id]).await;
    assert!(kept.stdout.contains("incomplete"), "{}", kept.stdout);
    wait::until_within(wait::DEADLINE, "the conflicts are counted", async || {
        incoming(&gateway, &["--conflicts"]).await.iter().any(|entry| entry["conflicts"] == 2)
    })
    .await;
    assert_eq!((upstream.count(HANDLER), outgoing(&gateway, &[]).await.len()), (1, 1));
    // A person looks at it and lets it go on after all: under a key of its own.
    gateway.command(&["inbox", "redrive", id, "--reason", "the sender meant both"]).await.assert_code(0);
    upstream.reached(HANDLER, 2).await;
    let seen = upstream.seen_at(HANDLER);
    assert_eq!(seen[1].body, other);
    assert_ne!(seen[0].header("idempotency-key"), seen[1].header("idempotency-key"));
}

#[tokio::test]
async fn a_flood_of_other_bodies_under_one_id_keeps_a_few_of_them() {
    let upstream = Upstream::start().await;
    let gateway = stripe_gateway(&upstream, "", "").await;
    let body = |n: u64| event("evt_1", "sub_1", n, "active");
    assert_eq!(gateway.send(&stripe(body(0))).await.status, 202);
    for n in 1..=40 {
        assert_problem(&gateway.send(&stripe(body(n))).await, 409, "message-conflict");
    }
    let kept = incoming(&gateway, &["--state", "parked"]).await.len();
    // One may slip through while the counter is being written.
    assert!((9..=12).contains(&kept), "{kept} bodies that never expire");
}

#[tokio::test]
async fn a_handler_that_switches_protocols_has_not_accepted_and_the_sender_is_not_switched() {
    let upstream = Upstream::start().await;
    upstream.always(HANDLER, Reply::status(101));
    let gateway = stripe_gateway(&upstream, "", "reply = \"forwarded\"").await;
    let answer = gateway.send(&stripe(event("evt_1", "sub_1", 1, "active"))).await;
    assert_problem(&answer, 502, "outcome-unknown");
}

#[tokio::test]
async fn the_same_message_written_otherwise_is_no_conflict() {
    let upstream = Upstream::start().await;
    let gateway = stripe_gateway(&upstream, "", "").await;
    let one = r#"{"id":"evt_1","a":1,"b":[1.0]}"#;
    assert_eq!(gateway.send(&stripe(one)).await.status, 202);
    let two = r#"{ "b": [1], "a": 1, "id": "evt_1" }"#;
    assert_eq!(gateway.send(&stripe(two)).await.json()["state"], "duplicate");
    all_delivered(&gateway, 1).await;
    assert_eq!(upstream.count(HANDLER), 1);
}

#[tokio::test]
async fn a_delivery_that_says_no_id_or_is_no_json_is_refused_and_nothing_is_noted() {
    let upstream = Upstream::start().await;
    let gateway = stripe_gateway(&upstream, "", "entity = \"/data/id\"\nversion = \"/v\"").await;
    for body in
        ["{}", "[]", "id=evt_1", "", r#"{"id":""}"#, r#"{"id":"  "}"#, r#"{"id":"evt_1","v":"yesterday"}"#]
    {
        assert_problem(&gateway.send(&stripe(body)).await, 400, "request-invalid");
    }
    let long = format!(r#"{{"id":"{}"}}"#, "x".repeat(256));
    assert_problem(&gateway.send(&stripe(long)).await, 400, "request-invalid");
    assert_eq!((incoming(&gateway, &[]).await.len(), upstream.count(HANDLER)), (0, 0));
}

#[tokio::test]
async fn a_delivery_that_was_signed_too_long_ago_or_ahead_is_refused() {
    let upstream = Upstream::start().await;
    let gateway = stripe_gateway(&upstream, "", "tolerance = \"1m\"").await;
    let body = event("evt_1", "sub_1", 1, "active");
    for time in [now_s() - 120, now_s() + 120] {
        let answer = gateway.send(&stripe_at("stripe", &body, SECRET, time)).await;
        assert_problem(&answer, 401, "signature-invalid");
    }
    assert_eq!(gateway.send(&stripe_at("stripe", &body, SECRET, now_s() - 30)).await.status, 202);
    // The sender signs each delivery anew: an old message under a fresh signature is a duplicate.
    assert_eq!(gateway.send(&stripe(&body)).await.json()["state"], "duplicate");
}

#[tokio::test]
async fn a_delivery_that_is_too_long_is_refused() {
    let upstream = Upstream::start().await;
    let section = inbox(&upstream, "stripe", "stripe", "", "");
    let gateway = setup(&upstream).server("max_request = \"1KiB\"").section(&section).start().await;
    let body = format!(r#"{{"id":"evt_1","x":"{}"}}"#, "x".repeat(1024));
    assert_problem(&gateway.send(&stripe(body)).await, 413, "request-too-large");
}

#[tokio::test]
async fn every_scheme_is_taken_in_and_a_large_body_goes_on_byte_for_byte() {
    let Some(push) = recordings::body("github-webhooks/push-payload.json") else { return };
    let Some(order) = recordings::body("provider-webhooks/lemon_squeezy/order_created.json") else { return };
    let upstream = Upstream::start().await;
    let sources = ["standard", "github", "shopify"].map(|scheme| inbox(&upstream, scheme, scheme, "", ""));
    let none = inbox(&upstream, "plain", "none", "", "id = \"header:X-Id\"")
        .replace("secrets = [\"env:HOOK_SECRET\"]", "");
    let lines = "id = \"/data/id\"\nsignature = { header = \"X-Signature\" }";
    let hmac = inbox(&upstream, "lemon", "hmac", "", lines);
    let gateway = setup(&upstream).section(&sources.join("\n")).section(&hmac).section(&none).start().await;
    let forged = gateway.send(&plain_hmac("lemon", &order, OTHER_SECRET)).await;
    assert_problem(&forged, 401, "signature-invalid");
    let large = format!(r#"{{"x":"{}"}}"#, "x".repeat(400 << 10)).into_bytes();
    let deliveries = [
        (standard("standard", "msg_1", &order), &order),
        (github("github", "d-1", "push", &push, SECRET), &push),
        (shopify("shopify", "orders/create", "e-1", &order), &order),
        // One event under two topics is two messages.
        (shopify("shopify", "orders/paid", "e-1", &order), &order),
        (plain_hmac("lemon", &order, SECRET), &order),
        (Request::post("/inbox/plain").header("X-Id", "1").json(&large), &large),
    ];
    for (n, (delivery, body)) in deliveries.iter().enumerate() {
        assert_eq!(gateway.send(delivery).await.status, 202);
        upstream.reached(HANDLER, n as u64 + 1).await;
        assert_eq!(upstream.seen_at(HANDLER)[n].body, **body);
        assert_eq!(gateway.send(delivery).await.json()["state"], "duplicate");
    }
    all_delivered(&gateway, deliveries.len()).await;
    assert_eq!(upstream.count(HANDLER), deliveries.len() as u64);
}

#[tokio::test]
async fn other_paths_and_methods_belong_to_the_upstream() {
    let upstream = Upstream::start().await;
    let gateway = stripe_gateway(&upstream, "", "").await;
    for request in [
        Request::get("/inbox/stripe"),
        Request::post("/inbox/other").json("{}"),
        Request::post("/inbox/stripe/more").json("{}"),
        Request::post("/inbox/").json("{}"),
    ] {
        let answer = gateway.send(&request).await;
        assert_eq!((answer.status, answer.problem()), (200, None), "{answer}");
    }
    // However the path is written, nothing gets around the check of the signature.
    for path in
        ["/inbox/stripe/", "/inbox//stripe", "/inbox/%73tripe", "/a/../inbox/stripe", "/inbox/stripe?x=1"]
    {
        let answer = gateway.send(&Request::post(path).json("{}")).await;
        assert_problem(&answer, 401, "signature-invalid");
    }
}

#[tokio::test]
async fn what_only_the_layer_says_cannot_be_said_by_a_sender() {
    let upstream = Upstream::start().await;
    let gateway = stripe_gateway(&upstream, "", "").await;
    let delivery = stripe(event("evt_1", "sub_1", 1, "active"))
        .key("\"forged\"")
        .header("Onefold-Message-Id", "forged")
        .header("Idempotent-Replayed", "true")
        .header("X-Forwarded-For", "10.9.8.7")
        .header("X-Own", "kept");
    let answer = gateway.send(&delivery).await;
    upstream.reached(HANDLER, 1).await;
    let seen = upstream.seen_at(HANDLER).remove(0);
    let message = answer.json()["message_id"].as_str().map(str::to_owned);
    assert_eq!(seen.header("onefold-message-id").map(str::to_owned), message, "{answer}");
    assert_eq!(seen.header("idempotency-key").map(|key| key.trim_matches('"').to_owned()), message);
    assert_eq!((seen.header("x-own"), seen.header("x-forwarded-for")), (Some("kept"), None));
    assert_eq!(seen.headers.iter().filter(|(name, _)| name == "idempotency-key").count(), 1);
    assert_eq!(seen.header("idempotent-replayed"), None);
}

#[tokio::test]
async fn deliveries_are_counted_by_what_was_decided() {
    let upstream = Upstream::start().await;
    let gateway = stripe_gateway(&upstream, "", "").await;
    let body = event("evt_1", "sub_1", 1, "active");
    let deliveries = [
        stripe(&body),
        stripe(&body),
        stripe_at("stripe", &body, "whsec_guessed", now_s()),
        stripe("{}"),
        stripe(event("evt_1", "sub_1", 1, "incomplete")),
    ];
    for delivery in &deliveries {
        gateway.send(delivery).await;
    }
    all_delivered(&gateway, 1).await;
    let text = gateway.metrics().await.text().to_owned();
    for decision in ["accepted", "duplicate", "signature_invalid", "unreadable", "conflict"] {
        let series = format!(
            "onefold_inbox_deliveries_total{{destination=\"inbox/stripe\",surface=\"gateway\",store=\"sqlite\",decision=\"{decision}\"}} 1"
        );
        assert!(text.lines().any(|line| line == series), "{series}\n{text}");
    }
    assert!(!text.contains("evt_1"), "no id in a metric");
    let log = gateway.log();
    assert!(!log.contains("evt_1") && !log.contains("sub_1") && !log.contains(SECRET), "{log}");
}
