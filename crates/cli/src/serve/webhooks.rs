//! `[[inbox]]` of the settings as the gateway takes it.

use onefold_config::{Inbox, Settings};
use onefold_gateway::{Reply, WebhookSource, Webhooks};
use onefold_messages::Intake;

use crate::exit::Failure;
use crate::store::Store;

/// What is taken in; `None` when nothing is.
pub(super) fn of(settings: &Settings, store: &Store) -> Result<Option<Webhooks>, Failure> {
    if settings.inbox.is_empty() {
        return Ok(None);
    }
    let sources = settings.inbox.iter().map(source).collect::<Result<Vec<_>, _>>()?.into();
    Ok(Some(Webhooks { intake: Intake::new(store.message_store(), "gateway"), sources }))
}

fn source(inbox: &Inbox) -> Result<WebhookSource, Failure> {
    let wrong =
        |error: &dyn std::fmt::Display| Failure::usage(format!("[[inbox]] {}: {error}", inbox.source));
    Ok(WebhookSource {
        name: inbox.source.clone(),
        verify: inbox.verify.clone(),
        retention: inbox.retention,
        max_waiting: inbox.max_waiting,
        handler: inbox.forward.url.parse().map_err(|error| wrong(&error))?,
        timeout: inbox.forward.timeout,
        attempts: inbox.forward.attempts,
        reply: match inbox.reply {
            onefold_config::Reply::Accepted => Reply::Accepted,
            onefold_config::Reply::Forwarded => Reply::Forwarded,
        },
    })
}
