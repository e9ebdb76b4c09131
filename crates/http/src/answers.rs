//! The sentences of the layer's own answers, for every surface that gives them.
//!
//! What stands beside the sentence (the operation's URL, its state, when to ask again) is added by the surface, which
//! knows it. No sentence holds a key, a body or a credential.

use onefold_core::contract::KeyRule;
use onefold_core::{Expiry, KeyError, Problem, State, retry};

use crate::{ProblemDocument, view};

/// The route requires a key and there is none.
pub fn key_missing(rule: &KeyRule) -> ProblemDocument {
    let mut carriers: Vec<String> = rule.headers.iter().map(|name| format!("the header {name}")).collect();
    carriers.extend(rule.body.iter().map(|pointer| format!("the member {pointer} of the body")));
    let detail =
        format!("send a key of your own, made once for this intention, in {}", carriers.join(" or "));
    ProblemDocument::new(Problem::KeyMissing, detail)
}

/// The key is wrong.
pub fn key_wrong(error: &KeyError) -> ProblemDocument {
    let problem = if error.is_ambiguous() { Problem::KeyAmbiguous } else { Problem::KeyInvalid };
    ProblemDocument::new(problem, error.to_string())
}

/// The key was used for another request, which stands so.
pub fn conflict(original: State) -> ProblemDocument {
    let (original, detail) = match original {
        State::Succeeded => ("accepted", "this key was used for a different request, which was accepted"),
        State::Rejected => ("rejected", "this key was used for a different request, which was rejected"),
        State::Processing | State::Received => {
            ("running", "this key is in use for a different request, which is running")
        }
        State::Failed => {
            ("not_done", "this key was used for a different request, every attempt at which did nothing")
        }
        State::OutcomeUnknown => (
            "unknown",
            "this key was used for a different request, and it is not known whether that happened",
        ),
    };
    ProblemDocument::new(Problem::KeyConflict, detail).with("original", original)
}

/// An attempt is running.
pub fn in_progress() -> ProblemDocument {
    ProblemDocument::new(
        Problem::InProgress,
        "an attempt under this key is running; ask again under the same key, after the time that is given",
    )
}

/// The key is not answered any more.
pub fn expired(expiry: Expiry) -> ProblemDocument {
    match expiry {
        Expiry::KeyTooOld { made_at } => {
            let made_at = view::time(made_at);
            let detail = format!(
                "the key says itself that it was made at {made_at}, longer ago than results are kept; whether it was used is not known any more"
            );
            ProblemDocument::new(Problem::KeyExpired, detail).with("key_made_at", made_at)
        }
        Expiry::Tombstone => ProblemDocument::new(
            Problem::KeyExpired,
            "the result of this operation is not kept any more; a new intention needs a new key",
        ),
    }
}

/// Nobody here knows whether it happened.
pub fn outcome_unknown() -> ProblemDocument {
    ProblemDocument::new(
        Problem::OutcomeUnknown,
        "it may or may not have happened, and nobody here knows; it will be settled. Do not use a new key",
    )
}

/// Every attempt that the operation allows was lost.
pub fn needs_operator() -> ProblemDocument {
    ProblemDocument::new(
        Problem::OutcomeUnknown,
        "every allowed attempt was lost; a person must settle this operation. Do not use a new key",
    )
}

/// Every attempt that the operation allows did nothing.
pub fn exhausted() -> ProblemDocument {
    ProblemDocument::new(
        Problem::AttemptsExhausted,
        "every attempt that this operation allows did nothing; a new intention needs a new key",
    )
}

/// The result is known and not kept.
pub fn not_kept() -> ProblemDocument {
    ProblemDocument::new(
        Problem::ResponseNotKept,
        "the operation is done and its answer was not kept; look at the resource instead",
    )
}

/// The store did not answer.
pub fn store_unavailable() -> ProblemDocument {
    let detail = "the record of operations cannot be reached, so the request was not executed; try again";
    ProblemDocument::new(Problem::StoreUnavailable, detail).retry_after(retry::RETRY_AFTER_MIN)
}

/// The scope holds as many live keys as it may.
pub fn too_many_keys() -> ProblemDocument {
    let detail = "this scope holds as many live keys as it may; they expire with their retention";
    ProblemDocument::new(Problem::TooManyKeys, detail).retry_after(retry::RETRY_AFTER_MAX)
}
