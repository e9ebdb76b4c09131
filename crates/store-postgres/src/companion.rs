//! The note that an operation is settled together with rows of its service. Kept for good.

use onefold_store::{StoreError, companion_note};
use tokio_postgres::types::{ToSql, Type};

use crate::server::{Server, Unanswered};

pub(crate) const NOTE: &str = "INSERT INTO onefold.meta (name, value) VALUES ($1::text, ''::bytea)
    ON CONFLICT (name) DO NOTHING";
pub(crate) const STANDS: &str = "SELECT FROM onefold.meta WHERE name = $1::text";

/// Makes it.
pub(crate) async fn note(operation: &str, server: &Server) -> Result<(), StoreError> {
    let name = companion_note(operation);
    let params: [(&(dyn ToSql + Sync), Type); 1] = [(&name, Type::TEXT)];
    server.ask(NOTE, &params, Unanswered::AskAgain).await?;
    Ok(())
}

/// Whether it was made.
pub(crate) async fn stands(operation: &str, server: &Server) -> Result<bool, StoreError> {
    let name = companion_note(operation);
    let params: [(&(dyn ToSql + Sync), Type); 1] = [(&name, Type::TEXT)];
    Ok(!server.ask(STANDS, &params, Unanswered::AskAgain).await?.is_empty())
}
