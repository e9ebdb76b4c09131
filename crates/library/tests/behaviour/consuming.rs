//! Messages on their way in, as a service handles them.

use std::sync::Arc;
use std::time::Duration;

use onefold::inbox::{
    Handled, Handling, Inbound, InboxQuery, InboxSettings, InboxState, InboxStore, Incoming,
};
use onefold::messages::{Destination, Message, Sending, Sink, async_trait};
use onefold::{Applied, FileUse, Key, Limits, Onefold, Options, SqliteTx, Verdict};
use onefold_store::clock::ManualClock;
use onefold_store::{OutboxQuery, OutboxStore};
use onefold_testkit::wait;

use crate::shop::{Shop, call, insert};

const DONE: Handling = Handling::Done(InboxState::Processed);
const DAY: Duration = Duration::from_secs(24 * 3600);

fn mail(destination: &str) -> Message {
    Message {
        id: Key::new("mail").unwrap(),
        destination: destination.into(),
        address: "ann@example.org".into(),
        ordering_key: None,
        headers: Vec::new(),
        body: b"Thank you.".to_vec(),
    }
}

fn count(shop: &Shop, sql: &str) -> i64 {
    shop.connection().query_row(sql, [], |row| row.get(0)).unwrap()
}

#[tokio::test]
async fn two_events_that_ask_for_one_e_mail_make_one_message() {
    let shop = Shop::open();
    let consumer = shop.onefold.inbox("confirmations").consumer(|tx, message| {
        insert(tx, message.id.as_str())?;
        let asked = tx.effect(&format!("order-5001/asked by {}", message.id.as_str()))?;
        let made = tx.enqueue_once("order-5001/ORDER_CONFIRMED", mail("mail"))?;
        assert_eq!((asked, made), (true, message.id.as_str() == "evt-paid"));
        Ok(Handled::Done)
    });
    assert_eq!(consumer.handle(Inbound::new("payments", "evt-paid", "5001")).await, DONE);
    assert_eq!(consumer.handle(Inbound::new("stock", "evt-packed", "5001")).await, DONE);
    assert_eq!(consumer.handle(Inbound::new("stock", "evt-packed", "5001")).await, Handling::Duplicate);
    assert_eq!((shop.orders(), count(&shop, "SELECT count(*) FROM onefold_outbox")), (2, 1));
}

#[tokio::test]
async fn id_of_a_message_that_goes_elsewhere_undoes_what_was_written() {
    let shop = Shop::open();
    let place = async |key: &'static str, messages: [Message; 2]| {
        let placed = shop.onefold.atomic(call(key, "lamp"), move |tx| {
            insert(tx, "lamp")?;
            let made = [tx.enqueue(&messages[0])?, tx.enqueue(&messages[1])?];
            Ok(Verdict::succeeded(made))
        });
        placed.await
    };
    let lost = place("k-1", [mail("mail"), mail("archive")]).await.unwrap_err();
    assert!(lost.to_string().contains("the id mail is that of a message for another place"), "{lost}");
    assert_eq!((shop.orders(), count(&shop, "SELECT count(*) FROM onefold_outbox")), (0, 0));
    let made = place("k-1", [mail("mail"), mail("mail")]).await.unwrap();
    assert_eq!(*made.value(), [true, false], "the same message is made once");
}

#[tokio::test]
async fn what_ties_a_workflow_together_goes_from_message_and_call_to_the_messages_they_make() {
    let shop = Shop::open();
    let with_id = |id: &str| Message { id: Key::new(id).unwrap(), ..mail("mail") };
    let headers = async |id: &str| shop.onefold.outgoing(id).await.unwrap().unwrap().message.headers;
    let says = async |id: &str| {
        let lines = headers(id).await.into_iter();
        lines.filter(|(name, _)| name == "onefold-correlation-id").collect::<Vec<_>>()
    };
    let line = |id: &str| vec![("onefold-correlation-id".to_owned(), id.to_owned())];
    let consumer = shop.onefold.inbox("confirmations").consumer(move |tx, message| {
        tx.enqueue(&with_id(&format!("of {}", message.id.as_str())))?;
        Ok(Handled::Done)
    });
    let event = Inbound { headers: line("flow-7"), ..Inbound::new("shop", "evt-1", "") };
    assert_eq!(consumer.handle(event).await, DONE);
    assert_eq!(says("of evt-1").await, line("flow-7"));
    assert_eq!(consumer.handle(Inbound::new("shop", "evt-2", "")).await, DONE);
    assert_eq!(says("of evt-2").await, [], "of another message's flow nothing is left");

    let placed = shop.onefold.atomic(call("k-1", "lamp").correlated("flow-8"), move |tx| {
        tx.enqueue(&with_id("of the call"))?;
        tx.enqueue(&Message { headers: line("flow-9"), ..with_id("its own") })?;
        tx.enqueue_once("order-1/CONFIRMED", mail("mail"))?;
        Ok(Verdict::succeeded(()))
    });
    placed.await.unwrap();
    assert_eq!((says("of the call").await, says("its own").await), (line("flow-8"), line("flow-9")));
    let effect = shop.onefold.notification("order-1/CONFIRMED").await.unwrap().unwrap();
    let caused = ("onefold-causation-id".to_owned(), call("k-1", "lamp").id(&shop.onefold).to_string());
    assert_eq!(effect.message.headers, [line("flow-8"), vec![caused]].concat());
}

#[tokio::test]
async fn a_message_names_what_caused_it_and_the_trace_that_came_in() {
    let shop = Shop::open();
    let with_id = |id: &str| Message { id: Key::new(id).unwrap(), ..mail("mail") };
    let headers = async |id: &str| shop.onefold.outgoing(id).await.unwrap().unwrap().message.headers;
    let line = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let trace = line("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
    let consumer = shop.onefold.inbox("confirmations").consumer(move |tx, message| {
        tx.enqueue(&with_id(&format!("of {}", message.id.as_str())))?;
        let own = line("onefold-causation-id", "evt-0");
        tx.enqueue(&Message { headers: vec![own], ..with_id(&format!("own of {}", message.id.as_str())) })?;
        Ok(Handled::Done)
    });
    // What this one was caused by causes nothing else.
    let came = vec![trace.clone(), line("onefold-causation-id", "evt-0")];
    let event = Inbound { headers: came, ..Inbound::new("shop", "evt-1", "") };
    assert_eq!(consumer.handle(event).await, DONE);
    let by = |id: &str| line("onefold-causation-id", id);
    assert_eq!(headers("of evt-1").await, [by("evt-1"), trace.clone()]);
    assert_eq!(headers("own of evt-1").await, [by("evt-0"), trace.clone()]);
    assert_eq!(consumer.handle(Inbound::new("shop", "evt-2", "")).await, DONE);
    assert_eq!(headers("of evt-2").await, [by("evt-2")], "no trace is made up");

    // One by one, for a loop of one's own.
    let flow = line("onefold-correlation-id", "flow-7");
    let event = Inbound { headers: vec![flow.clone(), trace.clone()], ..Inbound::new("shop", "evt-3", "") };
    let inbox = shop.onefold.inbox("loyalty");
    let handled = inbox.handle(event, move |tx, message| {
        tx.enqueue(&with_id(&format!("of {}", message.id.as_str())))?;
        Ok(Handled::Done)
    });
    assert_eq!(handled.await, DONE);
    assert_eq!(headers("of evt-3").await, [flow, by("evt-3"), trace.clone()]);

    let asked = call("k-1", "lamp");
    let id = asked.id(&shop.onefold).to_string();
    let placed = shop.onefold.atomic(asked.traced(trace.1.clone()), move |tx| {
        tx.enqueue(&with_id("of the call"))?;
        Ok(Verdict::succeeded(()))
    });
    placed.await.unwrap();
    assert_eq!(headers("of the call").await, [by(&id), trace]);
    let written = shop.onefold.write(move |tx| Ok(tx.enqueue(&with_id("of nothing"))?)).await;
    assert!(written.unwrap());
    assert_eq!(headers("of nothing").await, []);
}

#[tokio::test]
async fn b84_an_older_event_that_comes_late_does_not_win_and_is_not_lost() {
    let shop = Shop::open();
    shop.connection().execute_batch("CREATE TABLE subscriptions (id TEXT PRIMARY KEY, status TEXT)").unwrap();
    let consumer = shop.onefold.inbox("subscriptions").consumer(|tx, message| {
        let created: i64 = message.header("created").ok_or("when?")?.parse()?;
        if tx.apply_if_newer("sub_1", created)? == Applied::Newer {
            let status = std::str::from_utf8(&message.body)?;
            tx.execute("INSERT OR REPLACE INTO subscriptions VALUES ('sub_1', ?1)", [status])?;
        }
        Ok(Handled::Done)
    });
    let event = |id: &str, created: &str, status: &str| Inbound {
        headers: vec![("created".into(), created.into())],
        ..Inbound::new("stripe", id, status)
    };
    for (id, created, status) in [
        ("updated", "2", "active"),
        ("created", "1", "incomplete"),
        // Of one second: the first one counts, however often they come.
        ("paused", "2", "paused"),
        ("paused", "2", "paused"),
    ] {
        assert_ne!(consumer.handle(event(id, created, status)).await, Handling::Parked, "{id}");
    }
    let status: String =
        shop.connection().query_row("SELECT status FROM subscriptions", [], |row| row.get(0)).unwrap();
    assert_eq!(status, "active");
    assert_eq!(count(&shop, "SELECT version FROM onefold_superseded WHERE entity = 'sub_1'"), 1);
    let late = InboxQuery { state: Some(InboxState::Superseded), limit: 9, ..InboxQuery::default() };
    let listed = shop.onefold.messages().list_incoming(late).await.unwrap();
    let ids: Vec<_> = listed.entries.iter().map(|entry| entry.identity.message.as_str()).collect();
    assert_eq!(ids, ["created"], "people see which came too late");
}

#[tokio::test]
async fn an_entity_that_is_deleted_for_good_leaves_no_version() {
    let shop = Shop::open();
    let inbox = shop.onefold.inbox("orders");
    let apply = |tx: &mut SqliteTx<'_>, _: &Incoming| {
        tx.apply_if_newer("order-1", 7)?;
        Ok(Handled::Done)
    };
    let forget = |tx: &mut SqliteTx<'_>, _: &Incoming| {
        assert!(tx.forget_entity("order-1")? && !tx.forget_entity("order-1")?);
        Ok(Handled::Done)
    };
    assert_eq!(inbox.handle(Inbound::new("shop", "evt-1", "made"), apply).await, DONE);
    assert_eq!(inbox.handle(Inbound::new("shop", "evt-2", "deleted"), forget).await, DONE);
    assert_eq!(count(&shop, "SELECT count(*) FROM onefold_projections"), 0);
}

#[tokio::test]
async fn an_error_in_the_middle_of_a_handler_leaves_none_of_what_it_did() {
    let shop = Shop::open();
    let inbox = shop.onefold.inbox("orders");
    let work = |fails: bool| {
        move |tx: &mut SqliteTx<'_>, _: &Incoming| {
            insert(tx, "lamp")?;
            assert!(tx.effect("order-1/PLACED")?);
            assert_eq!(tx.apply_if_newer("order-1", 1)?, Applied::Newer);
            assert!(tx.enqueue_once("order-1/CONFIRMED", mail("mail"))?);
            if fails { Err("no stock".into()) } else { Ok(Handled::Done) }
        }
    };
    let message = || Inbound::new("shop", "evt-1", "lamp");
    assert!(matches!(inbox.handle(message(), work(true)).await, Handling::Again { .. }));
    assert_eq!(inbox.handle(message(), work(false)).await, DONE);
    assert_eq!(inbox.handle(message(), work(false)).await, Handling::Duplicate);
    assert_eq!((shop.orders(), count(&shop, "SELECT count(*) FROM onefold_outbox")), (1, 1));
}

/// Accepts everything.
struct Accepts;

#[async_trait]
impl Sink for Accepts {
    async fn send(&self, _message: &Message) -> Sending {
        Sending::Accepted
    }
}

#[tokio::test]
async fn marks_and_sent_messages_are_swept_when_their_time_is_over_and_not_before() {
    let directory = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::at(onefold_core::StoreTime(1_700_000_000_000)));
    let options = Options { clock: clock.clone(), file_use: FileUse::Shared, ..Options::default() };
    let onefold = Onefold::open(directory.path().join("shop.db"), options, Limits::default()).unwrap();
    let settings = InboxSettings { park_after: Some(1), ..InboxSettings::new("loyalty") };
    let inbox = onefold.inbox(settings);
    let handle = async |id: &str| {
        inbox
            .handle(Inbound::new("shop", id, "a"), |tx, message| match message.id.as_str() {
                "poison" => Err("no".into()),
                // Of these nobody is sent any.
                "asks" => Ok(tx.enqueue(&mail("nobody")).map(|_| Handled::Done)?),
                _ => Ok(Handled::Done),
            })
            .await
    };
    let many: Vec<String> = (0..250).map(|n| format!("evt-{n}")).collect();
    for id in &many {
        assert_eq!(handle(id).await, DONE);
    }
    assert_eq!(handle("asks").await, DONE);
    assert_eq!(handle("poison").await, Handling::Parked);
    let sent = Message { id: Key::new("sent").unwrap(), ..mail("somebody") };
    onefold.store().enqueue(vec![sent]).await.unwrap();
    let outbox = async || {
        let query = OutboxQuery { limit: 9, ..OutboxQuery::default() };
        onefold.store().list_outbox(query).await.unwrap().entries.len()
    };
    let left = async || {
        let query = InboxQuery { limit: 1000, ..InboxQuery::default() };
        onefold.store().list_inbox(query).await.unwrap().entries.len()
    };
    let _keeper = onefold.keep_messages(Duration::from_millis(1), 3 * DAY);
    let metrics = || {
        let mut registry = prometheus_client::registry::Registry::default();
        onefold.engine().signals().register(&mut registry);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        text
    };
    let shows = |line: &str, value: &str| {
        let wanted = format!(" {value}");
        metrics().lines().any(|found| found.starts_with(line) && found.ends_with(&wanted))
    };
    wait::until("it waits", || shows("onefold_outbox_depth{destination=\"somebody\"", "1")).await;
    let relay = onefold.relay(vec![Destination::new("somebody", Accepts)]);
    wait::until_within(wait::DEADLINE, "it is sent", async || {
        let entry = onefold.store().outgoing(&Key::new("sent").unwrap()).await.unwrap();
        entry.is_some_and(|entry| entry.state.is_done())
    })
    .await;
    clock.pass(2 * DAY);
    wait::until("the gauges are read", || shows("onefold_inbox_parked_oldest_age_seconds", "172800")).await;
    assert_eq!((left().await, outbox().await), (252, 2), "nothing is due");
    clock.pass(2 * DAY);
    wait::until_within(wait::DEADLINE, "what was sent is forgotten", async || outbox().await == 1).await;
    assert_eq!(left().await, 252);
    clock.pass(4 * DAY);
    wait::until_within(wait::DEADLINE, "marks are forgotten", async || left().await == 2).await;
    assert_eq!(outbox().await, 1);
    assert_eq!(handle("asks").await, Handling::Duplicate, "its message waits");
    wait::until("the gauges are read", || {
        shows("onefold_outbox_oldest_age_seconds{destination=\"nobody\"", "691200")
            && shows("onefold_inbox_sweep_lag_seconds", "0")
    })
    .await;
    for (line, value) in [
        ("onefold_inbox_parked{", "1"),
        ("onefold_inbox_failing{", "0"),
        (
            "onefold_inbox_handled_total{operation=\"loyalty\",surface=\"library\",store=\"sqlite\",verdict=\"processed\"}",
            "251",
        ),
        (
            "onefold_inbox_handled_total{operation=\"loyalty\",surface=\"library\",store=\"sqlite\",verdict=\"parked\"}",
            "1",
        ),
        ("onefold_inbox_duplicates_total{", "1"),
        ("onefold_inbox_conflicts_total{", "0"),
        ("onefold_outbox_depth{destination=\"nobody\"", "1"),
        ("onefold_outbox_depth{destination=\"somebody\"", "0"),
        ("onefold_outbox_dead{destination=\"nobody\"", "0"),
        ("onefold_outbox_unknown{destination=\"nobody\"", "0"),
    ] {
        assert!(shows(line, value), "{line} {value}\n{}", metrics());
    }
    relay.stop(Duration::from_secs(10)).await;
}
