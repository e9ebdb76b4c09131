//! Reading a delivery: what can be refused early is, and what is long is in memory only when it is the sender's.
//!
//! In this order: the headers that sign it, whether its source has room, the body part by part into a spool file with
//! the signature checked on the way, and only then the body in memory. Bodies in memory share a bound
//! ([`Memory`]); whoever finds no place in it waits, and is told to come again where that takes too long.

use http::{HeaderValue, Request, header};
use hyper::body::Incoming;
use onefold_core::{Problem, retry};
use onefold_http::{ProblemDocument, answers};
use onefold_messages::Arrival;
use onefold_messages::intake::{Decision, Room};
use onefold_webhooks::Refusal;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

use crate::Gateway;
use crate::forward::{Caller, Head};
use crate::limits::{WEBHOOK_BYTES_MAX, WEBHOOK_MEMORY_MAX, WEBHOOK_MEMORY_UNIT, WEBHOOK_MEMORY_WAIT_MAX};
use crate::options::{WebhookSource, Webhooks};
use crate::protect::read_problem;
use crate::request_body::{Held, ReadError};

/// The memory that bodies of webhooks share while they are stored, in units.
pub(crate) struct Memory(Semaphore);

impl Default for Memory {
    fn default() -> Memory {
        Memory(Semaphore::new((WEBHOOK_MEMORY_MAX / WEBHOOK_MEMORY_UNIT) as usize))
    }
}

impl Memory {
    /// A place for so many bytes; `None` where there is none in time.
    async fn place(&self, bytes: u64) -> Option<SemaphorePermit<'_>> {
        let units = bytes.div_ceil(WEBHOOK_MEMORY_UNIT).max(1);
        let place = self.0.acquire_many(u32::try_from(units).unwrap_or(u32::MAX));
        timeout(WEBHOOK_MEMORY_WAIT_MAX, place).await.ok()?.ok()
    }
}

/// A delivery that is the sender's, with the room that it takes.
pub(super) struct Read<'g> {
    pub(super) arrival: Arrival,
    pub(super) room: Room,
    /// Until it is stored.
    pub(super) _memory: SemaphorePermit<'g>,
}

/// What is counted, and what the sender is told.
type Refused = (Option<Decision>, ProblemDocument);

/// Reads and verifies a delivery.
pub(super) async fn read<'g>(
    gateway: &'g Gateway,
    webhooks: &Webhooks,
    source: &WebhookSource,
    request: Request<Incoming>,
    caller: Caller,
) -> Result<Read<'g>, Refused> {
    let (parts, body) = request.into_parts();
    let head = Head::of(parts);
    let mut verifier =
        source.verify.verifier(&head.headers, gateway.engine.unix_time()).map_err(|no| refused(&no))?;
    let room = room(webhooks, source).await?;
    let unread = |error| (Some(Decision::Unreadable), read_problem(error));
    let max = gateway.options.request_bytes_max.min(WEBHOOK_BYTES_MAX);
    let show = |part: &[u8]| verifier.update(part);
    let held = Held::read(body, max, show, &gateway.options.spool_dir).await.map_err(unread)?;
    let content = verifier.finish().map_err(|no| refused(&no))?;
    let memory = gateway.webhook_memory.place(held.length()).await.ok_or_else(|| {
        full("many long deliveries are being stored; this one was not noted, deliver it again")
    })?;
    let body = held.bytes().await.map_err(|error| unread(ReadError::from(error)))?;
    let said = source.verify.read_verified(&head.headers, &body).map_err(|no| refused(&no))?;
    let arrival = Arrival {
        source: source.name.clone(),
        id: said.id,
        fingerprint: content.fingerprint(gateway.engine.identity_key()),
        entity: said.entity,
        version: said.version,
        retention: source.retention,
        headers: lines(gateway, &head, caller),
        body: body.into(),
    };
    Ok(Read { arrival, room, _memory: memory })
}

/// Room for one more message of a source.
async fn room(webhooks: &Webhooks, source: &WebhookSource) -> Result<Room, Refused> {
    match webhooks.intake.room(&source.name, source.max_waiting).await {
        Ok(Some(room)) => Ok(room),
        Ok(None) => Err(full(
            "as many messages of this source wait for their handler as may; this one was not noted, deliver it again",
        )),
        Err(error) => {
            tracing::error!(source = source.name, %error, "whether a source has room is not known");
            Err((None, answers::store_unavailable()))
        }
    }
}

fn full(detail: &str) -> Refused {
    let problem = ProblemDocument::new(Problem::InboxFull, detail).retry_after(retry::RETRY_AFTER_MAX);
    (Some(Decision::Full), problem)
}

fn refused(refusal: &Refusal) -> Refused {
    let (decision, problem) = match refusal.is_of_the_signature() {
        true => (Decision::SignatureInvalid, Problem::SignatureInvalid),
        false => (Decision::Unreadable, Problem::RequestInvalid),
    };
    (Some(decision), ProblemDocument::new(problem, refusal.to_string()))
}

/// The sender's header lines but for those of its connection. A value that is no text is none of a webhook's.
fn lines(gateway: &Gateway, head: &Head, caller: Caller) -> Vec<(String, String)> {
    let of_connection = [header::HOST, header::CONTENT_LENGTH, header::TRAILER, header::ACCEPT_ENCODING];
    let headers = head.believed_headers(gateway, caller);
    let lines = headers.iter().filter(|(name, _)| !of_connection.contains(name));
    let text = |value: &HeaderValue| Some(std::str::from_utf8(value.as_bytes()).ok()?.to_owned());
    lines.filter_map(|(name, value)| Some((name.to_string(), text(value)?))).collect()
}
