//! The history of a record: what happened to it beside its transitions.

use onefold_core::{Event, EventKind, OperationId, StoreTime};
use onefold_store::{Advance, StoreError};
use tokio_postgres::types::Type;

use crate::row::{attempt, get, text, unreadable};
use crate::server::{Server, Unanswered};

pub(crate) const OF: &str = "SELECT e.at, e.kind, e.attempt, e.who, e.reason, e.evidence
    FROM onefold.events e WHERE e.id = $1 ORDER BY e.n";

/// What a batch of transitions adds to histories, column by column.
#[derive(Default)]
pub(crate) struct Happened<'a> {
    /// The number of the job in its batch, from 1.
    pub(crate) jobs: Vec<i64>,
    /// Whether it is written where the transition is not done, rather than where it is.
    pub(crate) as_evidence: Vec<bool>,
    pub(crate) kinds: Vec<i16>,
    pub(crate) who: Vec<&'a [u8]>,
    pub(crate) reasons: Vec<&'a [u8]>,
    pub(crate) evidence: Vec<&'a [u8]>,
}

impl<'a> Happened<'a> {
    /// The events of a batch.
    pub(crate) fn of(advances: impl Iterator<Item = &'a Advance>) -> Happened<'a> {
        let mut happened = Happened::default();
        for (advance, job) in advances.zip(1..) {
            for (event, as_evidence) in [(&advance.event, false), (&advance.if_superseded, true)] {
                let Some(event) = event else { continue };
                happened.jobs.push(job);
                happened.as_evidence.push(as_evidence);
                happened.kinds.push(kind_number(event.kind));
                happened.who.push(event.who.as_bytes());
                happened.reasons.push(event.reason.as_bytes());
                happened.evidence.push(event.evidence.as_bytes());
            }
        }
        happened
    }
}

/// The history of a record, oldest first.
pub(crate) async fn of(id: OperationId, server: &Server) -> Result<Vec<Event>, StoreError> {
    let id = id.as_bytes().as_slice();
    let rows = server.ask(OF, &[(&id, Type::BYTEA)], Unanswered::AskAgain).await?;
    let event = |row| {
        Ok(Event {
            at: StoreTime(get(row, 0)?),
            kind: kind_of(get(row, 1)?)?,
            attempt: attempt(row, 2)?,
            who: text(get(row, 3)?)?,
            reason: text(get(row, 4)?)?,
            evidence: text(get(row, 5)?)?,
        })
    };
    rows.iter().map(event).collect()
}

const KINDS: [(i16, EventKind); 8] = [
    (0, EventKind::Unknown),
    (1, EventKind::Resolved),
    (2, EventKind::Released),
    (3, EventKind::LateSuccess),
    (4, EventKind::Happened),
    (5, EventKind::DidNotHappen),
    (6, EventKind::Inconclusive),
    (7, EventKind::Escalated),
];

/// The stored number of a kind.
pub(crate) fn kind_number(kind: EventKind) -> i16 {
    match kind {
        EventKind::Unknown => 0,
        EventKind::Resolved => 1,
        EventKind::Released => 2,
        EventKind::LateSuccess => 3,
        EventKind::Happened => 4,
        EventKind::DidNotHappen => 5,
        EventKind::Inconclusive => 6,
        EventKind::Escalated => 7,
    }
}

fn kind_of(number: i16) -> Result<EventKind, StoreError> {
    let kind = KINDS.iter().find(|(known, _)| *known == number);
    kind.map(|(_, kind)| *kind).ok_or_else(|| unreadable(format!("the kind of event {number} is unknown")))
}
