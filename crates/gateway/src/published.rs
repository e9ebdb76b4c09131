//! The layer's own pages for callers: the published policy, and the state of the caller's own operations.

use std::sync::Arc;

use http::{HeaderMap, HeaderValue, Request, Response, header};
use hyper::body::Incoming;
use onefold_core::contract::{AfterExpiry, ResponsePolicy, Retention, ScopeSource, WhileRunning};
use onefold_core::key::{KEY_BYTES_MAX, KeySyntax};
use onefold_core::{Contract, OperationId, Problem, Record, Scope};
use onefold_http::{Missing, ProblemDocument, view};
use serde_json::{Value, json};

use crate::Gateway;
use crate::body::{AnyBody, answer, whole};
use crate::forward::{Caller, Head};

/// The page of the layer at this path, if there is one; everything else belongs to the upstream.
pub(crate) async fn own_page(
    gateway: &Gateway,
    request: &Request<Incoming>,
    path: &str,
    caller: Caller,
) -> Option<Response<AnyBody>> {
    if path == gateway.options.policy_path {
        return Some(document(&gateway.policy()));
    }
    let id = path.strip_prefix(&gateway.options.operations_path)?.strip_prefix('/')?.parse().ok()?;
    let head = Head {
        method: request.method().clone(),
        uri: request.uri().clone(),
        headers: request.headers().clone(),
    };
    match gateway.operation(id, &head, caller).await {
        Ok(page) => Some(page),
        Err(problem) => Some(answer(problem.into_response(&gateway.options.policy_path))),
    }
}

fn document(value: &Value) -> Response<AnyBody> {
    let mut response = Response::new(whole(value.to_string().into(), None));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

impl Gateway {
    async fn operation(
        &self,
        id: OperationId,
        head: &Head,
        caller: Caller,
    ) -> Result<Response<AnyBody>, ProblemDocument> {
        let headers = &head.headers;
        let seen = self.engine.look(id).await.map_err(|_| {
            ProblemDocument::new(
                Problem::StoreUnavailable,
                "the record of operations cannot be reached; try again",
            )
            .retry_after(onefold_core::retry::RETRY_AFTER_MIN)
        })?;
        let found =
            seen.as_ref().and_then(|(record, now)| Some((record, *now, self.contract_of(record, headers)?)));
        // A tombstone does not know any more whose it was.
        let own = found.filter(|(record, _, _)| record.key.is_some()).filter(|(record, _, contract)| {
            self.own_scope(contract, headers, caller, Some(record)).is_ok_and(|own| own == record.scope)
        });
        let Some((record, now, contract)) = own else {
            // The same answer whether the operation is missing or another's.
            return Err(match self.asks_without_scope(headers, caller) {
                Some(missing) => ProblemDocument::new(Problem::ScopeMissing, missing.0),
                None => {
                    ProblemDocument::new(Problem::NotFound, "there is no such operation, or it is another's")
                }
            });
        };
        if let Some(refused) = self.refuses(&contract, head, record).await {
            return Ok(refused);
        }
        let view = view::for_caller(record, Some(&contract), now);
        let mut response = document(&view);
        response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(after) = view["retry_after_ms"].as_u64() {
            response.headers_mut().insert(header::RETRY_AFTER, after.div_ceil(1000).max(1).into());
        }
        Ok(response)
    }

    /// What is missing, when the caller has no scope under any contract.
    fn asks_without_scope(&self, headers: &HeaderMap, caller: Caller) -> Option<Missing> {
        let implicit = self.implicit.as_ref().map(|implicit| implicit.of(headers));
        let mut missing = None;
        for route in self.options.routes.iter().chain(implicit) {
            missing = Some(self.own_scope(&route.contract, headers, caller, None).err()?);
        }
        missing
    }

    fn contract_of(&self, record: &Record, headers: &HeaderMap) -> Option<Arc<Contract>> {
        if let Some(route) = self.options.routes.iter().find(|r| r.contract.operation == record.operation) {
            return Some(route.contract.clone());
        }
        Some(self.implicit.as_ref()?.of(headers).contract.clone())
    }

    /// The caller's scope under this contract. Segments of the operation's own path are taken from its record: they
    /// are part of the page that is asked for, not a credential.
    fn own_scope(
        &self,
        contract: &Contract,
        headers: &HeaderMap,
        caller: Caller,
        record: Option<&Record>,
    ) -> Result<Scope, Missing> {
        let named: Vec<(String, String)> = contract
            .scope
            .iter()
            .filter_map(|source| match source {
                ScopeSource::Path(name) => {
                    let part = format!("path:{name}");
                    let value = record.and_then(|r| r.scope.parts().iter().find(|p| p.name == part));
                    Some((name.clone(), value.map(|p| p.value.clone()).unwrap_or_default()))
                }
                _ => None,
            })
            .collect();
        self.scope(contract, headers, &named, caller)
    }

    /// The published contracts.
    fn policy(&self) -> Value {
        let routes: Vec<Value> = self
            .options
            .routes
            .iter()
            .map(|route| contract_document(&route.contract, &route.method, &route.path))
            .collect();
        let implicit = self.implicit.as_ref().map(|i| {
            let route = &i.with_credentials;
            let mut document = contract_document(&route.contract, &route.method, &route.path);
            document["operation"] = json!("one for each method and path");
            document
        });
        let problems: Vec<Value> = Problem::ALL
            .iter()
            .map(|p| {
                json!({
                    "type": format!("{}{}", onefold_core::problem::TYPE_BASE, p.code()),
                    "code": p.code(),
                    "status": p.status(),
                    "title": p.title(),
                })
            })
            .collect();
        json!({
            "compatible_with": "draft-ietf-httpapi-idempotency-key-header-07",
            "operations": routes.into_iter().chain(implicit).collect::<Vec<_>>(),
            "operation_url": format!("{}/{{id}}", self.options.operations_path),
            "problems": problems,
        })
    }
}

fn contract_document(contract: &Contract, method: &str, path: &str) -> Value {
    let millis = |d: std::time::Duration| u64::try_from(d.as_millis()).unwrap_or(u64::MAX);
    json!({
        "operation": contract.operation,
        "match": {"method": method, "path": path},
        "boundary": contract.boundary,
        "key": {
            "headers": contract.key.headers,
            "body": contract.key.body,
            "required": contract.key.required,
            "syntax": match contract.key.syntax { KeySyntax::Lenient => "lenient", KeySyntax::Strict => "strict" },
            "bytes_max": KEY_BYTES_MAX,
        },
        "fingerprint": {"ignored": contract.fingerprint.ignore, "headers": contract.fingerprint.headers},
        "while_running": match contract.while_running {
            WhileRunning::Wait(wait) => json!({"wait_ms": millis(wait)}),
            WhileRunning::Busy => json!("busy"),
            WhileRunning::Accepted => json!("accepted"),
        },
        "response": match contract.response {
            ResponsePolicy::Original => "original",
            ResponsePolicy::Current => "current",
            ResponsePolicy::Status => "status",
        },
        "retention_ms": match contract.retention {
            Retention::For(retention) => json!(millis(retention)),
            Retention::Forever => json!("forever"),
        },
        "after_expiry": match contract.after_expiry { AfterExpiry::Reject => "reject", AfterExpiry::New => "new" },
    })
}
