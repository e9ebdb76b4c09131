//! The one table from the situations of SEMANTICS 8 to codes of gRPC.
//!
//! Client libraries act on the code before anybody reads the details: by the usual policies they send `UNAVAILABLE`
//! again, the same call with the same metadata, and nothing else. So it is the code of what the same call under the
//! same key will answer later, and no code of what a new key would double is one that reads as "nothing happened".

use onefold_core::Problem;
use tonic::Code;

/// How one situation is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Situation {
    /// The entry of the catalogue; its code is the `reason` of the error details.
    pub problem: Problem,
    /// The code.
    pub code: Code,
    /// Whether the answer says when to ask again (`RetryInfo`).
    pub waits: bool,
    /// Why this code.
    pub why: &'static str,
}

/// Every situation that a protected method can meet, in the order of the catalogue.
pub fn situations() -> impl Iterator<Item = Situation> {
    Problem::ALL.into_iter().filter_map(situation)
}

/// The table. `None`: it belongs to HTTP, to the gateway or to operators.
pub(crate) fn situation(problem: Problem) -> Option<Situation> {
    use Problem::*;
    let (code, waits, why) = match problem {
        KeyMissing | KeyInvalid | KeyAmbiguous => {
            (Code::InvalidArgument, false, "the call is wrong whatever the state; nothing ran")
        }
        ScopeMissing => (Code::Unauthenticated, false, "nobody is known whose key it could be"),
        KeyConflict => (
            Code::FailedPrecondition,
            false,
            "no repetition can help. Not `ALREADY_EXISTS`: callers take that for success",
        ),
        InProgress => (
            Code::Unavailable,
            true,
            "the same call, sent again under its key, is the right thing. Not `ABORTED`: that asks for a new beginning, and so for a new key",
        ),
        OutcomeUnknown => (
            Code::Unknown,
            true,
            "it is literally so. No usual policy repeats it, and nobody reads it as \"nothing happened\"",
        ),
        KeyExpired => {
            (Code::FailedPrecondition, false, "no repetition can help. Not `NOT_FOUND`: it may have happened")
        }
        ResponseNotKept => (Code::AlreadyExists, false, "it is done; only the answer is missing"),
        AttemptsExhausted => {
            (Code::FailedPrecondition, false, "no repetition can help; a new intention needs a new key")
        }
        StoreUnavailable => (Code::Unavailable, true, "the same call may help later"),
        TooManyKeys => (Code::ResourceExhausted, true, "a quota"),
        RequestInvalid => {
            (Code::InvalidArgument, false, "the significant value cannot be compared; nothing ran")
        }
        Forbidden
        | NotFound
        | RequestTooLarge
        | AnswerLost
        | AnswerLate
        | AuthorizationUnavailable
        | UpstreamUnreachable
        | NotUnknown
        | OwnerAlive
        | ReasonMissing
        | SignatureInvalid
        | MessageConflict
        | InboxFull => return None,
    };
    Some(Situation { problem, code, waits, why })
}
