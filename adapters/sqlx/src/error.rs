//! Why a call has no result, or what the database said.

use onefold_library::CallError;
use onefold_store::StoreError;

/// Why a call has no result.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The boundary says so. The transaction may go on, unless it was the store that failed or the end of an operation
    /// that could not be written: roll back then.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The database says so. The transaction is at its end: roll back.
    #[error(transparent)]
    Database(#[from] sqlx::Error),
}

impl Error {
    /// Whether the database asks for the whole transaction to be run again (40001, 40P01). Nothing of it has happened.
    pub fn asks_for_rerun(&self) -> bool {
        matches!(self, Error::Database(error) if asks_for_rerun(error))
    }
}

/// Whether this is a serialization failure or a deadlock.
pub(crate) fn asks_for_rerun(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(|error| error.code());
    matches!(code.as_deref(), Some("40001" | "40P01"))
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Error {
        Error::Call(error.into())
    }
}
