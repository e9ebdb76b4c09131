//! `GET /operations/{id}`: where an operation stands, for whoever has its scope.

use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use http::{HeaderValue, Request, header};
use onefold_core::Problem;
use onefold_http::{ProblemDocument, answers, view};
use onefold_library::{AtomicStore, Onefold, OperationId};

use crate::{OPERATIONS, POLICY, Protection};

/// The pages of the operations of these protections, under `/operations/{id}`: 401 without a scope, and the same 404
/// for another's as for none.
pub fn operations<S: AtomicStore>(
    onefold: &Onefold<S>,
    protections: impl IntoIterator<Item = Protection>,
) -> Router {
    let shared = (onefold.engine().clone(), protections.into_iter().collect::<Vec<_>>());
    Router::new().route(&format!("{OPERATIONS}/{{id}}"), get(page)).with_state(shared)
}

type Shared = (onefold_library::Engine, Vec<Protection>);

async fn page(
    State((engine, protections)): State<Shared>,
    Path(id): Path<String>,
    request: Request<Body>,
) -> Result<Response, Response> {
    let problem = |document: ProblemDocument| document.into_response(POLICY).map(Body::from);
    let scopes: Vec<_> = protections
        .iter()
        .map(|protection| protection.0.scope_of(request.headers(), protection.0.trusts(&request)))
        .collect();
    if let Some(Err(missing)) = scopes.first()
        && scopes.iter().all(Result::is_err)
    {
        return Err(problem(ProblemDocument::new(Problem::ScopeMissing, missing.0.clone())));
    }
    let not_found =
        || ProblemDocument::new(Problem::NotFound, "there is no such operation, or it is another's");
    let id: OperationId = id.parse().map_err(|_| problem(not_found()))?;
    let found = engine.look(id).await.map_err(|_| problem(answers::store_unavailable()))?;
    let Some((record, now)) = found else { return Err(problem(not_found())) };
    let own = protections.iter().zip(&scopes).find(|(protection, scope)| {
        protection.0.operation.contract().operation == record.operation
            && record.key.is_some()
            && scope.as_ref().is_ok_and(|scope| *scope == record.scope)
    });
    let Some((protection, _)) = own else { return Err(problem(not_found())) };
    let view = view::for_caller(&record, Some(protection.0.operation.contract()), now);
    let retry_after = view["retry_after_ms"].as_u64();
    let mut response = Json(view).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Some(after) = retry_after {
        headers.insert(header::RETRY_AFTER, HeaderValue::from(after.div_ceil(1000).max(1)));
    }
    Ok(response)
}
