//! The servers that tests share; what is missing here is skipped.

use bfstore::ground::{Databases, Events, Ground};
use onefold_testkit::{postgres, skipped::skipped};

/// Databases on the PostgreSQL server of this run; `None` after saying that `what` is skipped.
pub fn on_postgres(what: &str, events: Events) -> Option<Ground> {
    let server = postgres::shared().map_err(|why| skipped(what, &why)).ok()?;
    Some(Ground { databases: Databases::Postgres(server), events, ..Ground::default() })
}
