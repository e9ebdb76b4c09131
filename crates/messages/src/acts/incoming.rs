//! What people do to messages that came in: those that were parked are let go on, and those that a permit is for are
//! handled again from their kept bodies.
//!
//! Nothing is handled here: what is let go on stands in the store as due, and a running consumer, or the gateway whose
//! webhook it is, takes it from there. After a crash in the middle the rest is as it was, and asked again the rest is
//! done; a message that was just being let through under a permit stands parked in its round until then.

use onefold_core::contract::Retention;
use onefold_core::{InboxEntry, InboxState, OperationId, Permit};
use onefold_store::{Failure, InboxQuery, Mark, StoreError, Unparking};

use super::{ActError, Acted, Messages, pause, required};
use crate::aside::is_put_aside;
use crate::limits::PAGE;

/// Which parked messages are let go on.
#[derive(Clone, Debug)]
pub enum WhichIncoming {
    /// These.
    Ids(Vec<OperationId>),
    /// All whose handler failed, of this consumer, of this source, or of both; one of them must be named. What was put
    /// aside for another reason (no id, another message's id, older than the marks) is passed over: each is a decision
    /// of its own.
    All {
        /// The consumer.
        consumer: Option<String>,
        /// The source.
        source: Option<String>,
    },
}

/// One act on parked messages.
#[derive(Clone, Debug)]
pub struct ActOnIncoming {
    /// On which.
    pub which: WhichIncoming,
    /// How many are due in a second; `None` is all at once.
    pub per_second: Option<u32>,
    /// Who.
    pub who: String,
    /// Why; required.
    pub reason: String,
}

/// A wish that a consumer handles again, from the bodies that are kept, what a permit is for.
#[derive(Clone, Debug)]
pub struct HandleAgain {
    /// The number of the permit.
    pub permit: u32,
    /// How many are due in a second; `None` is all at once.
    pub per_second: Option<u32>,
    /// Who.
    pub who: String,
    /// Why; required.
    pub reason: String,
}

impl Messages {
    /// Lets parked messages be handled again: by their consumer from the kept body, or by the next delivery.
    /// *Errors* and *cancellation:* what was done stays done; asked again, the rest is done.
    pub async fn unpark(&self, ids: &[OperationId], who: &str, reason: &str) -> Result<Acted, ActError> {
        let which = WhichIncoming::Ids(ids.to_vec());
        let act = ActOnIncoming { which, per_second: None, who: who.into(), reason: reason.into() };
        self.act_on_incoming(act).await
    }

    /// The same with a pace, and for all of a consumer or source. The pace is of what is handled from kept bodies; a
    /// delivery is handled when it comes. *Errors:* [`ActError::ReasonMissing`] and [`ActError::Invalid`] have changed
    /// nothing; after [`ActError::Store`] what was done stays done. *Cancellation:* the same; asked again, the rest is
    /// done.
    pub async fn act_on_incoming(&self, act: ActOnIncoming) -> Result<Acted, ActError> {
        required(&act.reason)?;
        let mut acted = Acted::default();
        match &act.which {
            WhichIncoming::Ids(ids) => {
                for id in ids {
                    match self.0.entries(*id).await?.last() {
                        None => acted.pass_over(id.to_string(), "there is no such message"),
                        Some(entry) if entry.state != InboxState::Parked => {
                            acted.pass_over(id.to_string(), format!("it is {}", entry.state));
                        }
                        Some(entry) => self.let_go_on(entry, &act, &mut acted).await?,
                    }
                }
            }
            WhichIncoming::All { consumer: None, source: None } => {
                return Err(ActError::Invalid("name the consumer or the source".into()));
            }
            WhichIncoming::All { consumer, source } => {
                let (consumer, source, state) = (consumer.clone(), source.clone(), Some(InboxState::Parked));
                let mut pages = Pages::of(InboxQuery { consumer, source, state, ..InboxQuery::default() });
                while let Some(entries) = pages.next(self).await? {
                    for entry in &entries {
                        match entry.reason.as_deref() {
                            Some(why) if is_put_aside(why) => {
                                acted.pass_over(entry.id.to_string(), format!("{why}; name its id"));
                            }
                            _ => self.let_go_on(entry, &act, &mut acted).await?,
                        }
                    }
                }
            }
        }
        tracing::info!(done = acted.done.len(), who = act.who, "a person let parked messages go on");
        Ok(acted)
    }

    async fn let_go_on(
        &self,
        entry: &InboxEntry,
        act: &ActOnIncoming,
        acted: &mut Acted,
    ) -> Result<(), ActError> {
        let unparking = Unparking {
            id: entry.id,
            round: entry.round,
            after: pause(acted.done.len(), act.per_second),
            who: act.who.clone(),
            reason: act.reason.clone(),
        };
        match self.0.unpark(unparking).await? {
            true => acted.done.push(entry.id.to_string()),
            false => acted.pass_over(entry.id.to_string(), "somebody was there before"),
        }
        Ok(())
    }

    /// Has a consumer handle again what a permit is for, in the order in which it first came: each message once under
    /// the permit, from its kept body, by whichever process runs a build that the permit is for. What waits for that
    /// counts as let through: a later end of the permit does not stop it. A message that fails is parked in the round
    /// of the permit. What fails or is parked already, and what has no kept body, is passed over.
    ///
    /// *Errors:* [`ActError::ReasonMissing`], [`ActError::NotFound`] and [`ActError::Revoked`] have changed nothing; after
    /// [`ActError::Store`] what was done stays done. *Cancellation:* the same; asked again, the rest is done.
    pub async fn handle_again(&self, again: HandleAgain) -> Result<Acted, ActError> {
        required(&again.reason)?;
        let permits = self.0.permits(None).await?;
        let found = permits.into_iter().find(|permit| permit.number == again.permit);
        let permit = found.ok_or(ActError::NotFound("permit"))?;
        if permit.revoked.is_some() {
            return Err(ActError::Revoked);
        }
        let (consumer, source) = (Some(permit.consumer.clone()), permit.source.clone());
        let message = permit.message.clone();
        let mut pages = Pages::of(InboxQuery { consumer, source, message, ..InboxQuery::default() });
        let mut acted = Acted::default();
        while let Some(entries) = pages.next(self).await? {
            for entry in entries.iter().filter(|entry| entry.round < permit.number) {
                self.let_through(entry, &permit, &again, &mut acted).await?;
            }
        }
        let (done, who) = (acted.done.len(), &again.who);
        tracing::info!(done, permit = permit.number, who, "a person has messages handled again");
        Ok(acted)
    }

    /// Puts a message into the round of its permit, due in its turn.
    async fn let_through(
        &self,
        entry: &InboxEntry,
        permit: &Permit,
        again: &HandleAgain,
        acted: &mut Acted,
    ) -> Result<(), ActError> {
        let id = entry.id;
        let entries = self.0.entries(id).await?;
        // It is listed once for each of its rounds.
        if entries.first().is_none_or(|first| first.round != entry.round) {
            return Ok(());
        }
        let reason = format!("permit {} lets it through", permit.number);
        let Some(last) = entries.last() else { return Ok(()) };
        if last.round == permit.number
            && last.state == InboxState::Parked
            && last.reason.as_deref() == Some(&*reason)
        {
            return self.let_go(id, permit, again, acted).await;
        }
        // One that is in the round was let through before.
        if last.round >= permit.number || !permit.names(last) {
            return Ok(());
        }
        if matches!(last.state, InboxState::Failing | InboxState::Parked) {
            acted.pass_over(id.to_string(), format!("it is {}", last.state));
            return Ok(());
        }
        let kept = match self.0.kept_message(id, last.round).await {
            Err(StoreError::Refused(why)) => {
                acted.pass_over(id.to_string(), format!("its body cannot be read: {why}"));
                return Ok(());
            }
            kept => kept?,
        };
        let Some(kept) = kept else {
            acted.pass_over(id.to_string(), "its body is not kept; it comes through when it is delivered");
            return Ok(());
        };
        let mark = Mark {
            id,
            round: permit.number,
            identity: last.identity.clone(),
            handler: last.handler.clone(),
            fingerprint: last.fingerprint,
            retention: Retention::Forever,
            too_old_at: None,
            body: Some(kept),
            versioned: None,
        };
        let entry = self.0.fail(Failure { mark, reason, park_after: Some(1) }).await?;
        if entry.round != permit.number {
            acted.pass_over(id.to_string(), "somebody was there before");
            return Ok(());
        }
        self.let_go(id, permit, again, acted).await
    }

    /// Lets a message that was put into the round go, in its turn.
    async fn let_go(
        &self,
        id: OperationId,
        permit: &Permit,
        again: &HandleAgain,
        acted: &mut Acted,
    ) -> Result<(), ActError> {
        let unparking = Unparking {
            id,
            round: permit.number,
            after: pause(acted.done.len(), again.per_second),
            who: again.who.clone(),
            reason: again.reason.clone(),
        };
        match self.0.unpark(unparking).await? {
            true => acted.done.push(id.to_string()),
            false => acted.pass_over(id.to_string(), "somebody was there before"),
        }
        Ok(())
    }
}

/// A listing, page by page.
struct Pages(Option<InboxQuery>);

impl Pages {
    fn of(query: InboxQuery) -> Pages {
        Pages(Some(InboxQuery { limit: PAGE, ..query }))
    }

    async fn next(&mut self, messages: &Messages) -> Result<Option<Vec<InboxEntry>>, StoreError> {
        let Some(query) = self.0.take() else { return Ok(None) };
        let page = messages.list_incoming(query.clone()).await?;
        self.0 = page.next_cursor.map(|cursor| InboxQuery { cursor: Some(cursor), ..query });
        Ok(Some(page.entries))
    }
}
