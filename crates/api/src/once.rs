//! Acts that are done once for each `Idempotency-Key`: the API keeps its own promise (SEMANTICS 7 and 8).
//!
//! The act is an operation like any other, under the name that it is given and a scope of the admin listener's. It
//! runs in a task of its own, so that a caller that goes away cancels nothing.
//!
//! *After a crash* an act in the middle is resumed by the next request under its key, once its lease is over; one that
//! must not be repeated, a permit, is `outcome_unknown` until a person has looked.

use std::future::Future;
use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use onefold_core::contract::OnStale;
use onefold_core::{Answer, Contract, Decision, FingerprintBuilder, Identity, Kept, Outcome, Problem, Scope};
use onefold_engine::{Attempt, Call, Engine, Entered, Known, Refusal as Refused, Verdict};
use onefold_http::{REPLAYED, answers, capture, header_key};
use serde::Serialize;
use serde_json::Value;
use tokio::sync::oneshot;

use crate::refusal::Refusal;

/// An act of the API.
pub(crate) struct Act {
    /// Its name: part of the identity, and its label in metrics.
    pub(crate) name: &'static str,
    /// What one key stands for.
    pub(crate) boundary: &'static str,
    /// What follows when the process is lost in the middle: an act that does nothing twice by itself is resumed.
    pub(crate) on_stale: OnStale,
}

/// Does `work` once for the key of `headers`; `asked` is what another request under it is compared with.
pub(crate) async fn once<F>(
    engine: &Engine,
    act: &Act,
    headers: &HeaderMap,
    asked: &impl Serialize,
    work: impl FnOnce() -> F,
) -> Response
where
    F: Future<Output = Result<Value, Refusal>> + Send + 'static,
{
    let contract = Contract { on_stale: act.on_stale, ..Contract::new(act.name, act.boundary) };
    let key = match header_key(&contract.key, headers) {
        Ok(Some(key)) => key,
        Ok(None) => return Refusal::from(answers::key_missing(&contract.key)).into_response(),
        Err(wrong) => return Refusal::from(answers::key_wrong(&wrong)).into_response(),
    };
    let asked = match serde_json::to_vec(asked) {
        Ok(asked) => asked,
        Err(error) => return Refusal::new(Problem::RequestInvalid, error.to_string()).into_response(),
    };
    let call = Call {
        contract: Arc::new(contract),
        label: act.name.into(),
        identity: Identity { scope: Scope::new([("surface", "admin")]), operation: act.name.into(), key },
        fingerprint: FingerprintBuilder::new(engine.identity_key()).part("body", &asked).finish(),
        correlation_id: None,
    };
    let (here, gone) = oneshot::channel::<()>();
    let (engine, work) = (engine.clone(), work());
    let done = tokio::spawn(async move {
        let gone = async move {
            let _ = gone.await;
        };
        match engine.enter(&call, gone).await {
            Ok(Entered::Attempt(attempt)) => attempted(attempt, work).await,
            Ok(Entered::Known(known)) => told(&known, &call.contract),
            Err(Refused::Store(error)) => Refusal::from(error).into_response(),
            Err(Refused::TooManyKeys) => Refusal::from(answers::too_many_keys()).into_response(),
        }
    })
    .await;
    drop(here);
    // A panic in the act: the attempt has noted that its outcome is unknown.
    done.unwrap_or_else(|_| Refusal::from(answers::outcome_unknown()).into_response())
}

async fn attempted(attempt: Attempt, work: impl Future<Output = Result<Value, Refusal>>) -> Response {
    match work.await {
        Ok(value) => {
            let answer = Answer {
                status: 200,
                headers: vec![(header::CONTENT_TYPE.to_string(), b"application/json".to_vec())],
                body: value.to_string().into_bytes(),
                trailers: Vec::new(),
            };
            let response = capture::replay(&answer).0.map(Body::from);
            attempt.settle(Verdict::known(Outcome::Succeeded, Kept::Full(answer), None)).await;
            response
        }
        // What the store did not answer may be done.
        Err(refusal) if refusal.problem() == Problem::StoreUnavailable => {
            attempt.settle(Verdict::unknown("the store did not answer")).await;
            refusal.into_response()
        }
        Err(refusal) => {
            attempt.settle(Verdict::known(Outcome::NotDone, Kept::Nothing, None)).await;
            refusal.into_response()
        }
    }
}

fn told(known: &Known, contract: &Contract) -> Response {
    let document = match (known.decision, known.record.as_deref().map(|record| &record.kept)) {
        (Decision::Replay, Some(Kept::Full(answer))) => {
            let mut response = capture::replay(answer).0.map(Body::from);
            response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
            return response;
        }
        (Decision::Replay, _) => answers::not_kept(),
        (Decision::Conflict { original }, _) => answers::conflict(original),
        (Decision::Busy { .. } | Decision::Pending, _) => answers::in_progress(),
        (Decision::Expired(expiry), _) => answers::expired(expiry),
        (Decision::NeedsOperator, _) => answers::needs_operator(),
        (Decision::Exhausted, _) => answers::exhausted(),
        _ => answers::outcome_unknown(),
    };
    let document = match &known.record {
        Some(record) => document
            .operation(format!("/v1/operations/{}", known.id))
            .state(record.state)
            .safe_to_use_new_key(record.answers(Some(contract)).safe_to_use_new_key()),
        None => document,
    };
    let document = match known.retry_after() {
        Some(after) => document.retry_after(after),
        None => document,
    };
    Refusal::from(document).into_response()
}
