//! A projection that a build has spoilt, rebuilt by the next one.

use std::path::PathBuf;
use std::sync::Arc;

use onefold_core::InboxState;
use onefold_engine::{Engine, Limits};
use onefold_messages::{Consumer, Handled, Handling, Inbox, InboxSettings, Messages, Rerun};
use onefold_store::{Applied, InboxQuery, InboxStore, NewPermit};
use onefold_store_sqlite::{FileUse, Options, SqliteStore, SqliteTx, SqliteWork};

use crate::rig::{message, settings};

struct Shop {
    store: Arc<SqliteStore>,
    path: PathBuf,
    _directory: tempfile::TempDir,
}

impl Shop {
    fn connection(&self) -> rusqlite::Connection {
        rusqlite::Connection::open(&self.path).unwrap()
    }

    async fn entries(&self, state: Option<InboxState>) -> Vec<(u32, InboxState)> {
        let query = InboxQuery { state, limit: 100, ..InboxQuery::default() };
        let page = self.store.list_inbox(query).await.unwrap();
        page.entries.into_iter().map(|entry| (entry.round, entry.state)).collect()
    }
}

/// A message says a version and a price, and the handler keeps the latest one and counts the changes. Build 41 takes
/// prices for cents.
fn prices(shop: &Shop, build: &'static str) -> Consumer<SqliteStore> {
    let engine = Engine::new(shop.store.clone(), "library", Limits::default());
    let settings = InboxSettings { keep_bodies: true, ..settings(build) };
    let inbox = Inbox::new(&engine, shop.store.clone(), settings);
    Consumer::new(inbox, move |message, word| {
        SqliteWork::new(move |tx: &mut SqliteTx<'_>| {
            let body = std::str::from_utf8(&message.body).expect("tests send texts");
            let (version, price) = body.split_once(' ').expect("tests say both");
            let (version, price): (i64, i64) = (version.parse().unwrap(), price.parse().unwrap());
            if tx.apply_if_newer("lamp", version).unwrap() == Applied::Newer {
                let price = if build == "41" { price / 100 } else { price };
                let sql = "INSERT INTO prices VALUES ('lamp', ?1, 1)
                    ON CONFLICT (product) DO UPDATE SET price = ?1, changes = changes + 1";
                tx.execute(sql, [price]).unwrap();
            }
            word.of(Ok(Handled::Done))
        })
    })
}

/// A shop with prices as build 41 has left them.
async fn spoilt() -> Shop {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("shop.db");
    let options = Options { file_use: FileUse::Shared, ..Options::default() };
    let store = Arc::new(SqliteStore::open(&path, options).unwrap());
    let shop = Shop { store, path, _directory: directory };
    let table = "CREATE TABLE prices (product TEXT PRIMARY KEY, price INTEGER, changes INTEGER)";
    shop.connection().execute_batch(table).unwrap();
    let damaged = prices(&shop, "41");
    for (id, body) in [("evt-1", "1 1000"), ("evt-2", "2 2000"), ("evt-3", "3 3000")] {
        assert_eq!(damaged.handle(message(id, body)).await, Handling::Done(InboxState::Processed));
    }
    assert_eq!(lamp(&shop), (30, 3));
    shop
}

fn lamp(shop: &Shop) -> (i64, i64) {
    let shop = shop.connection();
    shop.query_row("SELECT price, changes FROM prices", [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap()
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
    Messages::new(shop.store.clone()).grant(permit).await.unwrap().number
}

#[tokio::test]
async fn a_rebuild_leaves_what_a_sound_build_would_have_left() {
    let shop = spoilt().await;
    shop.connection().execute_batch("DELETE FROM prices").unwrap();
    let round = grant(&shop, None).await;
    assert_eq!(prices(&shop, "42").rerun().await.unwrap(), Rerun { handled: 3, ..Rerun::default() });
    assert_eq!(lamp(&shop), (3000, 3));
    let states = shop.entries(None).await;
    let processed = InboxState::Processed;
    assert_eq!(states, [0, 0, 0, round, round, round].map(|round| (round, processed)), "none came too late");
}

#[tokio::test]
async fn a_permit_for_a_damaged_build_does_not_undo_what_a_sound_one_has_brought_since() {
    let shop = spoilt().await;
    let mended = prices(&shop, "42");
    assert_eq!(mended.handle(message("evt-4", "4 4000")).await, Handling::Done(InboxState::Processed));
    grant(&shop, Some("41")).await;
    assert_eq!(mended.rerun().await.unwrap().handled, 3);
    assert_eq!(lamp(&shop), (4000, 4));
    assert_eq!(shop.entries(Some(InboxState::Superseded)).await.len(), 3);
}
