//! Messages: what waits in the outbox and in the inbox, and what people do to it.

use axum::Json;
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::HeaderMap;
use axum::response::Response;
use onefold_core::contract::OnStale;
use onefold_core::{Key, OperationId, OutboxState, Problem};
use onefold_http::message_view as view;
use onefold_messages::{ActOnIncoming, ActOnOutgoing, Acted, HandleAgain, Which, WhichIncoming};
use onefold_store::{InboxQuery, NewPermit, OutboxQuery, Redrive};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::Admin;
use crate::once::{Act, once};
use crate::operations::{WHO, invalid, page_limit};
use crate::refusal::Refusal;

/// An act on messages names the attempt that it saw, so doing it again does nothing twice.
const REDRIVE_OUTBOX: Act = Act {
    name: "onefold/redrive-outbox",
    boundary: "one act on each message for each key",
    on_stale: OnStale::Resume,
};
const REDRIVE_INBOX: Act = Act {
    name: "onefold/redrive-inbox",
    boundary: "one act on each message for each key",
    on_stale: OnStale::Resume,
};
const RERUN: Act = Act {
    name: "onefold/rerun-inbox",
    boundary: "each message of a permit let through once",
    on_stale: OnStale::Resume,
};
const GRANT: Act =
    Act { name: "onefold/grant-permit", boundary: "one permit for each key", on_stale: OnStale::Unknown };
const REVOKE: Act = Act {
    name: "onefold/revoke-permit",
    boundary: "one end of a permit for each key",
    on_stale: OnStale::Resume,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OutgoingListing {
    destination: Option<String>,
    state: Option<String>,
    ordering_key: Option<String>,
    older_than: Option<String>,
    cursor: Option<i64>,
    limit: Option<u32>,
}

/// `GET /v1/outbox`
pub(crate) async fn list_outgoing(
    State(admin): State<Admin>,
    listing: Result<Query<OutgoingListing>, QueryRejection>,
) -> Result<Json<Value>, Refusal> {
    let Query(listing) = listing.map_err(|error| invalid(error.body_text()))?;
    let older_than = listing.older_than.map(|text| onefold_config::duration(&text)).transpose();
    let query = OutboxQuery {
        destination: listing.destination,
        state: listing.state.map(|s| s.parse()).transpose().map_err(|e| invalid(format!("state: {e}")))?,
        ordering_key: listing.ordering_key,
        older_than: older_than.map_err(|e| invalid(format!("older_than: {e}")))?,
        cursor: listing.cursor,
        limit: page_limit(listing.limit)?,
    };
    let page = admin.messages.list_outgoing(query).await?;
    let items: Vec<Value> = page.entries.iter().map(|entry| view::outgoing(entry, page.now)).collect();
    Ok(Json(json!({"items": items, "next_cursor": page.next_cursor})))
}

/// `GET /v1/outbox/{id}`
pub(crate) async fn show_outgoing(
    State(admin): State<Admin>,
    Path(id): Path<String>,
) -> Result<Json<Value>, Refusal> {
    let id = Key::new(id).map_err(|error| invalid(error.to_string()))?;
    let shown = admin.messages.outgoing(&id).await?.ok_or_else(no_message)?;
    Ok(Json(view::outgoing_with_history(&shown.entry, &shown.acts, shown.now)))
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OutboxRedrive {
    ids: Option<Vec<String>>,
    destination: Option<String>,
    state: Option<String>,
    ordering_key: Option<String>,
    attempt: Option<u32>,
    r#as: Option<As>,
    per_second: Option<u32>,
    #[serde(default)]
    reason: String,
}

#[derive(Clone, Copy, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
enum As {
    SendAgain,
    Delivered,
    Discarded,
}

impl OutboxRedrive {
    fn act(self) -> Result<ActOnOutgoing, Refusal> {
        let which = match (self.ids, self.destination) {
            (Some(ids), None) if self.state.is_none() && self.ordering_key.is_none() => {
                let ids = ids.into_iter().map(Key::new).collect::<Result<_, _>>();
                Which::Ids(ids.map_err(|error| invalid(format!("ids: {error}")))?)
            }
            (None, Some(destination)) => {
                let state = self.state.as_deref().unwrap_or(OutboxState::Dead.name());
                let state = state.parse().map_err(|error| invalid(format!("state: {error}")))?;
                Which::All { destination, state, ordering_key: self.ordering_key }
            }
            _ => {
                return Err(invalid(
                    "give ids, or a destination with a state and an ordering_key if you like",
                ));
            }
        };
        let redrive = match (self.r#as, &which) {
            (Some(As::SendAgain), _) => Redrive::SendAgain,
            (Some(As::Delivered), _) => Redrive::Delivered,
            (Some(As::Discarded), _) => Redrive::Discard,
            (None, Which::All { state: OutboxState::Dead, .. }) => Redrive::SendAgain,
            (None, _) => {
                let text = "as: say send_again, delivered or discarded; one that is outcome_unknown may have arrived";
                return Err(invalid(text));
            }
        };
        let (seen_attempt, per_second, reason) = (self.attempt, self.per_second, self.reason);
        Ok(ActOnOutgoing { which, seen_attempt, redrive, per_second, who: WHO.into(), reason })
    }
}

/// `POST /v1/outbox/redrives`
pub(crate) async fn redrive_outgoing(
    State(admin): State<Admin>,
    headers: HeaderMap,
    body: Result<Json<OutboxRedrive>, JsonRejection>,
) -> Result<Response, Refusal> {
    let (messages, body) = (admin.messages.clone(), read(body)?);
    let asked = json!(body);
    let act = body.act()?;
    let work = move || async move { Ok(acted(&messages.act_on_outgoing(act).await?)) };
    Ok(once(&admin.engine, &REDRIVE_OUTBOX, &headers, &asked, work).await)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct IncomingListing {
    consumer: Option<String>,
    source: Option<String>,
    state: Option<String>,
    handler: Option<String>,
    message: Option<String>,
    #[serde(default)]
    conflicts: bool,
    cursor: Option<i64>,
    limit: Option<u32>,
}

/// `GET /v1/inbox`
pub(crate) async fn list_incoming(
    State(admin): State<Admin>,
    listing: Result<Query<IncomingListing>, QueryRejection>,
) -> Result<Json<Value>, Refusal> {
    let Query(listing) = listing.map_err(|error| invalid(error.body_text()))?;
    let message = listing.message.map(Key::new).transpose();
    let query = InboxQuery {
        consumer: listing.consumer,
        source: listing.source,
        state: listing.state.map(|s| s.parse()).transpose().map_err(|e| invalid(format!("state: {e}")))?,
        handler: listing.handler,
        message: message.map_err(|error| invalid(format!("message: {error}")))?,
        conflicts: listing.conflicts,
        cursor: listing.cursor,
        limit: page_limit(listing.limit)?,
    };
    let page = admin.messages.list_incoming(query).await?;
    let items: Vec<Value> = page.entries.iter().map(|entry| view::incoming(entry, page.now)).collect();
    Ok(Json(json!({"items": items, "next_cursor": page.next_cursor})))
}

/// `GET /v1/inbox/{id}`
pub(crate) async fn show_incoming(
    State(admin): State<Admin>,
    Path(id): Path<String>,
) -> Result<Json<Value>, Refusal> {
    let shown = admin.messages.incoming(incoming_id(&id)?).await?.ok_or_else(no_message)?;
    let kept = shown.kept.as_ref().map(|kept| view::Content { headers: &kept.headers, body: &kept.body });
    let view = view::incoming_with_history(&shown.entries, kept, &shown.acts, shown.now);
    Ok(Json(view.ok_or_else(no_message)?))
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct InboxRedrive {
    #[serde(skip_serializing_if = "Option::is_none")]
    ids: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    consumer: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    per_second: Option<u32>,
    #[serde(default)]
    reason: String,
}

impl InboxRedrive {
    fn act(self) -> Result<ActOnIncoming, Refusal> {
        let which = match (self.ids, self.consumer, self.source) {
            (Some(ids), None, None) => {
                WhichIncoming::Ids(ids.iter().map(|id| incoming_id(id)).collect::<Result<_, _>>()?)
            }
            (None, consumer, source) if consumer.is_some() || source.is_some() => {
                WhichIncoming::All { consumer, source }
            }
            _ => return Err(invalid("give ids, or a consumer, a source, or both")),
        };
        Ok(ActOnIncoming { which, per_second: self.per_second, who: WHO.into(), reason: self.reason })
    }
}

/// `POST /v1/inbox/redrives`
pub(crate) async fn redrive_incoming(
    State(admin): State<Admin>,
    headers: HeaderMap,
    body: Result<Json<InboxRedrive>, JsonRejection>,
) -> Result<Response, Refusal> {
    let (messages, body) = (admin.messages.clone(), read(body)?);
    let asked = json!(body);
    let act = body.act()?;
    let work = move || async move { Ok(acted(&messages.act_on_incoming(act).await?)) };
    Ok(once(&admin.engine, &REDRIVE_INBOX, &headers, &asked, work).await)
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct InboxRerun {
    permit: u32,
    per_second: Option<u32>,
    #[serde(default)]
    reason: String,
}

/// `POST /v1/inbox/reruns`
pub(crate) async fn rerun_incoming(
    State(admin): State<Admin>,
    headers: HeaderMap,
    body: Result<Json<InboxRerun>, JsonRejection>,
) -> Result<Response, Refusal> {
    let (messages, body) = (admin.messages.clone(), read(body)?);
    let asked = json!(body);
    let InboxRerun { permit, per_second, reason } = body;
    let again = HandleAgain { permit, per_second, who: WHO.into(), reason };
    let work = move || async move { Ok(acted(&messages.handle_again(again).await?)) };
    Ok(once(&admin.engine, &RERUN, &headers, &asked, work).await)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PermitListing {
    consumer: Option<String>,
}

/// `GET /v1/permits`
pub(crate) async fn list_permits(
    State(admin): State<Admin>,
    listing: Result<Query<PermitListing>, QueryRejection>,
) -> Result<Json<Value>, Refusal> {
    let Query(listing) = listing.map_err(|error| invalid(error.body_text()))?;
    let permits = admin.messages.permits(listing.consumer.as_deref()).await?;
    let items: Vec<Value> = permits.iter().map(view::permit).collect();
    Ok(Json(json!({"items": items, "next_cursor": null})))
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PermitBody {
    consumer: String,
    source: Option<String>,
    damaged: Option<String>,
    handler: Option<String>,
    message: Option<String>,
    #[serde(default)]
    reason: String,
}

/// `POST /v1/permits`
pub(crate) async fn grant_permit(
    State(admin): State<Admin>,
    headers: HeaderMap,
    body: Result<Json<PermitBody>, JsonRejection>,
) -> Result<Response, Refusal> {
    let (messages, body) = (admin.messages.clone(), read(body)?);
    let asked = json!(body);
    let message = body.message.map(Key::new).transpose();
    let permit = NewPermit {
        consumer: body.consumer,
        source: body.source,
        damaged: body.damaged,
        handler: body.handler,
        message: message.map_err(|error| invalid(format!("message: {error}")))?,
        who: WHO.into(),
        reason: body.reason,
    };
    let work = move || async move { Ok(view::permit(&messages.grant(permit).await?)) };
    Ok(once(&admin.engine, &GRANT, &headers, &asked, work).await)
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RevokeBody {
    #[serde(default)]
    reason: String,
}

/// `POST /v1/permits/{number}/revoke`
pub(crate) async fn revoke_permit(
    State(admin): State<Admin>,
    Path(number): Path<String>,
    headers: HeaderMap,
    body: Result<Json<RevokeBody>, JsonRejection>,
) -> Result<Response, Refusal> {
    let (messages, body) = (admin.messages.clone(), read(body)?);
    let number: u32 =
        number.parse().map_err(|_| Refusal::new(Problem::NotFound, "there is no such permit"))?;
    let asked = json!({"number": number, "reason": &body.reason});
    let work = move || async move { Ok(view::permit(&messages.revoke(number, WHO, &body.reason).await?)) };
    Ok(once(&admin.engine, &REVOKE, &headers, &asked, work).await)
}

fn read<T>(body: Result<Json<T>, JsonRejection>) -> Result<T, Refusal> {
    body.map(|Json(body)| body).map_err(|error| invalid(error.body_text()))
}

fn acted(acted: &Acted) -> Value {
    view::acted(&acted.done, &acted.passed_over)
}

fn incoming_id(text: &str) -> Result<OperationId, Refusal> {
    text.parse().map_err(|error| Refusal::new(Problem::NotFound, format!("{error}")))
}

fn no_message() -> Refusal {
    Refusal::new(Problem::NotFound, "there is no such message")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redrive_by_ids_is_the_same_request_as_it_was_before_there_was_more_to_say() {
        let before = json!({"ids": ["4f"], "reason": "mended"});
        let read: InboxRedrive = serde_json::from_value(before.clone()).unwrap();
        assert_eq!(json!(read), before);
    }
}
