//! Webhooks: `POST /inbox/{source}` is verified, made durable, and answered; what is durable goes on to its handler.
//!
//! The signature is checked over the body as it came, before anything is noted, and nothing is noted beyond what a
//! source may have waiting. The sender has an answer of 2xx only
//! after the message is durable. The sender hanging up changes nothing: it delivers again, or has been heard.

mod handler;
mod listeners;
mod reading;

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use onefold_core::retry::{self, Backoff};
use onefold_core::{Key, Problem};
use onefold_http::{ProblemDocument, answers};
use onefold_messages::intake::{IntakeKeeper, KeptMessage, Says};
use onefold_messages::{Admitted, Destination, Relay, intake};
use serde_json::json;
use tokio::time::{Instant, sleep, sleep_until};

use crate::body::{AnyBody, answer, whole};
use crate::forward::Caller;
use crate::limits::{
    HANDLER_LOOK_EVERY, HANDLER_PAUSE_FIRST, HANDLER_PAUSE_MAX, HANDLER_PAUSE_MAX_FORWARDED, HANDLER_SLACK,
};
use crate::look_up::Services;
use crate::options::{Reply, WebhookSource, Webhooks};
use crate::{Gateway, Shared};
use handler::Handler;
use listeners::Heard;
pub(crate) use listeners::Listeners;
pub(crate) use reading::Memory;
use reading::Read;

/// Beneath this path.
const INBOX: &str = "/inbox/";

/// The source that is taken in at this path.
pub(crate) fn source<'g>(gateway: &'g Shared, path: &str) -> Option<(&'g Webhooks, &'g WebhookSource)> {
    let webhooks = gateway.options.webhooks.as_ref()?;
    let name = path.strip_prefix(INBOX)?;
    Some((webhooks, webhooks.sources.iter().find(|source| source.name == name)?))
}

/// Starts forwarding what is durable.
pub(crate) fn forward(webhooks: &Webhooks, services: &Services, listeners: &Arc<Listeners>) -> Relay {
    let destinations = webhooks.sources.iter().map(|source| {
        webhooks.intake.signals().start_at_zero(&source.name);
        let pause_max = match source.reply {
            Reply::Accepted => HANDLER_PAUSE_MAX,
            Reply::Forwarded => HANDLER_PAUSE_MAX_FORWARDED,
        };
        let handler = Handler::new(source, services.clone(), listeners.clone(), webhooks.intake.clone());
        Destination::new(intake::destination(&source.name), handler)
            .attempts(Some(source.attempts))
            .timeout(source.timeout + HANDLER_SLACK)
            .backoff(Backoff { first: HANDLER_PAUSE_FIRST, max: pause_max })
    });
    webhooks.intake.relay(destinations.collect())
}

/// Starts the loop beside the intake.
pub(crate) fn keep(webhooks: &Webhooks) -> IntakeKeeper {
    let sources = webhooks.sources.clone();
    let read = move |name: &str, kept: &KeptMessage| {
        let source = sources.iter().find(|source| source.name == name)?;
        let lines = kept.headers.iter().filter_map(|(name, value)| {
            Some((HeaderName::try_from(name).ok()?, HeaderValue::from_bytes(value.as_bytes()).ok()?))
        });
        let said = source.verify.read_verified(&lines.collect(), &kept.body).ok()?;
        Some(Says { entity: said.entity, version: said.version, retention: source.retention })
    };
    webhooks.intake.keep(Box::new(read))
}

/// Takes one delivery in.
pub(crate) async fn take_in(
    gateway: &Gateway,
    webhooks: &Webhooks,
    source: &WebhookSource,
    request: Request<Incoming>,
    caller: Caller,
) -> Response<AnyBody> {
    let policy = &gateway.options.policy_path;
    let read = match reading::read(gateway, webhooks, source, request, caller).await {
        Ok(read) => read,
        Err((decision, problem)) => {
            decision
                .into_iter()
                .for_each(|decision| webhooks.intake.signals().decided(&source.name, decision));
            tracing::info!(source = source.name, detail = problem.detail(), "a delivery is refused");
            return answer(problem.into_response(policy));
        }
    };
    let Read { arrival, room, _memory: memory } = read;
    let taken = match source.reply {
        Reply::Accepted => webhooks.intake.admit(arrival, room).await.map(told),
        Reply::Forwarded => {
            // Before the message can be on its way, so that no answer is missed.
            let key = webhooks.intake.key_of(&source.name, &arrival.id);
            let heard = gateway.listeners.listen(&key);
            let admitted = webhooks.intake.admit(arrival, room).await;
            drop(memory);
            match admitted {
                Ok(Admitted::New(key) | Admitted::Underway(key)) => {
                    let heard = if heard.is_for(&key) { heard } else { gateway.listeners.listen(&key) };
                    return wait(gateway, webhooks, source, &key, heard).await;
                }
                admitted => admitted.map(told),
            }
        }
    };
    let told = taken.unwrap_or_else(|error| {
        tracing::error!(source = source.name, %error, "a delivery was not taken in");
        Err(answers::store_unavailable())
    });
    told.unwrap_or_else(|problem| answer(problem.into_response(policy)))
}

/// What the sender is told at once.
fn told(admitted: Admitted) -> Result<Response<AnyBody>, ProblemDocument> {
    Ok(match admitted {
        Admitted::New(key) => document(StatusCode::ACCEPTED, "accepted", Some(&key)),
        Admitted::Underway(key) => document(StatusCode::ACCEPTED, "duplicate", Some(&key)),
        Admitted::Done(key) => document(StatusCode::OK, "duplicate", Some(&key)),
        Admitted::Superseded => document(StatusCode::OK, "superseded", None),
        Admitted::Conflict => {
            let detail = "another message came under this id before; this one was kept and not forwarded";
            return Err(ProblemDocument::new(Problem::MessageConflict, detail));
        }
    })
}

fn document(status: StatusCode, state: &str, message: Option<&Key>) -> Response<AnyBody> {
    let body = json!({"state": state, "message_id": message.map(Key::as_str)}).to_string();
    let mut response = Response::new(whole(body.into(), None));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// Waits for what the handler answers to the message.
async fn wait(
    gateway: &Gateway,
    webhooks: &Webhooks,
    source: &WebhookSource,
    key: &Key,
    mut listening: listeners::Listening,
) -> Response<AnyBody> {
    let until = Instant::now() + source.timeout + HANDLER_SLACK;
    loop {
        tokio::select! {
            biased;
            heard = listening.heard() => return of_handler(gateway, source, &heard),
            () = sleep_until(until) => {
                let detail = "the message is durable and still on its way; deliver it again to learn more";
                let problem = ProblemDocument::new(Problem::InProgress, detail)
                    .retry_after(retry::RETRY_AFTER_MAX);
                return answer(problem.into_response(&gateway.options.policy_path));
            }
            () = sleep(HANDLER_LOOK_EVERY) => {
                if webhooks.intake.is_done(key).await.is_ok_and(|done| done) {
                    return document(StatusCode::OK, "duplicate", Some(key));
                }
            }
        }
    }
}

/// The handler's answer for the sender, or why there is none.
fn of_handler(gateway: &Gateway, source: &WebhookSource, heard: &Heard) -> Response<AnyBody> {
    let (problem, detail) = match heard {
        Heard::Answer(response) => {
            let mut told = Response::new(whole(Bytes::clone(response.body()), None));
            *told.status_mut() = response.status();
            *told.headers_mut() = response.headers().clone();
            return told;
        }
        Heard::Unreachable => (
            Problem::UpstreamUnreachable,
            "the handler could not be reached; the message is durable and goes on by itself".to_owned(),
        ),
        Heard::Lost => (
            Problem::AnswerLost,
            "the handler's answer was lost; the message is durable and goes on again under the same key"
                .to_owned(),
        ),
        Heard::Late => (
            Problem::AnswerLate,
            format!(
                "the handler did not answer within {} ms; the message is durable and goes on again under the same key",
                source.timeout.as_millis()
            ),
        ),
    };
    let problem = ProblemDocument::new(problem, detail).retry_after(retry::RETRY_AFTER_MIN);
    answer(problem.into_response(&gateway.options.policy_path))
}
