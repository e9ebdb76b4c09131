//! What stands in the store, for `onefold store stats`: counted by walking over the table, on a connection of its own.

use onefold_core::State;
use onefold_store::{Inventory, StoreError};

use crate::row::{count, get, state_number};
use crate::server::{Server, Unanswered};
use crate::survey;

pub(crate) const BY_STATE: &str = "SELECT state, count(*) FILTER (WHERE bucket IS NOT NULL),
    count(*) FILTER (WHERE bucket IS NULL) FROM onefold.operations GROUP BY state";
/// With indexes and what is stored out of line.
pub(crate) const BYTES: &str = "SELECT relname::text, pg_total_relation_size(oid) FROM pg_class
    WHERE relnamespace = to_regnamespace('onefold') AND relkind IN ('r', 'p') ORDER BY 2 DESC, 1";

/// Counts what stands.
pub(crate) async fn run(server: &Server) -> Result<Inventory, StoreError> {
    let mut inventory = Inventory { survey: survey::run(server).await?, ..Inventory::default() };
    for row in server.ask(BY_STATE, &[], Unanswered::AskAgain).await? {
        let number: i16 = get(&row, 0)?;
        let records = count(get(&row, 1)?);
        inventory.tombstones += count(get(&row, 2)?);
        if let Some(state) = State::ALL.into_iter().find(|state| state_number(*state) == number) {
            inventory.by_state.push((state, records));
        }
    }
    inventory.by_state.sort_by_key(|(state, _)| state_number(*state));
    for row in server.ask(BYTES, &[], Unanswered::AskAgain).await? {
        inventory.bytes_by_table.push((get(&row, 0)?, count(get(&row, 1)?)));
    }
    Ok(inventory)
}
