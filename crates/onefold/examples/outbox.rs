//! The outbox: an order and the message about it in one commit, sent afterwards under one id. Needs no server:
//! `cargo run --example outbox`.

use std::time::Duration;

use onefold::messages::{Destination, Message, Sending, Sink, async_trait};
use onefold::{BoxError, Key, Onefold, Operation, Scope, Verdict};
use rusqlite::Connection;
use tokio::sync::mpsc;

/// Stands for a broker: its answer to the first delivery is lost.
struct Broker {
    accepted: mpsc::Sender<Message>,
    answer_lost: std::sync::Mutex<bool>,
}

#[async_trait]
impl Sink for Broker {
    async fn send(&self, message: &Message) -> Sending {
        // Whoever reads from it knows the message by its id.
        let _ = self.accepted.send(message.clone()).await;
        if std::mem::take(&mut *self.answer_lost.lock().expect("no panic")) {
            return Sending::Failed { reason: "the answer was lost".into() };
        }
        Sending::Accepted
    }
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> Result<(), BoxError> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("shop.db");
    let onefold = Onefold::sqlite(&path)?;
    let shop = Connection::open(&path)?;
    shop.execute_batch("CREATE TABLE orders (number INTEGER PRIMARY KEY, sku TEXT)")?;
    let place_order = Operation::new("PlaceOrder", "one order row, and one confirmation, for each checkout");

    for _ in 1..=2 {
        let call = place_order.call(Scope::new([("customer", "17")]), "checkout-7f82", "lamp")?;
        let done = onefold
            .atomic(call, |tx| {
                tx.execute("INSERT INTO orders (sku) VALUES ('lamp')", [])?;
                let order = tx.last_insert_rowid();
                let confirmation = Message {
                    // Not used: the id of the one message for an effect follows from the effect.
                    id: Key::new("confirmation")?,
                    destination: "mail".into(),
                    address: "ann@example.org".into(),
                    ordering_key: Some(format!("order-{order}")),
                    headers: vec![("content-type".into(), "text/plain".into())],
                    body: format!("Thank you for order {order}.").into_bytes(),
                };
                tx.enqueue_once(&format!("order-{order}/ORDER_CONFIRMED"), confirmation)?;
                Ok(Verdict::created("order", order, order))
            })
            .await?;
        println!("order {}, replayed: {}", done.value(), done.replayed());
    }

    let (accepted, mut deliveries) = mpsc::channel(8);
    let broker = Broker { accepted, answer_lost: std::sync::Mutex::new(true) };
    let relay = onefold.relay(vec![Destination::new("mail", broker)]);
    let first = deliveries.recv().await.ok_or("a delivery was expected")?;
    let second = deliveries.recv().await.ok_or("a delivery was expected")?;
    println!("delivered twice under one id: {}", first.id == second.id);
    let left = relay.stop(Duration::from_secs(10)).await;
    let others = deliveries.try_recv().is_ok();
    if first == second && left == 0 && !others { Ok(()) } else { Err("one message was expected".into()) }
}
