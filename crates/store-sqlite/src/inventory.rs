//! What stands in the store, for `onefold store stats`: counted by walking over it, on a reader.

use onefold_core::State;
use onefold_store::{Inventory, Judge};
use rusqlite::Connection;

use crate::row::state_of;
use crate::survey;

/// A record without an outcome is processing (1).
const BY_STATE: &str = "SELECT coalesce(u.state, 1), count(o.scope), count(*) - count(o.scope)
    FROM onefold_operations o LEFT JOIN onefold_outcomes u ON u.seq = o.seq GROUP BY 1 ORDER BY 1";
/// Each table with its indexes.
const BYTES: &str = "SELECT s.tbl_name, sum(d.pgsize) FROM dbstat d JOIN sqlite_schema s ON s.name = d.name
    WHERE d.aggregate GROUP BY s.tbl_name ORDER BY 2 DESC, 1";

/// Counts what stands.
pub(crate) fn run(connection: &Connection, judge: &Judge) -> rusqlite::Result<Inventory> {
    let mut inventory = Inventory { survey: survey::run(connection, judge)?, ..Inventory::default() };
    let mut statement = connection.prepare(BY_STATE)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let state: State = state_of(row.get(0)?)?;
        inventory.by_state.push((state, row.get::<_, i64>(1)?.unsigned_abs()));
        inventory.tombstones += row.get::<_, i64>(2)?.unsigned_abs();
    }
    let mut statement = connection.prepare(BYTES)?;
    let tables = statement.query_map([], |row| Ok((row.get(0)?, row.get::<_, i64>(1)?.unsigned_abs())))?;
    inventory.bytes_by_table = tables.collect::<Result<_, _>>()?;
    Ok(inventory)
}
