//! What people did to messages: written with the act by the functions of the schema, read here.

use onefold_core::{Act, ActKind, StoreTime};
use onefold_store::StoreError;
use tokio_postgres::types::Type;

use crate::row::{attempt, get, text, unreadable};
use crate::server::{Server, Unanswered};

pub(crate) const OF: &str = "SELECT a.at, a.kind, a.attempt, a.who, a.reason FROM onefold.acts a
    WHERE a.incoming = $1 AND a.message = $2 ORDER BY a.n";

/// The stored number of a kind.
pub(crate) const fn kind_number(kind: ActKind) -> i16 {
    match kind {
        ActKind::Redriven => 0,
        ActKind::Delivered => 1,
        ActKind::Discarded => 2,
    }
}

/// Which way a message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    In,
    Out,
}

/// The history of a message, oldest first.
pub(crate) async fn of(way: Way, message: &[u8], server: &Server) -> Result<Vec<Act>, StoreError> {
    let params: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 2] =
        [(&(way == Way::In), Type::BOOL), (&message, Type::BYTEA)];
    let rows = server.ask(OF, &params, Unanswered::AskAgain).await?;
    let act = |row| {
        let number: i16 = get(row, 1)?;
        let kind = ActKind::ALL.into_iter().find(|kind| kind_number(*kind) == number);
        Ok(Act {
            at: StoreTime(get(row, 0)?),
            kind: kind.ok_or_else(|| unreadable(format!("the kind of act {number} is unknown")))?,
            attempt: attempt(row, 2)?,
            who: text(get(row, 3)?)?,
            reason: text(get(row, 4)?)?,
        })
    };
    rows.iter().map(act).collect()
}
