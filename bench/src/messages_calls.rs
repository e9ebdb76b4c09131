//! What a service does with messages: an order with and without a message about it, and the mark of one that came in.

use anyhow::Result;
use onefold_core::contract::Retention;
use onefold_core::{FingerprintBuilder, Key, Message, MessageIdentity};
use onefold_store::{ConsumeStore, Ended, Mark};
use onefold_store_postgres::PostgresWork;
use onefold_store_sqlite::SqliteWork;

use crate::library_calls::{Order, placed};

/// The destination of every message here.
pub(crate) const DESTINATION: &str = "shop";

const INSERT: &str = "INSERT INTO orders (id, basket) VALUES ($1, $2)";
pub(crate) const INSERT_SQLITE: &str = "INSERT INTO orders (id, basket) VALUES (?1, ?2)";

/// A message of a usual size.
pub(crate) fn message(id: &str) -> Result<Message> {
    Ok(Message {
        id: Key::new(id)?,
        destination: DESTINATION.into(),
        address: "bench.orders".into(),
        ordering_key: None,
        headers: vec![("content-type".into(), "application/json".into())],
        body: vec![b'm'; 300],
    })
}

pub(crate) fn mark<S: ConsumeStore>(order: &Order, store: &S) -> Result<Mark> {
    let message = Key::new(order.id.clone())?;
    let identity = MessageIdentity { consumer: "loyalty".into(), source: DESTINATION.into(), message };
    let secret = store.identity_key();
    let fingerprint = FingerprintBuilder::new(secret).part("body", order.basket.as_bytes()).finish();
    Ok(Mark {
        id: identity.id(secret),
        round: 0,
        identity,
        handler: "1".into(),
        fingerprint,
        retention: Retention::Forever,
        too_old_at: None,
        body: None,
        versioned: None,
    })
}

pub(crate) fn postgres_insert(order: &Order) -> PostgresWork {
    let order = order.clone();
    PostgresWork::new(move |tx| {
        let order = order.clone();
        Box::pin(async move {
            match tx.execute(INSERT, &[&order.id, &order.basket]).await {
                Ok(_) => placed(),
                Err(_) => Ended::NotDone,
            }
        })
    })
}

pub(crate) fn postgres_insert_and_tell(order: &Order) -> PostgresWork {
    let order = order.clone();
    PostgresWork::new(move |tx| {
        let order = order.clone();
        Box::pin(async move {
            let Ok(message) = message(&order.id) else { return Ended::NotDone };
            let told = tx.execute(INSERT, &[&order.id, &order.basket]).await.is_ok()
                && tx.enqueue(&message).await.unwrap_or(false);
            if told { placed() } else { Ended::NotDone }
        })
    })
}

pub(crate) fn sqlite_insert(order: &Order) -> SqliteWork {
    let order = order.clone();
    SqliteWork::new(move |tx| match tx.execute(INSERT_SQLITE, [order.id.as_str(), order.basket]) {
        Ok(_) => placed(),
        Err(_) => Ended::NotDone,
    })
}

pub(crate) fn sqlite_insert_and_tell(order: &Order) -> SqliteWork {
    let order = order.clone();
    SqliteWork::new(move |tx| {
        let told = tx.execute(INSERT_SQLITE, [order.id.as_str(), order.basket]).is_ok()
            && message(&order.id).is_ok_and(|message| tx.enqueue(&message).unwrap_or(false));
        if told { placed() } else { Ended::NotDone }
    })
}
