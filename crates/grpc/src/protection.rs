//! What one method is protected by.
//!
//! Whatever is wrong with a call is found here, before anything is claimed.

use std::fmt;
use std::sync::Arc;

use onefold_canon::{BodyHasher, BodyKind};
use onefold_core::{FingerprintBuilder, Problem};
use onefold_http::{ProblemDocument, answers};
use onefold_library::{AtomicStore, Call, Onefold, Operation, SqliteStore};
use prost::Message;
use serde::Serialize;
use tonic::{Request, Status};

use crate::keys::Keys;
use crate::perform::Admitted;
use crate::{Whose, answer};

/// The protection of one unary method. Make it once; cheap to clone.
pub struct Protection<S = SqliteStore> {
    onefold: Onefold<S>,
    operation: Operation,
    method: Arc<str>,
    keys: Keys,
    whose: Whose,
}

impl<S> Clone for Protection<S> {
    fn clone(&self) -> Self {
        let Protection { onefold, operation, method, keys, whose } = self;
        Protection {
            onefold: onefold.clone(),
            operation: operation.clone(),
            method: method.clone(),
            keys: keys.clone(),
            whose: whose.clone(),
        }
    }
}

impl<S> fmt::Debug for Protection<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Protection").field("method", &self.method).field("whose", &self.whose).finish()
    }
}

impl<S: AtomicStore> Protection<S> {
    /// Protects a method by this operation. `method` is its full path, such as `/shop.v1.Orders/Place`: it belongs to the
    /// fingerprint, since a handler of tonic does not learn it.
    ///
    /// # Panics
    /// If `method` is no path of a service and a method.
    pub fn new(
        onefold: &Onefold<S>,
        operation: Operation,
        method: impl Into<Arc<str>>,
        whose: Whose,
    ) -> Protection<S> {
        let method = method.into();
        let parts: Vec<&str> = method.split('/').collect();
        let is_path = matches!(parts[..], ["", service, name] if !service.is_empty() && !name.is_empty());
        assert!(is_path, "a method has a path such as \"/shop.v1.Orders/Place\"");
        let keys = Keys::of_metadata(operation.contract().key.clone());
        Protection { onefold: onefold.clone(), operation, method, keys, whose }
    }

    /// The metadata that may carry the key, instead of `idempotency-key`. Those that are there must agree.
    pub fn key_metadata(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Protection<S> {
        self.keys.rule.headers = names.into_iter().map(Into::into).collect();
        self
    }

    /// The field of the message that names the key: a caller need not say it in the metadata as well, and where it does
    /// the two must agree. An empty text names none. `M` is the method's message.
    pub fn key_of<M: 'static>(mut self, field: impl Fn(&M) -> &str + Send + Sync + 'static) -> Protection<S> {
        self.keys = self.keys.of_message(field);
        self
    }

    /// The call that this request asks for. The whole message is significant: its encoding as prost writes it, so that
    /// neither the order in which the caller wrote the fields nor fields that this program does not know count.
    ///
    /// A message with maps needs prost's `btree_map` when its code is generated: a `HashMap` is encoded in an order of
    /// chance, and equal messages would be conflicts.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` with the reason `key-missing`, `key-invalid` or `key-ambiguous`; `UNAUTHENTICATED` with
    /// `scope-missing` (`docs/grpc.md`). Nothing was claimed, and nothing was asked of the store.
    pub fn admit<M: Message + 'static>(&self, request: Request<M>) -> Result<Admitted<M, S>, Status> {
        self.require(self.call(&request)?, request)
    }

    /// The same, where this value of the message alone is significant. It is compared by its canonical JSON.
    ///
    /// # Errors
    /// Those of [`Protection::admit`]; `INVALID_ARGUMENT` with the reason `request-invalid` where the value cannot be
    /// written as JSON.
    pub fn admit_by<M: 'static, V: Serialize>(
        &self,
        request: Request<M>,
        significant: impl FnOnce(&M) -> V,
    ) -> Result<Admitted<M, S>, Status> {
        let value = serde_json::to_vec(&significant(request.get_ref())).map_err(|_| {
            let detail = "the significant value of the message cannot be compared";
            answer::refusal(ProblemDocument::new(Problem::RequestInvalid, detail))
        })?;
        let mut hasher = BodyHasher::new(BodyKind::Json, self.operation.ignored());
        hasher.update(&value);
        let call = self.call_of(&request, "value", &hasher.finish().digest)?;
        self.require(call, request)
    }

    /// For methods whose key is optional: the call, or `None` without a key. Such a call shares a record with nobody.
    ///
    /// # Errors
    /// Those of [`Protection::admit`] but `key-missing`.
    pub fn call<M: Message + 'static>(&self, request: &Request<M>) -> Result<Option<Call>, Status> {
        self.call_of(request, "message", &request.get_ref().encode_to_vec())
    }

    fn call_of<M: 'static>(
        &self,
        request: &Request<M>,
        part: &str,
        value: &[u8],
    ) -> Result<Option<Call>, Status> {
        let engine = self.onefold.engine();
        let Some(key) = self.keys.of(request)? else { return Ok(None) };
        let scope = self.whose.of(request, engine.identity_key(), engine.unix_time());
        let scope =
            scope.map_err(|missing| answer::refusal(ProblemDocument::new(Problem::ScopeMissing, missing)))?;
        let fingerprint = FingerprintBuilder::new(engine.identity_key())
            .part("grpc-method", self.method.as_bytes())
            .part(part, value)
            .finish();
        let said = |name| request.metadata().get(name).and_then(|said| said.to_str().ok());
        Ok(Some(self.operation.call_as(scope, key, fingerprint).tied(said)))
    }

    pub(crate) fn onefold(&self) -> &Onefold<S> {
        &self.onefold
    }

    pub(crate) fn operation(&self) -> &Operation {
        &self.operation
    }

    fn require<M>(&self, call: Option<Call>, request: Request<M>) -> Result<Admitted<M, S>, Status> {
        let call = call.ok_or_else(|| answer::refusal(answers::key_missing(&self.keys.rule)))?;
        Ok(Admitted { onefold: self.onefold.clone(), call, message: request.into_inner() })
    }
}
