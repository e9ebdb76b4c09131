//! SQL in the store of a test, whichever it is, beside the product.

use std::time::Duration;

use rusqlite::Connection;
use rusqlite::types::ValueRef;

use crate::postgres::{ask_at, execute_at};

/// How long another writer of a file is waited for.
const BUSY: Duration = Duration::from_secs(20);

/// Carries out statements in the store of this address (`sqlite:PATH`, else a server's), in one transaction.
///
/// # Panics
/// When they are refused.
pub async fn execute(url: &str, sql: &str) {
    match url.strip_prefix("sqlite:") {
        None => execute_at(url, sql).await,
        Some(path) => {
            let done = open(path).and_then(|mut connection| {
                let transaction = connection.transaction()?;
                transaction.execute_batch(sql)?;
                transaction.commit()
            });
            done.unwrap_or_else(|error| panic!("{sql}: {error}"));
        }
    }
}

/// The first column of the first row, as text.
///
/// # Panics
/// When the statement is refused, or there is no row.
pub async fn ask(url: &str, sql: &str) -> String {
    match url.strip_prefix("sqlite:") {
        None => ask_at(url, sql).await,
        Some(path) => {
            let asked = open(path).and_then(|connection| {
                connection.query_row(sql, [], |row| {
                    Ok(match row.get_ref(0)? {
                        ValueRef::Integer(number) => number.to_string(),
                        value => value.as_str()?.to_owned(),
                    })
                })
            });
            asked.unwrap_or_else(|error| panic!("{sql}: {error}"))
        }
    }
}

fn open(path: &str) -> rusqlite::Result<Connection> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(BUSY)?;
    Ok(connection)
}
