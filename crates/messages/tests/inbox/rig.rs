//! A shop's file with an inbox, and consumers whose handler does as it is told and writes one row for each message.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use onefold_core::retry::Backoff;
use onefold_core::{InboxEntry, Key, StoreTime};
use onefold_engine::{Engine, Limits};
use onefold_messages::{Consumer, Handled, Handling, Inbound, Inbox, InboxSettings, Messages};
use onefold_store::clock::ManualClock;
use onefold_store::{InboxQuery, InboxStore};
use onefold_store_sqlite::{FileUse, Options, SqliteStore, SqliteTx, SqliteWork};
use onefold_testkit::wait;
use parking_lot::Mutex;

/// The time of the clock at the start.
pub const START: i64 = 1_700_000_000_000;
pub const DAY: Duration = Duration::from_secs(24 * 3600);

/// What a handler does after it has written its row.
pub enum Does {
    Says(Handled),
    Fails(&'static str),
    Panics,
}

pub struct Shop {
    pub store: Arc<SqliteStore>,
    pub clock: Arc<ManualClock>,
    path: PathBuf,
    _directory: tempfile::TempDir,
}

/// What the handlers of a consumer will do, in this order, before they do well.
pub type Script = Arc<Mutex<VecDeque<Does>>>;

impl Shop {
    pub fn open() -> Shop {
        let directory = tempfile::tempdir().expect("a temporary directory can be made");
        let path = directory.path().join("shop.db");
        let clock = Arc::new(ManualClock::at(StoreTime(START)));
        let options = Options { clock: clock.clone(), file_use: FileUse::Shared, ..Options::default() };
        let store = Arc::new(SqliteStore::open(&path, options).expect("a new store opens"));
        let effects = "CREATE TABLE effects (message TEXT, body TEXT)";
        rusqlite::Connection::open(&path).and_then(|shop| shop.execute_batch(effects)).expect("a table");
        Shop { store, clock, path, _directory: directory }
    }

    /// A consumer `loyalty` of this build.
    pub fn consumer(&self, build: &str) -> Consumer<SqliteStore> {
        self.scripted(settings(build), []).0
    }

    pub fn scripted(
        &self,
        settings: InboxSettings,
        does: impl IntoIterator<Item = Does>,
    ) -> (Consumer<SqliteStore>, Script) {
        let script: Script = Arc::new(Mutex::new(does.into_iter().collect()));
        let engine = Engine::new(self.store.clone(), "library", Limits::default());
        let inbox = Inbox::new(&engine, self.store.clone(), settings);
        let told = script.clone();
        let consumer = Consumer::new(inbox, move |message, word| {
            let script = told.clone();
            SqliteWork::new(move |tx: &mut SqliteTx<'_>| {
                let body = String::from_utf8(message.body.clone()).expect("tests send texts");
                let row = (message.id.as_str(), body);
                tx.execute("INSERT INTO effects VALUES (?1, ?2)", row).expect("a row");
                let next = script.lock().pop_front();
                word.of(match next {
                    None => Ok(Handled::Done),
                    Some(Does::Says(handled)) => Ok(handled),
                    Some(Does::Fails(why)) => Err(why.into()),
                    Some(Does::Panics) => panic!("as the test wants it"),
                })
            })
        });
        (consumer, script)
    }

    /// A connection of the service's own.
    pub fn connection(&self) -> rusqlite::Connection {
        rusqlite::Connection::open(&self.path).expect("the shop opens")
    }

    pub fn execute(&self, sql: &str) {
        self.connection().execute_batch(sql).expect("the shop is written");
    }

    /// Keeps everybody from writing until it is dropped.
    pub fn lock(&self) -> rusqlite::Connection {
        let lock = self.connection();
        lock.execute_batch("BEGIN IMMEDIATE").expect("nobody else writes");
        lock
    }

    /// Spoils the body that is kept of a message.
    pub fn spoil(&self, message: &str) {
        let shop = rusqlite::Connection::open(&self.path).expect("the shop opens");
        let spoil = "UPDATE onefold_inbox SET kept = x'00' WHERE message = ?1";
        assert_eq!(shop.execute(spoil, [message]).expect("the shop is written"), 1);
    }

    /// What people do.
    pub fn people(&self) -> Messages {
        Messages::new(self.store.clone())
    }

    /// The bodies whose effects are committed, in order.
    pub fn effects(&self) -> Vec<String> {
        let shop = rusqlite::Connection::open(&self.path).expect("the shop opens");
        let mut statement = shop.prepare("SELECT body FROM effects ORDER BY rowid").expect("a query");
        let rows = statement.query_map([], |row| row.get(0)).expect("rows");
        rows.collect::<Result<_, _>>().expect("texts")
    }

    /// Every entry, the oldest first.
    pub async fn entries(&self) -> Vec<InboxEntry> {
        self.listed(InboxQuery::default()).await
    }

    pub async fn listed(&self, query: InboxQuery) -> Vec<InboxEntry> {
        self.store.list_inbox(InboxQuery { limit: 1000, ..query }).await.expect("the store works").entries
    }

    /// Waits until these effects are there.
    pub async fn comes_to(&self, effects: &[&str]) {
        wait::until("the effects are there", || self.effects() == effects).await;
    }
}

/// Parked after three failures, without long pauses.
pub fn settings(build: &str) -> InboxSettings {
    InboxSettings {
        build: build.into(),
        park_after: Some(3),
        backoff: Backoff { first: Duration::from_millis(5), max: Duration::from_millis(20) },
        ..InboxSettings::new("loyalty")
    }
}

/// A message of the shop's.
pub fn message(id: &str, body: &str) -> Inbound {
    Inbound::new("shop", id, body)
}

/// One without an id.
pub fn nameless(body: &str) -> Inbound {
    Inbound { id: None, ..message("x", body) }
}

pub fn key(id: &str) -> Key {
    Key::new(id).expect("tests use valid keys")
}

pub fn is_again(handling: &Handling) -> bool {
    matches!(handling, Handling::Again { .. })
}
