//! A projection that a build has spoilt, rebuilt by the next one.

use std::sync::Arc;

use onefold_core::InboxState;
use onefold_messages::{Handled, HandlerError, Handling, InboxSettings, Rerun};
use onefold_store::{Applied, InboxQuery, NewPermit};
use onefold_store_postgres::{PostgresTx, PostgresWork};
use onefold_store_sqlite::{SqliteTx, SqliteWork};
use onefold_testkit::{Store, on_each_store};

use crate::rig::{Consumes, Shop, message, settings};

on_each_store!(
    a_rebuild_leaves_what_a_sound_build_would_have_left,
    a_permit_for_a_damaged_build_does_not_undo_what_a_sound_one_has_brought_since,
    a_version_that_an_older_release_has_written_stands_in_every_round,
);

const DONE: Handling = Handling::Done(InboxState::Processed);
const TABLE: &str = "CREATE TABLE prices (product text PRIMARY KEY, price bigint, changes bigint)";
const CHANGE: &str = "INSERT INTO prices AS p VALUES ('lamp', $1, 1)
    ON CONFLICT (product) DO UPDATE SET price = $1, changes = p.changes + 1";

/// The version and the price that a message says. Build 41 takes prices for cents.
fn said(body: &[u8], build: &str) -> (i64, i64) {
    let body = std::str::from_utf8(body).expect("tests send texts");
    let (version, price) = body.split_once(' ').expect("tests say both");
    let (version, price): (i64, i64) = (version.parse().unwrap(), price.parse().unwrap());
    (version, if build == "41" { price / 100 } else { price })
}

/// The handler keeps the latest price and counts the changes.
fn prices(shop: &Shop, build: &'static str) -> Arc<dyn Consumes> {
    shop.consumes(
        InboxSettings { keep_bodies: true, ..settings(build) },
        move |message, word| {
            SqliteWork::new(move |tx: &mut SqliteTx<'_>| {
                let (version, price) = said(&message.body, build);
                if tx.apply_if_newer("lamp", version).unwrap() == Applied::Newer {
                    tx.execute(CHANGE, [price]).unwrap();
                }
                word.of(Ok(Handled::Done))
            })
        },
        move |message, word| {
            PostgresWork::new(move |tx: &mut PostgresTx| {
                let ((version, price), word) = (said(&message.body, build), word.clone());
                Box::pin(async move { word.of(change(tx, version, price).await) })
            })
        },
    )
}

async fn change(tx: &mut PostgresTx, version: i64, price: i64) -> Result<Handled, HandlerError> {
    if tx.apply_if_newer("lamp", version).await? == Applied::Newer {
        tx.execute(CHANGE, &[&price]).await?;
    }
    Ok(Handled::Done)
}

/// A shop with prices as build 41 has left them.
async fn spoilt(store: &Store) -> Shop {
    let shop = Shop::open(store).await;
    shop.execute(TABLE).await;
    let damaged = prices(&shop, "41");
    for (id, body) in [("evt-1", "1 1000"), ("evt-2", "2 2000"), ("evt-3", "3 3000")] {
        assert_eq!(damaged.handle(message(id, body)).await, DONE);
    }
    assert_eq!(lamp(&shop).await, "30 3");
    shop
}

/// The price, and how often it was changed.
async fn lamp(shop: &Shop) -> String {
    shop.ask("SELECT price || ' ' || changes FROM prices").await
}

async fn grant(shop: &Shop, damaged: Option<&str>) -> u32 {
    let permit = NewPermit {
        consumer: "loyalty".into(),
        source: Some("shop".into()),
        damaged: damaged.map(Into::into),
        handler: None,
        message: None,
        who: "ann".into(),
        reason: "prices in cents".into(),
    };
    shop.people().grant(permit).await.unwrap().number
}

async fn a_rebuild_leaves_what_a_sound_build_would_have_left(store: &Store) {
    let shop = spoilt(store).await;
    shop.execute("DELETE FROM prices").await;
    let round = grant(&shop, None).await;
    assert_eq!(prices(&shop, "42").rerun().await.unwrap(), Rerun { handled: 3, ..Rerun::default() });
    assert_eq!(lamp(&shop).await, "3000 3");
    let states: Vec<_> = shop.entries().await.iter().map(|entry| (entry.round, entry.state)).collect();
    let processed = InboxState::Processed;
    assert_eq!(states, [0, 0, 0, round, round, round].map(|round| (round, processed)), "none came too late");
}

async fn a_permit_for_a_damaged_build_does_not_undo_what_a_sound_one_has_brought_since(store: &Store) {
    let shop = spoilt(store).await;
    let mended = prices(&shop, "42");
    assert_eq!(mended.handle(message("evt-4", "4 4000")).await, DONE);
    grant(&shop, Some("41")).await;
    assert_eq!(mended.rerun().await.unwrap().handled, 3);
    assert_eq!(lamp(&shop).await, "4000 4");
    let superseded = InboxQuery { state: Some(InboxState::Superseded), ..InboxQuery::default() };
    assert_eq!(shop.listed(superseded).await.len(), 3);
}

/// It knows the version alone, and leaves standing who brought the one before.
async fn a_version_that_an_older_release_has_written_stands_in_every_round(store: &Store) {
    let shop = spoilt(store).await;
    let projections = if store.database().is_some() { "onefold.projections" } else { "onefold_projections" };
    shop.execute(&format!("UPDATE {projections} SET version = 4")).await;
    grant(&shop, None).await;
    assert_eq!(prices(&shop, "42").rerun().await.unwrap().handled, 3);
    assert_eq!(lamp(&shop).await, "30 3", "nobody knows that a message would bring version 4 again");
    let superseded = InboxQuery { state: Some(InboxState::Superseded), ..InboxQuery::default() };
    assert_eq!(shop.listed(superseded).await.len(), 3);
}
