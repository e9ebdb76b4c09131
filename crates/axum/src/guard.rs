//! What is looked at before the handler runs: key, scope, body and fingerprint, as in the gateway.
//!
//! Whatever is wrong with the request is found here, before anything is claimed. The body is read whole, so that a cut
//! request takes no claim, and is handed to the handler as it came.

use axum::body::Body;
use http::Request;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use onefold_canon::BodyHasher;
use onefold_core::path::{normal_path, normal_query};
use onefold_core::{Identity, Problem};
use onefold_http::{ProblemDocument, RequestHead, answers, body_kind, fingerprint, header_key};
use onefold_library::OperationId;

use crate::Protected;
use crate::protection::Shared;

/// A request that may go to the handler.
pub(crate) struct Admitted {
    pub(crate) request: Request<Body>,
    /// Its operation; `None` without a key.
    pub(crate) operation: Option<OperationId>,
}

pub(crate) async fn admit(shared: &Shared, request: Request<Body>) -> Result<Admitted, ProblemDocument> {
    let key = header_key(&shared.key, request.headers()).map_err(|error| answers::key_wrong(&error))?;
    let Some(key) = key else {
        return match shared.key.required {
            true => Err(answers::key_missing(&shared.key)),
            false => Ok(Admitted { request, operation: None }),
        };
    };
    let trusted = shared.trusts(&request);
    let scope = shared
        .scope_of(request.headers(), trusted)
        .map_err(|missing| ProblemDocument::new(Problem::ScopeMissing, missing.0))?;
    let (mut parts, body) = request.into_parts();
    let contract = shared.operation.contract();
    let bytes = match Limited::new(body, shared.request_bytes_max).collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) if error.is::<LengthLimitError>() => {
            let detail = format!("a protected request has at most {} bytes", shared.request_bytes_max);
            return Err(ProblemDocument::new(Problem::RequestTooLarge, detail));
        }
        Err(_) => {
            let detail = "the request was cut; nothing was executed";
            return Err(ProblemDocument::new(Problem::RequestInvalid, detail));
        }
    };
    let mut hasher =
        BodyHasher::new(body_kind(&contract.fingerprint, &parts.headers), shared.operation.ignored());
    hasher.update(&bytes);
    let (path, query) = (normal_path(parts.uri.path()), normal_query(parts.uri.query().unwrap_or("")));
    let head = RequestHead { method: &parts.method, path: &path, query: &query, headers: &parts.headers };
    let fingerprint = fingerprint(&contract.fingerprint, &head, &hasher.finish(), &shared.secret);
    let operation = contract.operation.clone();
    let id = Identity { scope: scope.clone(), operation, key: key.clone() };
    let id = id.id(&shared.secret, contract.key.time);
    let said = |name| parts.headers.get(name).and_then(|said| said.to_str().ok());
    let call = shared.operation.call_as(scope, key, fingerprint).tied(said);
    parts.extensions.insert(Protected(call));
    Ok(Admitted { request: Request::from_parts(parts, Body::from(bytes)), operation: Some(id) })
}
