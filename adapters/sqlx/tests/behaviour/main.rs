//! The boundary in transactions of sqlx, on a real PostgreSQL.

#[path = "../../examples/sqlx.rs"]
#[allow(dead_code, reason = "its main reads the command line")]
mod example;

mod atomic;
mod borrowed;
mod messages;
mod shop;
