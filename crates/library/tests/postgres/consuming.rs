//! Messages on their way in and out, as a service on PostgreSQL handles and sends them.

use std::sync::Arc;
use std::time::Duration;

use onefold::inbox::{Handled, Handling, Inbound, InboxState, Incoming};
use onefold::messages::{Destination, Message, OutboxState, OutboxStore, Sending, Sink, async_trait};
use onefold::notify::{Mail, Notify};
use onefold::postgres::{PostgresTx, TxError};
use onefold::{BoxError, CallError, Key, Verdict};
use onefold_testkit::wait;
use tokio::sync::mpsc;

use crate::shop::{Shop, call, insert};

const DONE: Handling = Handling::Done(InboxState::Processed);

fn mail(address: &str) -> Message {
    Message {
        id: Key::new("mail").unwrap(),
        destination: "mail".into(),
        address: address.into(),
        ordering_key: Some("ann".into()),
        headers: Vec::new(),
        body: b"Thank you.".to_vec(),
    }
}

async fn confirm(tx: &mut PostgresTx, message: Arc<Incoming>) -> Result<Handled, BoxError> {
    insert(tx, message.id.as_str()).await?;
    let mail = Mail::new("ann@example.org", "Your order").text("Thank you.");
    Notify::by("mail").once_on_postgres(tx, "order-5001/ORDER_CONFIRMED", &mail).await?;
    Ok(Handled::Done)
}

struct Mailbox(mpsc::Sender<Message>);

#[async_trait]
impl Sink for Mailbox {
    async fn send(&self, message: &Message) -> Sending {
        self.0.send(message.clone()).await.unwrap();
        Sending::Accepted
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_events_that_ask_for_one_e_mail_make_one_and_the_relay_sends_it() {
    let Some(shop) = Shop::open().await else { return };
    let consumer = shop.onefold.inbox("confirmations").consumer(confirm);
    assert_eq!(consumer.handle(Inbound::new("payments", "evt-paid", "5001")).await, DONE);
    assert_eq!(consumer.handle(Inbound::new("stock", "evt-packed", "5001")).await, DONE);
    assert_eq!(consumer.handle(Inbound::new("stock", "evt-packed", "5001")).await, Handling::Duplicate);
    assert_eq!((shop.count("orders").await, shop.count("onefold.outbox").await), (2, 1));
    let (sends, mut mails) = mpsc::channel(8);
    let relay = shop.onefold.relay(vec![Destination::new("mail", Mailbox(sends))]);
    let sent = mails.recv().await.unwrap();
    wait::until_within(wait::DEADLINE, "it is delivered", async || {
        let entry = shop.onefold.store().outgoing(&sent.id).await.unwrap();
        entry.is_some_and(|entry| entry.state == OutboxState::Delivered)
    })
    .await;
    assert_eq!(relay.stop(Duration::from_secs(10)).await, 0);
    assert!(mails.try_recv().is_err(), "one e-mail");
}

#[tokio::test(flavor = "multi_thread")]
async fn handler_that_fails_or_refuses_leaves_nothing() {
    let Some(shop) = Shop::open().await else { return };
    let inbox = shop.onefold.inbox("loyalty");
    let fails = async |tx: &mut PostgresTx, _: Arc<Incoming>| {
        insert(tx, "lamp").await?;
        Err("no".into())
    };
    let failed = inbox.handle(Inbound::new("shop", "evt-1", "a"), fails).await;
    assert!(matches!(failed, Handling::Again { .. }), "{failed:?}");
    let refuses = async |tx: &mut PostgresTx, _: Arc<Incoming>| {
        insert(tx, "lamp").await?;
        Ok(Handled::rejected("no such customer"))
    };
    let refused = inbox.handle(Inbound::new("shop", "evt-1", "a"), refuses).await;
    assert_eq!(refused, Handling::Done(InboxState::Rejected));
    assert_eq!(shop.count("orders").await, 0);
    let reason = shop.database.ask("SELECT convert_from(reason, 'UTF8') FROM onefold.inbox").await;
    assert_eq!(reason, "no such customer");
}

#[tokio::test(flavor = "multi_thread")]
async fn message_of_an_operation_is_committed_with_it_in_our_transaction_and_in_yours() {
    let Some(shop) = Shop::open().await else { return };
    for _ in 0..2 {
        let work = async |tx: &mut PostgresTx| {
            let number = insert(tx, "lamp").await?;
            tx.enqueue(&mail("ann@example.org")).await?;
            Ok(Verdict::succeeded(number))
        };
        shop.onefold.atomic(call("k-1", "lamp"), work).await.unwrap();
    }
    assert_eq!((shop.count("orders").await, shop.count("onefold.outbox").await), (1, 1));
    let mut connection = shop.connection().await;
    for commits in [false, true] {
        let transaction = connection.transaction().await.unwrap();
        let message = Message { id: Key::new("another").unwrap(), ..mail("bob@example.org") };
        assert!(shop.onefold.enqueue(&transaction, message).await.unwrap());
        let ended = if commits { transaction.commit().await } else { transaction.rollback().await };
        ended.unwrap();
        assert_eq!(shop.count("onefold.outbox").await, 1 + i64::from(commits));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn id_of_a_message_that_goes_elsewhere_is_an_error_and_the_transaction_goes_on() {
    let Some(shop) = Shop::open().await else { return };
    let work = async |tx: &mut PostgresTx| {
        let number = insert(tx, "lamp").await?;
        tx.enqueue(&mail("ann@example.org")).await?;
        let taken = tx.enqueue(&mail("bob@example.org")).await;
        assert!(matches!(&taken, Err(TxError::IdTaken(why)) if why.to_string().contains("the id mail")));
        assert!(!tx.enqueue(&mail("ann@example.org")).await?, "the same message is made once");
        Ok(Verdict::succeeded(number))
    };
    shop.onefold.atomic(call("k-1", "lamp"), work).await.unwrap();
    assert_eq!((shop.count("orders").await, shop.count("onefold.outbox").await), (1, 1));
    let mut connection = shop.connection().await;
    let transaction = connection.transaction().await.unwrap();
    let taken = shop.onefold.enqueue(&transaction, mail("bob@example.org")).await.unwrap_err();
    assert!(matches!(taken, CallError::NotDone { retryable: false, .. }), "{taken:?}");
    assert!(!shop.onefold.enqueue(&transaction, mail("ann@example.org")).await.unwrap());
    transaction.commit().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_names_its_workflow_what_caused_it_and_the_trace_that_came_in() {
    let Some(shop) = Shop::open().await else { return };
    let headers = async |id: &str| shop.onefold.outgoing(id).await.unwrap().unwrap().message.headers;
    let line = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let flow = line("onefold-correlation-id", "flow-7");
    let trace = line("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
    let by = |id: &str| line("onefold-causation-id", id);
    let consumer = shop.onefold.inbox("confirmations").consumer(
        async move |tx: &mut PostgresTx, message: Arc<Incoming>| {
            let id = Key::new(format!("of {}", message.id.as_str()))?;
            tx.enqueue(&Message { id, ..mail("ann") }).await?;
            Ok(Handled::Done)
        },
    );
    let event = Inbound { headers: vec![flow.clone(), trace.clone()], ..Inbound::new("shop", "evt-1", "") };
    assert_eq!(consumer.handle(event).await, DONE);
    assert_eq!(headers("of evt-1").await, [flow.clone(), by("evt-1"), trace.clone()]);
    assert_eq!(consumer.handle(Inbound::new("shop", "evt-2", "")).await, DONE);
    assert_eq!(headers("of evt-2").await, [by("evt-2")], "neither flow nor trace is made up");

    let asked = call("k-1", "lamp");
    let id = asked.id(&shop.onefold).to_string();
    let asked = asked.correlated("flow-7").traced(trace.1.clone());
    let placed = shop.onefold.atomic(asked, async move |tx: &mut PostgresTx| {
        tx.enqueue(&Message { id: Key::new("of the call")?, ..mail("ann") }).await?;
        Ok(Verdict::succeeded(()))
    });
    placed.await.unwrap();
    assert_eq!(headers("of the call").await, [flow, by(&id), trace]);
}
