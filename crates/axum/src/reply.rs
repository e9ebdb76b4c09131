//! What a handler answers: a finished operation, or why there is none.

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use onefold_core::{Problem, Resource, retry};
use onefold_http::{ProblemDocument, REPLAYED, answers, view};
use onefold_library::{CallError, Done, State};
use serde::Serialize;
use serde_json::json;

use crate::{OPERATIONS, POLICY};

/// A finished operation as an answer: its value as JSON. A replay has the status of the first answer and carries
/// `Idempotent-Replayed: true`.
#[derive(Debug)]
pub struct Reply<T> {
    done: Done<T>,
    status: StatusCode,
    rejected: StatusCode,
}

impl<T> Reply<T> {
    /// 200 where it succeeded, 422 where it was rejected.
    pub fn of(done: Done<T>) -> Reply<T> {
        Reply { done, status: StatusCode::OK, rejected: StatusCode::UNPROCESSABLE_ENTITY }
    }

    /// The status where it succeeded.
    ///
    /// # Panics
    /// If it is no status.
    pub fn status(mut self, status: u16) -> Reply<T> {
        self.status = StatusCode::from_u16(status).expect("a status of HTTP");
        self
    }

    /// The status where it was rejected.
    ///
    /// # Panics
    /// If it is no status.
    pub fn rejected_status(mut self, status: u16) -> Reply<T> {
        self.rejected = StatusCode::from_u16(status).expect("a status of HTTP");
        self
    }
}

impl<T: Serialize> IntoResponse for Reply<T> {
    fn into_response(self) -> Response {
        let status = if self.done.rejected() { self.rejected } else { self.status };
        let mut response = (status, axum::Json(self.done.value())).into_response();
        if self.done.replayed() {
            response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
        }
        response
    }
}

/// A call without a result, as its problem document.
#[derive(Debug)]
pub struct Refused(CallError);

impl From<CallError> for Refused {
    fn from(error: CallError) -> Refused {
        Refused(error)
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let error = self.0;
        let (document, state) = match &error {
            CallError::KeyInvalid(wrong) => (answers::key_wrong(wrong), None),
            CallError::RequestInvalid(_) => {
                (ProblemDocument::new(Problem::RequestInvalid, "the request cannot be compared"), None)
            }
            CallError::Conflict { original, .. } => (answers::conflict(*original), Some(*original)),
            CallError::InProgress { .. } => (answers::in_progress(), Some(State::Processing)),
            CallError::Interrupted { error, .. } => {
                tracing::warn!(%error, "an operation was interrupted");
                (answers::in_progress(), Some(State::Processing))
            }
            CallError::OutcomeUnknown { error, .. } => {
                if let Some(error) = error {
                    tracing::error!(%error, "the outcome of an operation is unknown");
                }
                (answers::outcome_unknown(), Some(State::OutcomeUnknown))
            }
            CallError::Exhausted { .. } => (answers::exhausted(), Some(State::Failed)),
            CallError::Expired { expiry, .. } => (answers::expired(*expiry), None),
            CallError::TooManyKeys => (answers::too_many_keys(), None),
            CallError::StoreUnavailable(why) => {
                tracing::error!(why, "a protected request was not executed");
                (answers::store_unavailable(), None)
            }
            CallError::ValueNotKept { state, resource, reason, .. } => {
                tracing::warn!(%error, "a finished operation has no result to give");
                (not_kept(resource.as_deref(), reason), Some(*state))
            }
            CallError::ValueUnreadable { state, resource, .. } => {
                tracing::warn!(%error, "a finished operation has no result to give");
                (not_kept(resource.as_deref(), "unreadable"), Some(*state))
            }
            CallError::NotDone { error: why, retryable } => {
                tracing::warn!(error = %why, "an operation was not done");
                return not_done(*retryable);
            }
        };
        let mut document = document.safe_to_use_new_key(error.new_key_is_safe());
        if let Some(state) = state {
            document = document.state(state);
        }
        if let Some(id) = error.id() {
            document = document.operation(format!("{OPERATIONS}/{id}"));
        }
        if let Some(after) = error.retry_after() {
            document = document.retry_after(after);
        }
        document.into_response(POLICY).map(Body::from)
    }
}

/// What it made instead of its result, as the gateway says it.
fn not_kept(resource: Option<&Resource>, reason: &str) -> ProblemDocument {
    answers::not_kept().with("reason", reason).with("resource", resource.map(view::resource))
}

/// Nothing happened: the business alone could say more, and its error is for the log.
fn not_done(retryable: bool) -> Response {
    let status = if retryable { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::INTERNAL_SERVER_ERROR };
    let document = json!({ "title": "Nothing was done", "safe_to_use_new_key": true });
    let mut response = problem_document(status, document);
    if retryable {
        let after = retry::whole_seconds(retry::RETRY_AFTER_MIN);
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(after));
    }
    response
}

/// A problem that is in no catalogue.
pub(crate) fn problem_document(status: StatusCode, mut document: serde_json::Value) -> Response {
    document["type"] = "about:blank".into();
    document["status"] = status.as_u16().into();
    let mut response = Response::new(Body::from(document.to_string()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_missing_answer_says_how_it_ended_why_it_is_missing_and_what_was_made() {
        let resource = Some(Box::new(Resource { kind: "order".into(), id: "5001".into() }));
        let (id, state) = ("00".repeat(32).parse().unwrap(), State::Succeeded);
        let error = CallError::ValueNotKept { id, state, resource, reason: "too_big", why: "too long" };
        let answer = Refused(error).into_response();
        assert_eq!(answer.status(), StatusCode::CONFLICT);
        let body = axum::body::to_bytes(answer.into_body(), 10_000).await.unwrap();
        let said: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(said["code"], "response-not-kept");
        assert_eq!((&said["state"], &said["reason"]), (&json!("succeeded"), &json!("too_big")));
        assert_eq!(said["resource"], json!({ "type": "order", "id": "5001" }));
    }
}
