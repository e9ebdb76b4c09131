//! The protected way of a request: key, scope, body, fingerprint; then the engine, in a task of its own.
//!
//! Whatever is wrong with the request is found before anything is claimed.

use std::sync::Arc;

use http::{Request, Response};
use hyper::body::Incoming;
use onefold_canon::BodyHasher;
use onefold_core::path::normal_query;
use onefold_core::{Identity, Problem};
use onefold_engine::{Call, Entered, Refusal};
use onefold_http::{ProblemDocument, RequestHead, answers, body_key, body_kind, fingerprint, header_key};
use tokio::sync::oneshot;

use crate::body::{AnyBody, answer};
use crate::forward::{Caller, Head};
use crate::options::{Named, Route};
use crate::perform::{Performance, perform};
use crate::request_body::{Held, ReadError};
use crate::{Gateway, Shared, pass};

/// Protects one request.
pub(crate) async fn protect(
    gateway: Shared,
    route: Arc<Route>,
    named: Named,
    path: String,
    request: Request<Incoming>,
    caller: Caller,
) -> Response<AnyBody> {
    match prepare(&gateway, &route, &named, &path, request, caller).await {
        Ok(Prepared::Call { call, head, held }) => run(gateway, route, call, head, held, caller).await,
        Ok(Prepared::Keyless { head, held }) => pass::pass_held(&gateway, head, caller, held.to_body()).await,
        Ok(Prepared::Untouched(request)) => pass::pass(&gateway, request, caller).await,
        Err(problem) => answer(problem.into_response(&gateway.options.policy_path)),
    }
}

enum Prepared {
    Call {
        call: Call,
        head: Head,
        held: Held,
    },
    /// No key and none required, and the body was read to find that out.
    Keyless {
        head: Head,
        held: Held,
    },
    /// No key and none required.
    Untouched(Request<Incoming>),
}

async fn prepare(
    gateway: &Gateway,
    route: &Route,
    named: &Named,
    path: &str,
    request: Request<Incoming>,
    caller: Caller,
) -> Result<Prepared, ProblemDocument> {
    let contract = &route.contract;
    let from_headers =
        header_key(&contract.key, request.headers()).map_err(|error| answers::key_wrong(&error))?;
    if from_headers.is_none() && route.body_key.is_none() {
        return if contract.key.required {
            Err(answers::key_missing(&route.contract.key))
        } else {
            Ok(Prepared::Untouched(request))
        };
    }
    let secret = gateway.engine.identity_key();
    let scope = gateway
        .scope(contract, request.headers(), named, caller)
        .map_err(|missing| ProblemDocument::new(Problem::ScopeMissing, missing.0))?;
    gateway.warn_of_expiring_tokens(contract, request.headers());

    let (parts, body) = request.into_parts();
    let head = Head::of(parts);
    let mut hasher = BodyHasher::new(body_kind(&contract.fingerprint, &head.headers), &route.ignore);
    let (max, spool_dir) = (gateway.options.request_bytes_max, &gateway.options.spool_dir);
    let held = Held::read(body, max, |part| hasher.update(part), spool_dir).await.map_err(read_problem)?;
    let digest = hasher.finish();
    let key = match &route.body_key {
        None => from_headers,
        Some(pointer) => {
            let bytes = held.bytes().await.map_err(|error| read_problem(error.into()))?;
            body_key(from_headers, pointer, &bytes).map_err(|error| answers::key_wrong(&error))?
        }
    };
    let Some(key) = key else {
        return if contract.key.required {
            Err(answers::key_missing(&route.contract.key))
        } else {
            Ok(Prepared::Keyless { head, held })
        };
    };
    let query = normal_query(head.uri.query().unwrap_or(""));
    let significant = RequestHead { method: &head.method, path, query: &query, headers: &head.headers };
    let fingerprint = fingerprint(&contract.fingerprint, &significant, &digest, secret);
    let identity = Identity { scope, operation: route.operation(&head.method, path), key };
    let call = Call {
        contract: contract.clone(),
        label: route.label.clone(),
        identity,
        fingerprint,
        correlation_id: None,
    };
    Ok(Prepared::Call { call, head, held })
}

/// Runs the operation in a task of its own and waits for what the caller is to get.
async fn run(
    gateway: Shared,
    route: Arc<Route>,
    call: Call,
    head: Head,
    held: Held,
    caller: Caller,
) -> Response<AnyBody> {
    if let Some(known) = gateway.engine.recall(&call) {
        return gateway.answer_known(&route, &head, caller, &known).await;
    }
    let (mut told, tell) = oneshot::channel();
    let task = {
        let gateway = gateway.clone();
        async move {
            let entered = gateway.engine.enter(&call, told.closed()).await;
            match entered {
                Ok(Entered::Attempt(attempt)) => {
                    let performance = Performance { gateway, route, head, held, caller };
                    perform(performance, attempt, told).await;
                }
                Ok(Entered::Known(known)) => {
                    let response = gateway.answer_known(&route, &head, caller, &known).await;
                    let _ = told.send(response);
                }
                Err(refusal) => {
                    let response = refused(&gateway, &refusal);
                    let _ = told.send(response);
                }
            }
        }
    };
    // On the heap from the start: it is large, and on its way into the runtime it is moved several times.
    gateway.operations.spawn(Box::pin(task));
    match tell.await {
        Ok(response) => response,
        Err(_) => {
            let detail = "the gateway failed while it handled the operation; ask again under the same key";
            answer(
                ProblemDocument::new(Problem::AnswerLost, detail).into_response(&gateway.options.policy_path),
            )
        }
    }
}

fn refused(gateway: &Gateway, refusal: &Refusal) -> Response<AnyBody> {
    let problem = match refusal {
        Refusal::Store(error) => {
            tracing::error!(%error, "a protected request was not executed");
            answers::store_unavailable()
        }
        Refusal::TooManyKeys => answers::too_many_keys(),
    };
    answer(problem.into_response(&gateway.options.policy_path))
}

pub(crate) fn read_problem(error: ReadError) -> ProblemDocument {
    match error {
        ReadError::TooLarge { .. } => ProblemDocument::new(Problem::RequestTooLarge, error.to_string()),
        ReadError::Cut(_) | ReadError::Silent => {
            ProblemDocument::new(Problem::RequestInvalid, "the request was cut; nothing was executed")
        }
        ReadError::Spool(error) => {
            tracing::error!(%error, "a request could not be spooled");
            ProblemDocument::new(
                Problem::StoreUnavailable,
                "the request could not be spooled; it was not executed",
            )
            .retry_after(onefold_core::retry::RETRY_AFTER_MIN)
        }
    }
}
