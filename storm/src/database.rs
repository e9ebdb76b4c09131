//! The databases of a storm: one row of the consumers' for each effect, and the relays' outbox.

use std::path::Path;

use onefold::Onefold;
use onefold::any::AnyStore;
use onefold::inbox::{InboxQuery, InboxStore};

/// Where they are.
#[derive(Clone)]
pub(crate) struct Databases {
    pub(crate) consumers: String,
    pub(crate) relays: String,
}

impl Databases {
    /// Two files of SQLite: one has one writer at a time.
    pub(crate) fn files(folder: &Path) -> Databases {
        let file = |name: &str| format!("sqlite:{}", folder.join(name).display());
        Databases { consumers: file("consumers.db"), relays: file("relays.db") }
    }

    /// One of PostgreSQL.
    pub(crate) fn server(url: &str) -> Databases {
        Databases { consumers: url.to_owned(), relays: url.to_owned() }
    }

    /// Makes the table of the business. Each effect has a place: in its key they are in the order of commits.
    pub(crate) async fn make(&self) -> Onefold<AnyStore> {
        let place = if self.consumers.starts_with("sqlite:") {
            "INTEGER PRIMARY KEY"
        } else {
            "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY"
        };
        let table =
            format!("CREATE TABLE effects (place {place}, number BIGINT NOT NULL, key TEXT NOT NULL)");
        let onefold = open(&self.consumers).await;
        onefold.execute(&table, &[]).await.expect("a table");
        onefold
    }
}

/// Opens one of them. Processes that are killed may have it locked for a moment.
pub(crate) async fn open(url: &str) -> Onefold<AnyStore> {
    Onefold::any(url).await.expect("the database opens")
}

/// The effects in the order of their places: number and key.
pub(crate) async fn effects(onefold: &Onefold<AnyStore>) -> Vec<(usize, String)> {
    let rows = onefold.query("SELECT number, key FROM effects ORDER BY place", &[]).await.expect("a query");
    rows.iter()
        .map(|row| {
            let number: i64 = row.get(0).expect("a number");
            (usize::try_from(number).expect("a number"), row.get(1).expect("a text"))
        })
        .collect()
}

/// How many deliveries were counted as duplicates.
pub(crate) async fn duplicates(onefold: &Onefold<AnyStore>) -> u64 {
    let (mut duplicates, mut cursor) = (0, None);
    loop {
        let query = InboxQuery { cursor, limit: 1000, ..InboxQuery::default() };
        let page = onefold.store().list_inbox(query).await.expect("the store works");
        duplicates += page.entries.iter().map(|entry| entry.duplicates).sum::<u64>();
        cursor = page.next_cursor;
        if cursor.is_none() {
            return duplicates;
        }
    }
}
