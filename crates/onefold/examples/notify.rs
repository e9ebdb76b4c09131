//! Notifications: two events ask for one mail, and an answer that is lost is not a second mail. Needs no server:
//! `cargo run --example notify`.

use std::time::Duration;

use onefold::messages::{IfLost, Message, Sending, Sink, async_trait};
use onefold::notify::{Mail, NotificationAct, Notify, OutboxState, Redrive};
use onefold::{BoxError, Onefold, Operation, Scope, Verdict, messages::Destination};

/// Stands for a mail server (`SmtpSink` of the feature `mail` speaks to a real one). It takes the mail, and its answer
/// is lost.
struct Printer;

#[async_trait]
impl Sink for Printer {
    fn if_lost(&self) -> IfLost {
        IfLost::Hold
    }

    async fn send(&self, message: &Message) -> Sending {
        println!("mail {}: {}", &message.id.as_str()[..8], String::from_utf8_lossy(&message.body));
        Sending::Unknown { reason: "the connection was lost behind the mail's end".into() }
    }
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> Result<(), BoxError> {
    let directory = tempfile::tempdir()?;
    let onefold = Onefold::sqlite(directory.path().join("shop.db"))?;
    let effect = "order-5001/ORDER_CONFIRMED";

    // The order was placed, and its payment was captured: each event thinks that Ann should hear of it.
    for event in ["PlaceOrder", "CapturePayment"] {
        let operation = Operation::new(event, "one mail for each order that is confirmed");
        let call = operation.call(Scope::new([("customer", "17")]), "order-5001", &())?;
        let made = onefold
            .atomic(call, move |tx| {
                let mail = Mail::new("Ann <ann@example.org>", "Your order 5001").text("Thank you.");
                Ok(Verdict::succeeded(Notify::by("mail").once(tx, effect, &mail)?))
            })
            .await?;
        println!("{event} made a mail: {}", made.value());
    }

    let relay = onefold.relay(vec![Destination::new("mail", Printer)]);
    let unknown = loop {
        let entry = onefold.notification(effect).await?.ok_or("the mail was made")?;
        if entry.state == OutboxState::Unknown {
            break entry;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    relay.stop(Duration::from_secs(10)).await;

    // It is not sent again by itself. A person looks, and says what is true. Pressed twice, it is done once.
    let act = NotificationAct {
        attempt: unknown.attempt,
        act: Redrive::Delivered,
        who: "ann".into(),
        reason: "the server's log has it".into(),
    };
    let first = onefold.resolve_notification(effect, act.clone()).await?;
    let second = onefold.resolve_notification(effect, act).await?;
    let state = onefold.notification(effect).await?.ok_or("it is kept")?.state;
    println!("{effect} is {state}");
    if (first, second, state) == (true, false, OutboxState::Delivered) {
        Ok(())
    } else {
        Err("settled once".into())
    }
}
