//! Listing records, oldest first, page by page.
//!
//! Pages go by `place`: the microsecond of the claim by the server's clock, then its number in the batch. Nothing hot
//! is counted for it. Two claims of one microsecond may share a place, so a page never ends between them. A record
//! that exists when the listing begins is listed once, however many come and go meanwhile; one whose claim commits
//! behind a page that was read just then is left to the next listing.
//!
//! First the places are found and filtered, then the records of the page are read: payloads that are not shown are not
//! fetched.

use onefold_core::{OperationId, Scope, State, StoreTime};
use onefold_store::codec::decode_scope;
use onefold_store::{Query, StoreError};
use tokio_postgres::types::Type;

use crate::read;
use crate::row::{RawRecord, clock, duration_ms, get, id, state_number, unreadable};
use crate::server::{Server, Unanswered};

/// Records on a page, at most.
const PAGE_MAX: u32 = 1000;
/// A page ends early when the payloads on it are longer than this.
const PAGE_BYTES_MAX: i64 = 8 << 20;
/// Places that are looked at in one statement.
const LOOK_MAX: i64 = 2000;

macro_rules! places {
    ($from:literal) => {
        concat!(
            "SELECT o.place, o.id, o.scope, coalesce(octet_length(o.kept), 0)::bigint FROM (",
            clock!(),
            ") c CROSS JOIN ",
            $from,
            " WHERE o.place > $2
                AND ($3::smallint IS NULL OR o.state = $3)
                AND ($4::bytea IS NULL OR o.operation = $4)
                AND ($5::bytea IS NULL OR o.key = $5)
                AND ($6::bytea IS NULL OR o.resource_id = $6)
                AND ($7::bigint IS NULL OR o.created_at <= c.now - $7)
            ORDER BY o.place LIMIT $8"
        )
    };
}

pub(crate) const ALL: &str = places!("onefold.operations o");
/// By what is open, which is little.
pub(crate) const OPEN: &str = places!("onefold.open p JOIN onefold.operations o ON o.id = p.id");

/// A page whose payloads are still to be opened.
pub(crate) struct RawPage {
    pub(crate) now: StoreTime,
    pub(crate) records: Vec<RawRecord>,
    pub(crate) next_cursor: Option<i64>,
}

struct Found {
    place: i64,
    id: OperationId,
    bytes: i64,
}

/// Lists one page.
pub(crate) async fn run(query: &Query, server: &Server) -> Result<RawPage, StoreError> {
    let limit = query.limit.clamp(1, PAGE_MAX) as usize;
    let mut found = find(query, limit + 1, server).await?;
    let fits = fitting(&found, limit);
    let next_cursor = (fits < found.len()).then(|| found[fits - 1].place);
    found.truncate(fits);
    let ids: Vec<OperationId> = found.iter().map(|found| found.id).collect();
    let mut page = RawPage { now: StoreTime(0), records: Vec::new(), next_cursor };
    for (_, read) in in_order(read::many(&ids, server).await?) {
        let read = read?;
        page.now = read.now;
        page.records.extend(read.record.filter(|record| is_of(query.state, record)));
    }
    if ids.is_empty() {
        page.now = read::one(OperationId::from_bytes([0; 32]), server).await?.now;
    }
    Ok(page)
}

fn in_order<T>(mut many: Vec<(usize, T)>) -> Vec<(usize, T)> {
    many.sort_by_key(|(place, _)| *place);
    many
}

/// A record may have gone on between the two statements.
fn is_of(state: Option<State>, record: &RawRecord) -> bool {
    state.is_none_or(|state| state == record.record.state)
}

/// How many of what was found are on the page: it ends at its limit or at its bytes, and not between equal places
/// unless all of them are equal.
fn fitting(found: &[Found], limit: usize) -> usize {
    let mut bytes = 0;
    let mut fits = 0;
    while fits < found.len().min(limit) && (fits == 0 || bytes <= PAGE_BYTES_MAX) {
        bytes += found[fits].bytes;
        fits += 1;
    }
    let ends_between = |fits: usize| fits < found.len() && found[fits - 1].place == found[fits].place;
    let mut whole = fits;
    while whole > 1 && ends_between(whole) {
        whole -= 1;
    }
    if whole >= 1 && !ends_between(whole) { whole } else { fits }
}

/// The first so many records after the cursor that the query means.
async fn find(query: &Query, wanted: usize, server: &Server) -> Result<Vec<Found>, StoreError> {
    let sql = match query.state {
        Some(State::Processing | State::OutcomeUnknown) => OPEN,
        _ => ALL,
    };
    let bytes = |text: &Option<String>| text.as_ref().map(|text| text.as_bytes().to_vec());
    let (operation, key, resource) = (bytes(&query.operation), bytes(&query.key), bytes(&query.resource));
    let state = query.state.map(state_number);
    let age = query.older_than.map(duration_ms);
    // Without a filter on scopes everything that is looked at is wanted.
    let look = if query.scope.is_some() { LOOK_MAX } else { wanted as i64 };
    let mut cursor = query.cursor.unwrap_or(0);
    let mut found = Vec::new();
    loop {
        let params: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 8] = [
            (&server.now(), Type::INT8),
            (&cursor, Type::INT8),
            (&state, Type::INT2),
            (&operation, Type::BYTEA),
            (&key, Type::BYTEA),
            (&resource, Type::BYTEA),
            (&age, Type::INT8),
            (&look, Type::INT8),
        ];
        let rows = server.ask(sql, &params, Unanswered::AskAgain).await?;
        for row in &rows {
            cursor = get(row, 0)?;
            if is_in(query.scope.as_deref(), get(row, 2)?)? {
                found.push(Found { place: cursor, id: id(row, 1)?, bytes: get(row, 3)? });
            }
        }
        if found.len() >= wanted || (rows.len() as i64) < look {
            found.truncate(wanted);
            return Ok(found);
        }
    }
}

fn is_in(scope: Option<&str>, form: Option<&[u8]>) -> Result<bool, StoreError> {
    let Some(wanted) = scope else { return Ok(true) };
    let scope = form.map(decode_scope).transpose().map_err(unreadable)?.unwrap_or_else(Scope::shared);
    Ok(scope.to_string() == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(places: &[i64]) -> Vec<Found> {
        let of = |place: &i64| Found { place: *place, id: OperationId::from_bytes([0; 32]), bytes: 0 };
        places.iter().map(of).collect()
    }

    #[test]
    fn a_page_does_not_end_between_records_of_one_place() {
        assert_eq!(fitting(&found(&[1, 2, 3]), 2), 2);
        assert_eq!(fitting(&found(&[1, 2, 2]), 2), 1);
        assert_eq!(fitting(&found(&[1, 2, 2]), 3), 3);
        assert_eq!(fitting(&found(&[]), 3), 0);
        assert_eq!(fitting(&found(&[7, 7, 7]), 2), 2, "it must not be empty");
    }

    #[test]
    fn a_page_ends_early_when_its_payloads_are_long_and_never_empty() {
        let mut long = found(&[1, 2, 3]);
        long.iter_mut().for_each(|found| found.bytes = PAGE_BYTES_MAX + 1);
        assert_eq!(fitting(&long, 3), 1);
    }
}
