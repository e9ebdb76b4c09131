//! The inbox: a message that is delivered several times is handled once, in one commit with the mark that says so.
//! Needs no server: `cargo run --example inbox`.

use std::time::Duration;

use onefold::inbox::{Handled, Handling, Inbound, InboxSettings};
use onefold::messages::Message;
use onefold::{BoxError, Key, Onefold};
use rusqlite::Connection;

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> Result<(), BoxError> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("shop.db");
    let onefold = Onefold::sqlite(&path)?;
    let shop = Connection::open(&path)?;
    shop.execute_batch("CREATE TABLE points (customer TEXT, points INTEGER)")?;

    let settings = InboxSettings { build: "41".into(), ..InboxSettings::new("loyalty") };
    let consumer = onefold.inbox(settings).consumer(|tx, message| {
        let customer = std::str::from_utf8(&message.body)?;
        let known: i64 =
            tx.query_row("SELECT count(*) FROM points WHERE customer = ?1", [customer], |row| row.get(0))?;
        if customer == "carl" && known == 0 {
            // Nothing is done, and no try is counted.
            return Ok(Handled::not_yet(Duration::from_secs(60)));
        }
        tx.execute("INSERT INTO points VALUES (?1, 10)", [customer])?;
        // Two different events that ask for one e-mail find one message.
        let welcome = Message {
            id: Key::new("welcome")?,
            destination: "mail".into(),
            address: format!("{customer}@example.org"),
            ordering_key: None,
            headers: Vec::new(),
            body: b"Welcome to the club.".to_vec(),
        };
        tx.enqueue_once(&format!("{customer}/WELCOME"), welcome)?;
        Ok(Handled::Done)
    });

    // A broker's adapter would hand these over: `NatsConsumer::new(client, subscription, Arc::new(consumer))`.
    let deliveries = [
        ("evt_1", "ann"),
        ("evt_1", "ann"),  // delivered again
        ("evt_2", "ann"),  // another order of hers: points again, no second welcome
        ("evt_1", "bob"),  // not what evt_1 was: kept apart for a person
        ("evt_3", "carl"), // not yet
    ];
    let mut answers = Vec::new();
    for (id, customer) in deliveries {
        let answer = consumer.handle(Inbound::new("orders", id, customer)).await;
        println!("{id} about {customer}: {answer:?}");
        answers.push(answer);
    }

    let points: i64 = shop.query_row("SELECT sum(points) FROM points", [], |row| row.get(0))?;
    let mails: i64 = shop.query_row("SELECT count(*) FROM onefold_outbox", [], |row| row.get(0))?;
    println!("points: {points}, welcomes: {mails}");
    let as_expected = matches!(
        answers[..],
        [
            Handling::Done(_),
            Handling::Duplicate,
            Handling::Done(_),
            Handling::Conflict,
            Handling::Again { .. }
        ]
    );
    if as_expected && (points, mails) == (20, 1) { Ok(()) } else { Err("other counts were expected".into()) }
}
