//! One request under one identity.

use std::sync::Arc;

use onefold_core::contract::OnStale;
use onefold_core::{
    CORRELATION_ID, Fingerprint, Identity, IdentityKey, Scope, TRACEPARENT, header_id, traceparent,
};

use crate::Operation;
use crate::operation::fingerprint;

/// What makes two requests the same.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Significant {
    /// A canonical digest, without the store's secret.
    Digest([u8; 32]),
    /// The fingerprint itself.
    Fingerprint(Fingerprint),
}

/// One call of an operation. The same call may be made any number of times.
#[derive(Clone, Debug)]
pub struct Call {
    pub(crate) operation: Operation,
    pub(crate) identity: Identity,
    pub(crate) significant: Significant,
    pub(crate) correlation_id: Option<String>,
    pub(crate) traceparent: Option<String>,
}

impl Call {
    /// Ties it to other operations of one workflow. It is never used to deduplicate. Kept with the record.
    pub fn correlated(mut self, id: impl Into<String>) -> Call {
        self.correlation_id = Some(id.into());
        self
    }

    /// Puts it into a trace, by the `traceparent` of whoever calls (W3C Trace Context): messages that are made in
    /// atomic mode carry it on as it is. Not kept with the record, so whoever settles the operation later does not know
    /// it. One that is malformed is handed on to nobody.
    pub fn traced(mut self, traceparent: impl Into<String>) -> Call {
        self.traceparent = Some(traceparent.into());
        self
    }

    /// Correlated and traced by what the headers of whoever calls say of it; `said` gives the value of a header. What
    /// is malformed is left out.
    pub fn tied<'h>(self, said: impl Fn(&'static str) -> Option<&'h str>) -> Call {
        let Call { correlation_id, traceparent: trace, .. } = self;
        let correlation_id = said(CORRELATION_ID).and_then(header_id).map(str::to_owned).or(correlation_id);
        let traceparent = said(TRACEPARENT).and_then(traceparent).map(str::to_owned).or(trace);
        Call { correlation_id, traceparent, ..self }
    }

    /// The caller's key, as the caller gave it.
    pub fn key(&self) -> &str {
        self.identity.key.as_str()
    }

    /// The operation.
    pub fn operation(&self) -> &Operation {
        &self.operation
    }

    /// The operation's id in this store.
    pub fn id<S: onefold_store::AtomicStore>(
        &self,
        onefold: &crate::Onefold<S>,
    ) -> onefold_core::OperationId {
        self.identity.id(onefold.engine().identity_key(), self.operation.contract().key.time)
    }

    /// Whose key it is.
    pub fn scope(&self) -> &Scope {
        &self.identity.scope
    }

    pub(crate) fn for_engine(&self, secret: &IdentityKey) -> onefold_engine::Call {
        let fingerprint = match &self.significant {
            Significant::Digest(digest) => fingerprint(digest, secret),
            Significant::Fingerprint(fingerprint) => *fingerprint,
        };
        onefold_engine::Call {
            contract: self.operation.contract().clone(),
            label: Arc::from(self.identity.operation.as_str()),
            identity: self.identity.clone(),
            fingerprint,
            correlation_id: self.correlation_id.clone(),
        }
    }

    /// The same, where the next attempt resumes one that was lost.
    pub(crate) fn resumable(&self, secret: &IdentityKey) -> onefold_engine::Call {
        let mut call = self.for_engine(secret);
        Arc::make_mut(&mut call.contract).on_stale = OnStale::Resume;
        call
    }
}
