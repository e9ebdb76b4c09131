//! What a status that a handler's work ends with says about the operation (as SEMANTICS 8 says it of HTTP).
//!
//! Only a definite "nothing happened" frees a key, and only a definite refusal is remembered; whatever else a code may
//! mean is unknown. In atomic mode the rollback proves that nothing happened, so there only rejections differ.

use onefold_library::{BoxError, Rejection, Verdict};
use tonic::{Code, Status};
use tonic_types::StatusExt;

use crate::DOMAIN;
use crate::kept::Kept;

/// What a status says about the operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// Refused for good, and no effect exists: duplicates get the same status.
    Rejected,
    /// Nothing happened; the key is free. The status is passed on.
    NotDone,
    /// Something may have happened. The caller gets `outcome-unknown`.
    Unknown,
}

/// The meaning of every code but `OK`, without and with a `RetryInfo` in the status.
pub fn meanings() -> impl Iterator<Item = (Code, Meaning, Meaning)> {
    (1..=16).map(Code::from_i32).map(|code| (code, of_code(code, false), of_code(code, true)))
}

/// The table.
fn of_code(code: Code, retry_info: bool) -> Meaning {
    match code {
        Code::InvalidArgument
        | Code::NotFound
        | Code::AlreadyExists
        | Code::FailedPrecondition
        | Code::OutOfRange
        | Code::Unimplemented => Meaning::Rejected,
        Code::PermissionDenied | Code::Unauthenticated | Code::ResourceExhausted => Meaning::NotDone,
        Code::Unavailable | Code::Aborted if retry_info => Meaning::NotDone,
        Code::Unavailable
        | Code::Aborted
        | Code::Cancelled
        | Code::DeadlineExceeded
        | Code::Unknown
        | Code::Internal
        | Code::DataLoss
        | Code::Ok => Meaning::Unknown,
    }
}

/// The meaning of a status. One that another protected service made, and that warns of a new key, says nothing about
/// whether the effect exists, whatever its code.
fn of_status(status: &Status) -> Meaning {
    let details = status.get_error_details();
    let warns = details.error_info().is_some_and(|info| {
        info.domain == DOMAIN && info.metadata.get("safe_to_use_new_key").is_some_and(|safe| safe != "true")
    });
    if warns { Meaning::Unknown } else { of_code(status.code(), details.retry_info().is_some()) }
}

/// An error that refuses the operation for good with this status, whatever its code means by itself. A step that ends
/// with it is not asked for again.
pub fn rejected(status: Status) -> BoxError {
    Rejection::of(Kept::status(&status)).into()
}

/// Whether a status can speak for the whole operation, or only for an attempt that follows others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speaks {
    ForTheOperation,
    /// An earlier attempt may have had an effect, of which a refusal such as `ALREADY_EXISTS` may even be the sign.
    ForThisAttempt,
}

/// The verdict of a work that ended with an error. Errors that are no status are judged by the library.
pub(crate) fn verdict(error: BoxError, speaks: Speaks) -> Result<Verdict<Kept>, BoxError> {
    let status = error.downcast::<Status>()?;
    Ok(match (of_status(&status), speaks) {
        (Meaning::Rejected, Speaks::ForTheOperation) => Verdict::rejected(Kept::status(&status)),
        (Meaning::NotDone, _) => Verdict::NotDone { error: status, retryable: true },
        (Meaning::Unknown, _) | (Meaning::Rejected, Speaks::ForThisAttempt) => {
            Verdict::Unknown { error: status }
        }
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use tonic_types::ErrorDetails;

    #[test]
    fn another_services_warning_counts_more_than_its_code() {
        for (safe, meaning) in [("false", Meaning::Unknown), ("true", Meaning::Rejected)] {
            let metadata = HashMap::from([("safe_to_use_new_key".to_owned(), safe.to_owned())]);
            let details = ErrorDetails::with_error_info("key-conflict", DOMAIN, metadata);
            let status = Status::with_error_details(Code::FailedPrecondition, "x", details);
            assert_eq!(of_status(&status), meaning);
        }
    }
}
