//! Webhooks that come faster than they can be handled, and bodies that nobody has signed: what is not noted, what is not
//! read, and what memory it takes.

use std::time::Duration;

use onefold_e2e::webhooks::{
    HANDLER, SECRET, all_delivered, event, inbox, incoming, now_s, outgoing, setup, standard, stripe,
    stripe_at, stripe_gateway,
};
use onefold_e2e::{assert_problem, parallel};
use onefold_testkit::{Connection, Gate, Gateway, Reply, Request, Upstream, wait};

fn delivery(id: &str) -> Request {
    stripe(event(id, id, 1, "active"))
}

#[tokio::test]
async fn flood_of_valid_webhooks_is_refused_at_the_bound_before_anything_is_noted_and_has_room_again() {
    let (upstream, gate) = (Upstream::start().await, Gate::closed());
    upstream.always(HANDLER, Reply::count().hold_after(&gate));
    let other = inbox(&upstream, "other", "stripe", "", "");
    let section = format!("{}{other}", inbox(&upstream, "stripe", "stripe", "", "max_waiting = 3"));
    let gateway = setup(&upstream).section(&section).start().await;
    for n in 0..3 {
        let answer = gateway.send(&delivery(&format!("evt_{n}"))).await;
        assert_eq!(answer.status, 202, "{answer}");
    }
    for id in ["evt_3", "evt_3", "evt_4"] {
        let refused = gateway.send(&delivery(id)).await;
        assert_problem(&refused, 503, "inbox-full");
        assert!(refused.retry_after().is_some(), "{refused}");
    }
    assert_eq!((incoming(&gateway, &[]).await.len(), outgoing(&gateway, &[]).await.len()), (3, 3));
    let full = gateway.metrics().await;
    let counted = |decision: &str| {
        let series = format!(
            "onefold_inbox_deliveries_total{{destination=\"inbox/stripe\",surface=\"gateway\",store=\"sqlite\",decision=\"{decision}\"}}"
        );
        full.text().lines().find_map(|line| line.strip_prefix(&series)?.trim().parse::<f64>().ok())
    };
    assert_eq!((counted("accepted"), counted("full")), (Some(3.0), Some(3.0)), "{}", full.text());
    // Another source has room of its own.
    let elsewhere = stripe_at("other", event("evt_9", "sub_9", 1, "active"), SECRET, now_s());
    assert_eq!(gateway.send(&elsewhere).await.status, 202);
    gate.open();
    all_delivered(&gateway, 4).await;
    // Nothing was noted of it: it is new.
    let (gateway, upstream) = (&gateway, &upstream);
    wait::until_within(wait::DEADLINE, "there is room again", async || {
        gateway.send(&delivery("evt_3")).await.status == 202
    })
    .await;
    all_delivered(gateway, 5).await;
    assert_eq!(upstream.count(HANDLER), 5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_deliveries_at_once_are_no_more_than_there_is_room_for() {
    let (upstream, gate) = (Upstream::start().await, Gate::closed());
    upstream.always(HANDLER, Reply::count().hold_after(&gate));
    let gateway = stripe_gateway(&upstream, "", "max_waiting = 7").await;
    let all: Vec<_> = (0..50)
        .map(|n| {
            let (to, request) = (gateway.address(), delivery(&format!("evt_{n}")));
            tokio::spawn(async move { request.send(to).await.status })
        })
        .collect();
    let mut taken = 0;
    for one in all {
        let status = one.await.expect("it is answered");
        assert!(matches!(status, 202 | 503), "{status}");
        taken += usize::from(status == 202);
    }
    assert_eq!((taken, incoming(&gateway, &[]).await.len()), (7, 7));
    gate.open();
}

#[tokio::test]
async fn what_the_headers_alone_say_is_refused_before_a_byte_of_the_body_is_read() {
    let upstream = Upstream::start().await;
    let gateway = stripe_gateway(&upstream, "", "").await;
    let body = event("evt_1", "sub_1", 1, "active");
    let old = stripe_at("stripe", &body, SECRET, now_s() - 3600);
    let unsigned = Request::post("/inbox/stripe").json(&body);
    let malformed = Request::post("/inbox/stripe").header("Stripe-Signature", "t=soon").json(&body);
    for request in [old, unsigned, malformed] {
        let mut client = Connection::open(gateway.address()).await.expect("it listens");
        // The body never comes.
        client.send_head(&request).await.expect("it is sent");
        let answer = tokio::time::timeout(wait::DEADLINE, client.read_answer()).await;
        let answer = answer.expect("it is answered without the body").expect("an answer");
        assert_problem(&answer, 401, "signature-invalid");
    }
    // The sender's own is waited for.
    let mut client = Connection::open(gateway.address()).await.expect("it listens");
    let good = stripe(&body);
    client.send_head(&good).await.expect("it is sent");
    client.send_bytes(&good.body).await.expect("it is sent");
    assert_eq!(client.read_answer().await.expect("an answer").status, 202);
}

/// A long delivery about the one entity. It is no JSON, so nothing takes long but its bytes.
fn long(id: &str, bytes: usize) -> Request {
    standard("long", id, "x".repeat(bytes)).header("X-Entity", "one")
}

async fn takes_long_ones(upstream: &Upstream) -> Gateway {
    let section = inbox(upstream, "long", "standard", "", "entity = \"header:X-Entity\"");
    let gateway = setup(upstream).section(&section).start().await;
    // Everything that is made once is there.
    assert_eq!(gateway.send(&long("evt_0", 10)).await.status, 202);
    gateway
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_bodies_that_nobody_has_signed_are_never_whole_in_memory() {
    const BYTES: usize = 16 << 20;
    const AT_ONCE: usize = 3;
    let upstream = Upstream::start().await;
    let gateway = takes_long_ones(&upstream).await;
    let before = gateway.process().peak_bytes();
    let mut forged = long("evt_1", BYTES);
    forged.body[0] = b'y';
    let answers = parallel::answers(parallel::send_all(&forged, AT_ONCE, &[gateway.address()])).await;
    for answer in &answers {
        assert_problem(answer, 401, "signature-invalid");
    }
    let more = gateway.process().peak_bytes() - before;
    // A body that is kept until it is verified is there twice.
    assert!(more < (AT_ONCE * BYTES) as u64, "{more} bytes for {AT_ONCE} bodies of {BYTES}");
}

/// While nothing can be stored, the first body has the memory, and the others wait for it in vain.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_bodies_that_find_no_memory_in_time_are_refused() {
    // Two of them are more than bodies that are being stored may take together.
    const BYTES: usize = 17 << 20;
    const AT_ONCE: usize = 8;
    let upstream = Upstream::start().await;
    let gateway = takes_long_ones(&upstream).await;
    let store = rusqlite::Connection::open(gateway.setup().store_path()).expect("it opens");
    store.execute_batch("BEGIN IMMEDIATE").expect("it is locked");
    let all = parallel::send_all(&long("evt_1", BYTES), AT_ONCE, &[gateway.address()]);
    let mut full = 0;
    for answer in parallel::answers(all).await {
        assert_eq!(answer.status, 503, "{answer}");
        full += usize::from(answer.text().contains("inbox-full"));
    }
    assert!(full > 0, "all of them were in memory at once");
    drop(store);
    assert_eq!(gateway.send(&long("evt_1", 10)).await.status, 202, "nothing was noted");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_bodies_of_the_sender_are_all_taken_in_however_many_come_at_once() {
    const BYTES: usize = 10 << 20;
    const AT_ONCE: usize = 12;
    let upstream = Upstream::start().await;
    // More than the memory that they share. About one thing, so that one of them goes on at a time.
    let gateway = takes_long_ones(&upstream).await;
    let deliveries: Vec<_> = (0..AT_ONCE)
        .map(|n| {
            let (to, request) = (gateway.address(), long(&format!("evt_long_{n}"), BYTES));
            tokio::spawn(async move {
                loop {
                    let answer = request.send(to).await;
                    match answer.status {
                        202 => return,
                        503 => assert_problem(&answer, 503, "inbox-full"),
                        _ => panic!("{answer}"),
                    }
                }
            })
        })
        .collect();
    for one in deliveries {
        tokio::time::timeout(Duration::from_secs(240), one).await.expect("in time").expect("it is taken in");
    }
}
