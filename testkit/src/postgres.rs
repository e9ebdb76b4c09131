//! PostgreSQL for tests: a server of the environment (`ONEFOLD_POSTGRES_URL`), or one that is started from an
//! installed binary; and in it a database for each test.
//!
//! The shared server flushes nothing (`fsync = off`): it outlives no crash of the host. A test about durability starts
//! one of its own. A test that fails keeps its database as long as the server lives.

mod database;
mod server;

use std::sync::OnceLock;

pub use database::{Database, ask_at, execute_at};
pub use server::PostgresServer;

use crate::servers;

/// Names a server that tests may use: they make databases of their own in it.
pub const URL_VARIABLE: &str = "ONEFOLD_POSTGRES_URL";

/// The isolation of a database's transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// The server's default.
    ReadCommitted,
    /// Snapshots.
    RepeatableRead,
    /// As if one after the other.
    Serializable,
}

/// The address of the shared server with its administrator and no database, or why there is none.
pub fn shared() -> Result<String, String> {
    static SHARED: OnceLock<Result<String, String>> = OnceLock::new();
    SHARED
        .get_or_init(|| match std::env::var(URL_VARIABLE) {
            Ok(url) => Ok(without_database(&url)),
            Err(_) => servers::shared("postgres", |folder| {
                let server = PostgresServer::start_in(folder, "fsync = off\n")?;
                let url = server.url().to_owned();
                servers::guard(server.process.id(), &servers::run_folder())?;
                // The guardian ends it.
                std::mem::forget(server);
                Ok(url)
            }),
        })
        .clone()
}

fn without_database(url: &str) -> String {
    let (front, query) = url.split_once('?').map_or((url, ""), |(front, query)| (front, query));
    let end = front.find("://").map_or(0, |at| at + 3);
    let front = front[end..].find('/').map_or(front, |at| &front[..end + at]);
    if query.is_empty() { front.to_owned() } else { format!("{front}?{query}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_loses_its_database_and_keeps_its_parameters() {
        assert_eq!(
            without_database("postgres://u:p@h:1/d?sslmode=disable"),
            "postgres://u:p@h:1?sslmode=disable"
        );
        assert_eq!(without_database("postgres://u@h"), "postgres://u@h");
    }
}
