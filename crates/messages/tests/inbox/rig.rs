//! A shop with an inbox, in a file or a database, and consumers whose handler does as it is told and writes one row for
//! each message.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use onefold_core::retry::Backoff;
use onefold_core::{InboxEntry, Key, StoreTime};
use onefold_engine::{Engine, Limits};
use onefold_messages::{
    Consumer, Handled, HandlerError, Handling, Inbound, Inbox, InboxSettings, Incoming, MessageStore,
    Messages, Receive, Rerun, Word,
};
use onefold_store::clock::ManualClock;
use onefold_store::{ConsumeStore, InboxQuery, StoreError};
use onefold_store_postgres::{Address, PostgresStore, PostgresTx, PostgresWork};
use onefold_store_sqlite::{FileUse, Options, SqliteStore, SqliteTx, SqliteWork};
use onefold_testkit::{Store, sql, wait};
use parking_lot::Mutex;

/// The time of the clock at the start.
pub const START: i64 = 1_700_000_000_000;
pub const DAY: Duration = Duration::from_secs(24 * 3600);

const TABLE_OF_FILE: &str = "CREATE TABLE effects (number INTEGER PRIMARY KEY, message TEXT, body TEXT)";
const TABLE_OF_SERVER: &str =
    "CREATE TABLE effects (number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, message text, body text)";
const EFFECTS_OF_FILE: &str =
    "SELECT coalesce(group_concat(body, ' '), '') FROM (SELECT body FROM effects ORDER BY number)";
const EFFECTS_OF_SERVER: &str = "SELECT coalesce(string_agg(body, ' ' ORDER BY number), '') FROM effects";

/// What a handler does after it has written its row.
pub enum Does {
    Says(Handled),
    Fails(&'static str),
    Panics,
}

pub struct Shop {
    pub store: Arc<dyn MessageStore>,
    pub clock: Arc<ManualClock>,
    url: String,
    opened: Opened,
}

enum Opened {
    Sqlite(Arc<SqliteStore>),
    Postgresql(Arc<PostgresStore>),
}

/// What the handlers of a consumer will do, in this order, before they do well.
pub type Script = Arc<Mutex<VecDeque<Does>>>;

/// A consumer, whichever store it is over.
#[async_trait]
pub trait Consumes: Receive {
    async fn handle(&self, inbound: Inbound) -> Handling;
    async fn rerun(&self) -> Result<Rerun, StoreError>;
    async fn flush(&self);
}

#[async_trait]
impl<S: ConsumeStore + 'static> Consumes for Consumer<S> {
    async fn handle(&self, inbound: Inbound) -> Handling {
        Consumer::handle(self, inbound).await
    }

    async fn rerun(&self) -> Result<Rerun, StoreError> {
        Consumer::rerun(self).await
    }

    async fn flush(&self) {
        self.inbox().flush().await;
    }
}

impl Shop {
    pub async fn open(place: &Store) -> Shop {
        Shop::open_at(place.url()).await
    }

    pub async fn open_at(url: &str) -> Shop {
        let shop = Shop::reopen(url).await;
        let table = match &shop.opened {
            Opened::Sqlite(_) => TABLE_OF_FILE,
            Opened::Postgresql(_) => TABLE_OF_SERVER,
        };
        sql::execute(url, table).await;
        shop
    }

    /// One whose tables are there.
    pub async fn reopen(url: &str) -> Shop {
        let clock = Arc::new(ManualClock::at(StoreTime(START)));
        let opened = match url.strip_prefix("sqlite:") {
            Some(path) => {
                let options =
                    Options { clock: clock.clone(), file_use: FileUse::Shared, ..Options::default() };
                Opened::Sqlite(Arc::new(
                    SqliteStore::open(Path::new(path), options).expect("a new store opens"),
                ))
            }
            None => {
                let options =
                    onefold_store_postgres::Options { test_clock: Some(clock.clone()), ..Default::default() };
                let address = Address::parse(url).expect("an address");
                let store = PostgresStore::open(&address, options).await.expect("a new store opens");
                Opened::Postgresql(Arc::new(store))
            }
        };
        let store: Arc<dyn MessageStore> = match &opened {
            Opened::Sqlite(store) => store.clone(),
            Opened::Postgresql(store) => store.clone(),
        };
        Shop { store, clock, url: url.to_owned(), opened }
    }

    /// A consumer `loyalty` of this build.
    pub fn consumer(&self, build: &str) -> Arc<dyn Consumes> {
        self.scripted(settings(build), []).0
    }

    pub fn scripted(
        &self,
        settings: InboxSettings,
        does: impl IntoIterator<Item = Does>,
    ) -> (Arc<dyn Consumes>, Script) {
        let script: Script = Arc::new(Mutex::new(does.into_iter().collect()));
        let (of_file, of_server) = (script.clone(), script.clone());
        let consumer = self.consumes(
            settings,
            move |message, word| {
                let script = of_file.clone();
                SqliteWork::new(move |tx: &mut SqliteTx<'_>| {
                    let row = (message.id.as_str(), text(&message.body));
                    tx.execute("INSERT INTO effects (message, body) VALUES (?1, ?2)", row).expect("a row");
                    word.of(does_next(&script))
                })
            },
            move |message, word| {
                let script = of_server.clone();
                PostgresWork::new(move |tx: &mut PostgresTx| {
                    let (script, message, word) = (script.clone(), message.clone(), word.clone());
                    Box::pin(async move {
                        let insert = "INSERT INTO effects (message, body) VALUES ($1, $2)";
                        let inserted =
                            tx.execute(insert, &[&message.id.as_str(), &text(&message.body)]).await;
                        word.of(match inserted {
                            Ok(_) => does_next(&script),
                            Err(error) => Err(error.into()),
                        })
                    })
                })
            },
        );
        (consumer, script)
    }

    /// A consumer with a handler for each kind of store.
    pub fn consumes(
        &self,
        settings: InboxSettings,
        of_file: impl Fn(Arc<Incoming>, Word) -> SqliteWork + Send + Sync + 'static,
        of_server: impl Fn(Arc<Incoming>, Word) -> PostgresWork + Send + Sync + 'static,
    ) -> Arc<dyn Consumes> {
        match &self.opened {
            Opened::Sqlite(store) => Arc::new(Consumer::new(inbox(store, settings), of_file)),
            Opened::Postgresql(store) => Arc::new(Consumer::new(inbox(store, settings), of_server)),
        }
    }

    /// Carries out SQL beside the store.
    pub async fn execute(&self, sql: &str) {
        sql::execute(&self.url, sql).await;
    }

    /// The first column of the first row, as text.
    pub async fn ask(&self, sql: &str) -> String {
        sql::ask(&self.url, sql).await
    }

    /// The file's store.
    pub fn sqlite(&self) -> &SqliteStore {
        match &self.opened {
            Opened::Sqlite(store) => store,
            Opened::Postgresql(_) => panic!("it is a database"),
        }
    }

    /// Keeps everybody from writing until it is dropped.
    pub fn lock(&self) -> rusqlite::Connection {
        let path = self.url.strip_prefix("sqlite:").expect("a file");
        let lock = rusqlite::Connection::open(path).expect("the shop opens");
        lock.execute_batch("BEGIN IMMEDIATE").expect("nobody else writes");
        lock
    }

    /// Spoils the body that is kept of a message.
    pub async fn spoil(&self, message: &str) {
        let (table, message, byte) = match &self.opened {
            Opened::Sqlite(_) => ("onefold_inbox", format!("'{message}'"), "x'00'"),
            Opened::Postgresql(_) => ("onefold.inbox", format!("'{message}'::bytea"), r"'\x00'::bytea"),
        };
        let kept = format!("SELECT count(*) FROM {table} WHERE message = {message} AND kept IS NOT NULL");
        assert_eq!(self.ask(&kept).await, "1");
        self.execute(&format!("UPDATE {table} SET kept = {byte} WHERE message = {message}")).await;
    }

    /// What people do.
    pub fn people(&self) -> Messages {
        Messages::new(self.store.clone())
    }

    /// The bodies whose effects are committed, in order.
    pub async fn effects(&self) -> Vec<String> {
        let bodies = match &self.opened {
            Opened::Sqlite(_) => EFFECTS_OF_FILE,
            Opened::Postgresql(_) => EFFECTS_OF_SERVER,
        };
        self.ask(bodies).await.split_whitespace().map(str::to_owned).collect()
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
        let there = async || self.effects().await == effects;
        wait::until_within(wait::DEADLINE, "the effects are there", there).await;
    }
}

fn inbox<S: ConsumeStore + 'static>(store: &Arc<S>, settings: InboxSettings) -> Inbox<S> {
    let engine = Engine::new(store.clone(), "library", Limits::default());
    Inbox::new(&engine, store.clone(), settings)
}

fn text(body: &[u8]) -> String {
    String::from_utf8(body.to_vec()).expect("tests send texts")
}

fn does_next(script: &Script) -> Result<Handled, HandlerError> {
    match script.lock().pop_front() {
        None => Ok(Handled::Done),
        Some(Does::Says(handled)) => Ok(handled),
        Some(Does::Fails(why)) => Err(why.into()),
        Some(Does::Panics) => panic!("as the test wants it"),
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
