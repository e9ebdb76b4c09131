//! Refusals of the operations API as problem documents.

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use onefold_core::Problem;
use onefold_engine::ActError;
use onefold_http::ProblemDocument;
use onefold_store::StoreError;

/// A refusal on its way out.
pub(crate) struct Refusal(ProblemDocument);

impl Refusal {
    pub(crate) fn new(problem: Problem, detail: impl Into<String>) -> Refusal {
        Refusal(ProblemDocument::new(problem, detail))
    }

    pub(crate) fn problem(&self) -> Problem {
        self.0.problem()
    }
}

impl From<ProblemDocument> for Refusal {
    fn from(document: ProblemDocument) -> Refusal {
        Refusal(document)
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        self.0.into_bare_response().map(Body::from)
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Refusal {
        Refusal(
            ProblemDocument::new(Problem::StoreUnavailable, error.to_string())
                .retry_after(onefold_core::retry::RETRY_AFTER_MIN),
        )
    }
}

impl From<ActError> for Refusal {
    fn from(error: ActError) -> Refusal {
        let problem = match &error {
            ActError::NotFound => Problem::NotFound,
            ActError::NotUnknown { .. } | ActError::AlreadyUnknown => Problem::NotUnknown,
            ActError::OwnerAlive { .. } => Problem::OwnerAlive,
            ActError::TextMissing(_) => Problem::ReasonMissing,
            ActError::NothingToKeep
            | ActError::HasCompanion { .. }
            | ActError::NothingSaid
            | ActError::ValueNotKept(_) => Problem::RequestInvalid,
            ActError::Store(error) => return error.clone().into(),
        };
        Refusal::new(problem, error.to_string())
    }
}

impl From<onefold_messages::ActError> for Refusal {
    fn from(error: onefold_messages::ActError) -> Refusal {
        use onefold_messages::ActError;
        let problem = match &error {
            ActError::NotFound(_) => Problem::NotFound,
            ActError::ReasonMissing => Problem::ReasonMissing,
            ActError::NotWaiting(_) | ActError::Revoked | ActError::Invalid(_) => Problem::RequestInvalid,
            ActError::Store(error) => return error.clone().into(),
        };
        Refusal::new(problem, error.to_string())
    }
}

/// Nothing is at this path.
pub(crate) async fn no_such_path() -> Refusal {
    Refusal::new(
        Problem::NotFound,
        "there is nothing here; see /v1/operations, /v1/outbox, /v1/inbox, /v1/permits, /metrics, /healthz and /readyz",
    )
}

/// Nothing is at this path of a listener for health and metrics.
pub(crate) async fn no_such_page() -> Refusal {
    Refusal::new(Problem::NotFound, "there is nothing here; see /metrics, /healthz and /readyz")
}
