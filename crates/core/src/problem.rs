//! The catalogue of problems: every answer that the layer makes itself (SEMANTICS 8).
//!
//! Each has a code (the suffix of its RFC 9457 type), a status and a title, and a page `docs/errors/CODE.md`.

/// One kind of layer-made answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Problem {
    /// The route requires a key and there is none.
    KeyMissing,
    /// The key is malformed, empty or too long.
    KeyInvalid,
    /// Several keys, or carriers that disagree.
    KeyAmbiguous,
    /// A part of the scope is missing.
    ScopeMissing,
    /// The request may not be made from there.
    Forbidden,
    /// Not found, or another's.
    NotFound,
    /// The request is over `max_request`.
    RequestTooLarge,
    /// The same key with a different request.
    KeyConflict,
    /// Still running.
    InProgress,
    /// Nobody here knows whether it happened.
    OutcomeUnknown,
    /// The answer was lost after the request had been sent: the first caller's 502.
    AnswerLost,
    /// The answer did not come in time: the first caller's 504.
    AnswerLate,
    /// The record expired, or the key is older than the retention.
    KeyExpired,
    /// The result is known, the body is not kept.
    ResponseNotKept,
    /// Every allowed attempt did nothing.
    AttemptsExhausted,
    /// The store cannot be reached; nothing was executed.
    StoreUnavailable,
    /// Whether the caller may have the stored answer cannot be asked.
    AuthorizationUnavailable,
    /// The scope holds as many live keys as it may.
    TooManyKeys,
    /// The upstream was not reached; nothing happened.
    UpstreamUnreachable,
    /// There is nothing to resolve.
    NotUnknown,
    /// The attempt's owner is alive.
    OwnerAlive,
    /// The act needs a reason.
    ReasonMissing,
    /// The request to the operations API is malformed.
    RequestInvalid,
    /// A webhook was not signed with a secret of its source, or too long ago.
    SignatureInvalid,
    /// A webhook's id belongs to another message.
    MessageConflict,
    /// There is no room for a webhook; nothing was noted.
    InboxFull,
}

impl Problem {
    /// Every problem, in the order of the documentation.
    pub const ALL: [Problem; 26] = [
        Problem::KeyMissing,
        Problem::KeyInvalid,
        Problem::KeyAmbiguous,
        Problem::ScopeMissing,
        Problem::Forbidden,
        Problem::NotFound,
        Problem::RequestTooLarge,
        Problem::KeyConflict,
        Problem::InProgress,
        Problem::OutcomeUnknown,
        Problem::AnswerLost,
        Problem::AnswerLate,
        Problem::KeyExpired,
        Problem::ResponseNotKept,
        Problem::AttemptsExhausted,
        Problem::StoreUnavailable,
        Problem::AuthorizationUnavailable,
        Problem::TooManyKeys,
        Problem::UpstreamUnreachable,
        Problem::NotUnknown,
        Problem::OwnerAlive,
        Problem::ReasonMissing,
        Problem::RequestInvalid,
        Problem::SignatureInvalid,
        Problem::MessageConflict,
        Problem::InboxFull,
    ];

    /// The code, the HTTP status and the title.
    const fn row(self) -> (&'static str, u16, &'static str) {
        match self {
            Problem::KeyMissing => ("key-missing", 400, "This route requires an idempotency key"),
            Problem::KeyInvalid => ("key-invalid", 400, "The idempotency key is not valid"),
            Problem::KeyAmbiguous => ("key-ambiguous", 400, "More than one idempotency key"),
            Problem::ScopeMissing => ("scope-missing", 401, "The request does not say whose key it is"),
            Problem::Forbidden => ("forbidden", 403, "The request may not be made from there"),
            Problem::NotFound => ("not-found", 404, "Nothing is to be found there"),
            Problem::RequestTooLarge => {
                ("request-too-large", 413, "The request is too large to be protected")
            }
            Problem::KeyConflict => ("key-conflict", 422, "The key was used for a different request"),
            Problem::InProgress => ("in-progress", 409, "The operation is still running"),
            Problem::OutcomeUnknown => ("outcome-unknown", 409, "It is not known whether this happened"),
            Problem::AnswerLost => ("outcome-unknown", 502, "The upstream's answer was lost"),
            Problem::AnswerLate => ("outcome-unknown", 504, "The upstream did not answer in time"),
            Problem::KeyExpired => ("key-expired", 410, "The key has expired"),
            Problem::ResponseNotKept => ("response-not-kept", 409, "It is done; the answer was not kept"),
            Problem::AttemptsExhausted => ("attempts-exhausted", 409, "Every allowed attempt did nothing"),
            Problem::StoreUnavailable => {
                ("store-unavailable", 503, "The store is unavailable; nothing was executed")
            }
            Problem::AuthorizationUnavailable => {
                ("authorization-unavailable", 503, "Whether you may have the answer cannot be asked")
            }
            Problem::TooManyKeys => ("too-many-keys", 429, "Too many live keys in this scope"),
            Problem::UpstreamUnreachable => {
                ("upstream-unreachable", 502, "The upstream was not reached; nothing happened")
            }
            Problem::NotUnknown => ("not-unknown", 409, "There is no unknown outcome to resolve"),
            Problem::OwnerAlive => ("owner-alive", 409, "The attempt is still alive"),
            Problem::ReasonMissing => ("reason-missing", 400, "A reason is required"),
            Problem::RequestInvalid => ("request-invalid", 400, "The request is not valid"),
            Problem::SignatureInvalid => ("signature-invalid", 401, "The signature is not good"),
            Problem::MessageConflict => ("message-conflict", 409, "The id belongs to another message"),
            Problem::InboxFull => ("inbox-full", 503, "There is no room for the message; it was not noted"),
        }
    }

    /// The code: the suffix of the problem type.
    pub const fn code(self) -> &'static str {
        self.row().0
    }

    /// The HTTP status.
    pub const fn status(self) -> u16 {
        self.row().1
    }

    /// One line for people.
    pub const fn title(self) -> &'static str {
        self.row().2
    }
}

/// The base of the problem types: an identifier, not a place that must be reachable.
pub const TYPE_BASE: &str = "https://onefold.dev/problems/";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_lower_case_words_and_statuses_are_errors() {
        for problem in Problem::ALL {
            assert!(problem.code().bytes().all(|b| b.is_ascii_lowercase() || b == b'-'), "{problem:?}");
            assert!((400..600).contains(&problem.status()), "{problem:?}");
        }
    }
}
