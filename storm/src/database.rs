//! The consumers' database: one row for each effect.

use std::path::Path;
use std::time::Duration;

use onefold::Onefold;
use onefold::inbox::{InboxQuery, InboxStore};
use rusqlite::Connection;

pub(crate) const CONSUMERS: &str = "consumers.db";
pub(crate) const RELAYS: &str = "relays.db";

/// Opens a database of the storm's.
pub(crate) fn open(folder: &Path, file: &str) -> Onefold {
    Onefold::sqlite(folder.join(file)).expect("the database opens")
}

fn connect(folder: &Path) -> Connection {
    let connection = Connection::open(folder.join(CONSUMERS)).expect("the database opens");
    connection.busy_timeout(Duration::from_secs(10)).expect("a time");
    connection
}

/// Makes the table of the business.
pub(crate) fn make(folder: &Path) {
    drop(open(folder, CONSUMERS));
    connect(folder).execute_batch("CREATE TABLE effects (number INTEGER, key TEXT)").expect("a table");
}

/// The effects in the order of their commits: number and key.
pub(crate) fn effects(folder: &Path) -> Vec<(usize, String)> {
    let connection = connect(folder);
    let mut statement =
        connection.prepare("SELECT number, key FROM effects ORDER BY rowid").expect("a query");
    let row = |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(0)?, row.get(1)?));
    let rows = statement.query_map([], row).expect("rows");
    rows.map(|row| row.expect("a row"))
        .map(|(number, key): (i64, String)| (usize::try_from(number).expect("a number"), key))
        .collect()
}

/// How many deliveries were counted as duplicates.
pub(crate) async fn duplicates(onefold: &Onefold) -> u64 {
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
