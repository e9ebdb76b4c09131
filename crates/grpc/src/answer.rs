//! What a caller gets: a finished operation, or why there is none.
//!
//! The sentences are those of HTTP, so that one page for each problem describes both. A status of the layer's own
//! carries `ErrorInfo` and, where waiting helps, `RetryInfo`. A status of the handler keeps its code, message and
//! details.

use std::collections::HashMap;
use std::time::Duration;

use onefold_core::{Resource, retry};
use onefold_http::{ProblemDocument, answers};
use onefold_library::{CallError, Done, State};
use prost::Message;
use tonic::metadata::{MetadataMap, MetadataValue};
use tonic::{Code, Response, Status};
use tonic_types::{ErrorDetails, StatusExt};

use crate::codes::situation;
use crate::kept::Kept;
use crate::{DOMAIN, NOT_DONE, OPERATION, OUTCOME, REJECTED, REPLAYED};

/// Tells gRPC clients whose policy repeats this code how long to wait first.
const PUSHBACK: &str = "grpc-retry-pushback-ms";

/// A finished operation.
pub(crate) fn of<R: Message + Default>(done: Done<Kept>) -> Result<Response<R>, Status> {
    let (id, replayed) = (done.id(), done.replayed());
    let made = Some(Made { reason: "unreadable", resource: done.resource().cloned().map(Box::new) });
    let answer = match done.into_value().answer::<R>() {
        Ok(answer) => answer,
        Err(detail) => {
            tracing::error!(operation = %id, detail, "a kept answer cannot be read");
            return Err(layer(
                answers::not_kept(),
                Extra { operation: Some(id.to_string()), made, ..Extra::default() },
            ));
        }
    };
    let mark = |metadata: &mut MetadataMap| {
        if replayed {
            metadata.insert(REPLAYED, MetadataValue::from_static("true"));
        }
        name(metadata, &id.to_string());
    };
    match answer {
        Ok(message) => {
            let mut response = Response::new(message);
            mark(response.metadata_mut());
            Ok(response)
        }
        Err(mut status) => {
            status.metadata_mut().insert(OUTCOME, MetadataValue::from_static(REJECTED));
            mark(status.metadata_mut());
            Err(status)
        }
    }
}

/// A call that is refused before anything is claimed.
pub(crate) fn refusal(document: ProblemDocument) -> Status {
    layer(document, Extra::default())
}

/// A call without a result.
pub(crate) fn of_error(error: CallError) -> Status {
    let (safe, after) = (error.new_key_is_safe(), error.retry_after());
    let operation = error.id().map(|id| id.to_string());
    let mut made = None;
    let (document, state) = match error {
        CallError::NotDone { error, retryable } => return not_done(error, retryable),
        CallError::KeyInvalid(wrong) => (answers::key_wrong(&wrong), None),
        CallError::RequestInvalid(_) => (
            ProblemDocument::new(onefold_core::Problem::RequestInvalid, "the message cannot be compared"),
            None,
        ),
        CallError::Conflict { original, .. } => (answers::conflict(original), Some(original)),
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
        CallError::Expired { expiry, .. } => (answers::expired(expiry), None),
        CallError::TooManyKeys => (answers::too_many_keys(), None),
        CallError::StoreUnavailable(why) => {
            tracing::error!(why, "a protected call was not executed");
            (answers::store_unavailable(), None)
        }
        CallError::ValueNotKept { state, resource, reason, why, .. } => {
            tracing::warn!(why, "a finished operation has no answer to give");
            made = Some(Made { reason, resource });
            (answers::not_kept(), Some(state))
        }
        CallError::ValueUnreadable { state, resource, detail, .. } => {
            tracing::warn!(detail, "a finished operation has no answer to give");
            made = Some(Made { reason: "unreadable", resource });
            (answers::not_kept(), Some(state))
        }
    };
    layer(document, Extra { operation, state, made, safe: Some(safe), after })
}

/// What stands beside the sentence.
#[derive(Default)]
struct Extra {
    operation: Option<String>,
    state: Option<State>,
    made: Option<Made>,
    safe: Option<bool>,
    after: Option<Duration>,
}

/// What a finished operation made, and why its answer is missing.
struct Made {
    reason: &'static str,
    resource: Option<Box<Resource>>,
}

fn layer(document: ProblemDocument, extra: Extra) -> Status {
    let situation = situation(document.problem()).expect("what a call can meet has a line in the table");
    made(situation.code, document.problem().code(), document.detail(), extra)
}

fn made(code: Code, reason: &str, detail: &str, extra: Extra) -> Status {
    let mut more = HashMap::new();
    if let Some(safe) = extra.safe {
        more.insert("safe_to_use_new_key".to_owned(), safe.to_string());
    }
    if let Some(state) = extra.state {
        more.insert("state".to_owned(), state.name().to_owned());
    }
    let mut metadata = MetadataMap::new();
    if let Some(id) = &extra.operation {
        more.insert("operation".to_owned(), page(id));
        name(&mut metadata, id);
    }
    if let Some(made) = &extra.made {
        more.insert("reason".to_owned(), made.reason.to_owned());
    }
    let mut details = ErrorDetails::with_error_info(reason, DOMAIN, more);
    if let Some(Made { resource: Some(resource), .. }) = &extra.made {
        details.set_resource_info(&resource.kind, &resource.id, "", "look at it instead");
    }
    if let Some(after) = extra.after {
        details.set_retry_info(Some(after));
        if code == Code::Unavailable {
            metadata.insert(PUSHBACK, MetadataValue::from(after.as_millis() as u64));
        }
    }
    Status::with_error_details_and_metadata(code, detail, details, metadata)
}

/// Nothing happened. The handler's own status says why; any other error is for the log.
fn not_done(error: onefold_library::BoxError, retryable: bool) -> Status {
    match error.downcast::<Status>() {
        Ok(status) => {
            let details = status.details().to_vec();
            let mut status = Status::with_details(status.code(), status.message(), details.into());
            status.metadata_mut().insert(OUTCOME, MetadataValue::from_static(NOT_DONE));
            status
        }
        Err(error) => {
            tracing::warn!(%error, "an operation was not done");
            let (code, after) = match retryable {
                true => (Code::Unavailable, Some(retry::RETRY_AFTER_MIN)),
                false => (Code::Internal, None),
            };
            let extra = Extra { safe: Some(true), after, ..Extra::default() };
            made(code, "not-done", "nothing was done", extra)
        }
    }
}

fn name(metadata: &mut MetadataMap, id: &str) {
    let value = page(id).parse().expect("an id is hexadecimal");
    metadata.insert(OPERATION, value);
}

fn page(id: &str) -> String {
    format!("/operations/{id}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use onefold_core::{Expiry, KeyError, Problem};
    use onefold_library::OperationId;

    fn every_error() -> Vec<CallError> {
        let (id, state): (OperationId, _) = ("00".repeat(32).parse().unwrap(), State::Succeeded);
        vec![
            CallError::KeyInvalid(KeyError::Empty),
            CallError::KeyInvalid(KeyError::Ambiguous("two")),
            CallError::RequestInvalid("a map".into()),
            CallError::Conflict { id, original: State::Succeeded },
            CallError::InProgress { id, retry_after: Duration::from_secs(7) },
            CallError::Interrupted { id, error: "a dead line".into() },
            CallError::OutcomeUnknown { id, error: None },
            CallError::Exhausted { id },
            CallError::Expired { id, expiry: Expiry::Tombstone },
            CallError::TooManyKeys,
            CallError::StoreUnavailable("the secret path of a file".into()),
            CallError::ValueNotKept { id, state, resource: None, reason: "too_big", why: "too long" },
            CallError::ValueUnreadable {
                id,
                state,
                resource: None,
                stored: 2,
                known: 1,
                detail: "a secret".into(),
            },
        ]
    }

    #[test]
    fn every_error_of_a_call_has_the_line_of_the_table_that_its_problem_has() {
        for error in every_error() {
            let problem = error.problem().unwrap();
            let (safe, after, id) = (error.new_key_is_safe(), error.retry_after(), error.id());
            let line = situation(problem).unwrap();
            let status = of_error(error);
            let details = status.get_error_details();
            let info = details.error_info().unwrap();
            assert_eq!((status.code(), info.reason.as_str()), (line.code, problem.code()));
            assert_eq!(info.metadata["safe_to_use_new_key"], safe.to_string());
            assert_eq!(details.retry_info().and_then(|info| info.retry_delay), after);
            assert_eq!(after.is_some(), line.waits, "{problem:?}");
            assert_eq!(status.metadata().get(OPERATION).is_some(), id.is_some());
            assert!(!status.message().contains("secret"));
        }
    }

    #[test]
    fn a_missing_answer_says_how_it_ended_why_it_is_missing_and_what_was_made() {
        let resource = Some(Box::new(Resource { kind: "order".into(), id: "5001".into() }));
        let id = "00".repeat(32).parse().unwrap();
        let error = CallError::ValueNotKept {
            id,
            state: State::Succeeded,
            resource,
            reason: "too_big",
            why: "too long",
        };
        let details = of_error(error).get_error_details();
        let info = details.error_info().unwrap();
        assert_eq!(
            (info.metadata["state"].as_str(), info.metadata["reason"].as_str()),
            ("succeeded", "too_big")
        );
        let made = details.resource_info().unwrap();
        assert_eq!((made.resource_type.as_str(), made.resource_name.as_str()), ("order", "5001"));
    }

    #[test]
    fn what_is_refused_before_a_claim_has_a_line_too() {
        for problem in [Problem::KeyMissing, Problem::ScopeMissing] {
            let status = refusal(ProblemDocument::new(problem, "x"));
            assert_eq!(status.get_error_details().error_info().unwrap().reason, problem.code());
        }
    }
}
