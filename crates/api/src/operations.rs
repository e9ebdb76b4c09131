//! Listing, showing, resolving and releasing operations.

use axum::Json;
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use onefold_core::{Answer, OperationId, Problem, Resource};
use onefold_engine::{Release, Resolution, ResolvedAs};
use onefold_http::{capture, view};
use onefold_store::Query as Wanted;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::Admin;
use crate::refusal::Refusal;

/// Records on one page.
const PAGE: u32 = 100;
/// The most on one page.
const PAGE_MAX: u32 = 1000;
/// Who acts here, until there are roles.
pub(crate) const WHO: &str = "admin listener";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Listing {
    state: Option<String>,
    operation: Option<String>,
    scope: Option<String>,
    key: Option<String>,
    resource: Option<String>,
    older_than: Option<String>,
    cursor: Option<i64>,
    limit: Option<u32>,
}

/// `GET /v1/operations`
pub(crate) async fn list(
    State(admin): State<Admin>,
    listing: Result<Query<Listing>, QueryRejection>,
) -> Result<Json<Value>, Refusal> {
    let Query(listing) = listing.map_err(|error| invalid(error.body_text()))?;
    let query = Wanted {
        state: listing.state.map(|s| s.parse()).transpose().map_err(|e| invalid(format!("state: {e}")))?,
        operation: listing.operation,
        scope: listing.scope,
        key: listing.key,
        resource: listing.resource,
        older_than: listing
            .older_than
            .map(|text| onefold_config::duration(&text))
            .transpose()
            .map_err(|e| invalid(format!("older_than: {e}")))?,
        cursor: listing.cursor,
        limit: page_limit(listing.limit)?,
    };
    let page = admin.engine.list(query).await?;
    let items: Vec<Value> = page.records.iter().map(|record| view::for_operator(record, page.now)).collect();
    Ok(Json(json!({"items": items, "next_cursor": page.next_cursor})))
}

/// `GET /v1/operations/{id}`
pub(crate) async fn show(State(admin): State<Admin>, Path(id): Path<String>) -> Result<Json<Value>, Refusal> {
    let shown = admin.engine.show(operation_id(&id)?).await?;
    let shown = shown.ok_or_else(|| Refusal::new(Problem::NotFound, "there is no such operation"))?;
    Ok(Json(view::with_history(&shown.record, &shown.events, shown.now)))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ResolveBody {
    r#as: As,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    evidence: String,
    resource: Option<ResourceBody>,
    response: Option<ResponseBody>,
    value: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum As {
    Succeeded,
    Failed,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ResourceBody {
    r#type: String,
    id: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ResponseBody {
    status: u16,
    #[serde(default)]
    headers: Vec<(String, String)>,
    body: Option<String>,
    body_base64: Option<String>,
}

/// `POST /v1/operations/{id}/resolve`
pub(crate) async fn resolve(
    State(admin): State<Admin>,
    Path(id): Path<String>,
    body: Result<Json<ResolveBody>, JsonRejection>,
) -> Result<Json<Value>, Refusal> {
    let Json(body) = body.map_err(|error| invalid(error.body_text()))?;
    let answer = match (body.response, body.value) {
        (Some(_), Some(_)) => return Err(invalid("give a response or a value, not both")),
        (Some(response), None) => Some(response.answer()?),
        (None, Some(value)) => Some(Answer {
            status: 200,
            headers: vec![("content-type".into(), b"application/json".to_vec())],
            body: value.to_string().into_bytes(),
            trailers: Vec::new(),
        }),
        (None, None) => None,
    };
    let resolution = Resolution {
        resolved_as: match body.r#as {
            As::Succeeded => ResolvedAs::Succeeded,
            As::Failed => ResolvedAs::Failed,
        },
        reason: body.reason,
        evidence: body.evidence,
        resource: body.resource.map(|r| Resource { kind: r.r#type, id: r.id }),
        answer,
        who: WHO.into(),
    };
    let shown = admin.engine.resolve(operation_id(&id)?, resolution).await?;
    Ok(Json(view::with_history(&shown.record, &shown.events, shown.now)))
}

impl ResponseBody {
    fn answer(self) -> Result<Answer, Refusal> {
        if !(200..=599).contains(&self.status) {
            return Err(invalid("response.status: a status from 200 to 599"));
        }
        let body = match (self.body, self.body_base64) {
            (Some(_), Some(_)) => return Err(invalid("response: give body or body_base64, not both")),
            (Some(text), None) => text.into_bytes(),
            (None, Some(text)) => {
                STANDARD.decode(text).map_err(|e| invalid(format!("response.body_base64: {e}")))?
            }
            (None, None) => Vec::new(),
        };
        let headers =
            capture::given_lines(self.headers).map_err(|e| invalid(format!("response.headers: {e}")))?;
        Ok(Answer { status: self.status, headers, body, trailers: Vec::new() })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReleaseBody {
    #[serde(default)]
    reason: String,
    #[serde(default)]
    force: bool,
}

/// `POST /v1/operations/{id}/release`
pub(crate) async fn release(
    State(admin): State<Admin>,
    Path(id): Path<String>,
    body: Result<Json<ReleaseBody>, JsonRejection>,
) -> Result<Json<Value>, Refusal> {
    let Json(body) = body.map_err(|error| invalid(error.body_text()))?;
    let release = Release { reason: body.reason, force: body.force, who: WHO.into() };
    let shown = admin.engine.release(operation_id(&id)?, release).await?;
    Ok(Json(view::with_history(&shown.record, &shown.events, shown.now)))
}

/// How many are wanted on a page.
pub(crate) fn page_limit(asked: Option<u32>) -> Result<u32, Refusal> {
    match asked.unwrap_or(PAGE) {
        limit @ 1..=PAGE_MAX => Ok(limit),
        _ => Err(invalid(format!("limit: 1 to {PAGE_MAX}"))),
    }
}

fn operation_id(text: &str) -> Result<OperationId, Refusal> {
    text.parse().map_err(|error| Refusal::new(Problem::NotFound, format!("{error}")))
}

pub(crate) fn invalid(detail: impl Into<String>) -> Refusal {
    Refusal::new(Problem::RequestInvalid, detail)
}
