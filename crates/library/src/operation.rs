//! What a service promises of one operation: a contract in the words of code.

use std::sync::{Arc, Once};
use std::time::Duration;

use onefold_canon::{BodyHasher, BodyKind, Pointer};
use onefold_core::contract::{AfterExpiry, DURATION_MIN, Finding, Retention, ScopeSource, WhileRunning};
use onefold_core::key::KeyTime;
use onefold_core::{Contract, Fingerprint, FingerprintBuilder, Identity, Key, Scope};
use serde::Serialize;

use crate::call::Significant;
use crate::news::is_news;
use crate::typed::Upgrade;
use crate::{Call, CallError};

/// What an untyped error means outside a transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnError {
    /// Something may have happened.
    #[default]
    Unknown,
    /// Nothing happened: only where every error of the work is certain of that.
    NotDone,
}

/// One operation. Make it once and share it; cheap to clone.
#[derive(Clone, Debug)]
pub struct Operation {
    contract: Arc<Contract>,
    on_error: OnError,
    value_version: u16,
    upgrade: Option<Upgrade>,
    ignore: Vec<Pointer>,
    /// What is unwise about it was looked at.
    told: Arc<Once>,
}

impl Operation {
    /// An operation with its boundary in words, such as `"one order row for each checkout"`.
    ///
    /// # Panics
    /// Without a name or without a boundary: an operation that promises nothing is a mistake in the program.
    pub fn new(name: impl Into<String>, boundary: impl Into<String>) -> Operation {
        let mut contract = Contract::new(name, boundary);
        assert!(!contract.operation.trim().is_empty(), "an operation needs a name");
        assert!(!contract.boundary.trim().is_empty(), "an operation needs a boundary in words");
        contract.scope = vec![ScopeSource::Shared];
        Operation {
            contract: Arc::new(contract),
            on_error: OnError::default(),
            value_version: 1,
            upgrade: None,
            ignore: Vec::new(),
            told: Arc::new(Once::new()),
        }
    }

    fn with(mut self, set: impl FnOnce(&mut Contract)) -> Operation {
        set(Arc::make_mut(&mut self.contract));
        self.told = Arc::new(Once::new());
        self
    }

    /// How long a finished record answers duplicates: from its completion on, 7 days by default. Choose longer than
    /// anybody retries: one of less than a day is told in the log at the first call. One of less than a second is raised
    /// to that, with a warning in the log.
    pub fn retention(self, retention: Duration) -> Operation {
        let retention = self.no_shorter("retention", retention);
        self.with(|contract| contract.retention = Retention::For(retention))
    }

    /// The record answers for good, as it should where the key is a business key.
    pub fn keep_forever(self) -> Operation {
        self.with(|contract| contract.retention = Retention::Forever)
    }

    /// What a request meets after the retention.
    pub fn after_expiry(self, after: AfterExpiry) -> Operation {
        self.with(|contract| contract.after_expiry = after)
    }

    /// How long an attempt outside a transaction owns the operation without a heartbeat: 30 seconds by default. A living
    /// attempt renews it by itself. One of less than a second is raised to that, with a warning in the log.
    pub fn lease(self, lease: Duration) -> Operation {
        let lease = self.no_shorter("lease", lease);
        self.with(|contract| contract.lease = lease)
    }

    fn no_shorter(&self, setting: &'static str, asked: Duration) -> Duration {
        if asked < DURATION_MIN {
            let operation = &self.contract.operation;
            tracing::warn!(
                operation,
                setting,
                "{asked:?} is raised to {DURATION_MIN:?}, the shortest there is"
            );
        }
        asked.max(DURATION_MIN)
    }

    /// What is unwise about its contract, by the rules by which `onefold serve` warns of a gateway's. The first call of
    /// the operation says so in the log, once in a process. Whose key it is and where the key comes from are each call's: not
    /// looked at.
    pub fn findings(&self) -> Vec<Finding> {
        let of_calls = |finding: &Finding| ["scope", "key"].contains(&finding.setting);
        self.contract.check().into_iter().filter(|finding| !of_calls(finding)).collect()
    }

    fn tell(&self) {
        self.told.call_once(|| {
            for Finding { setting, message, .. } in self.findings() {
                if is_news(&self.contract.operation, setting) {
                    tracing::warn!(operation = self.contract.operation, setting, "{message}");
                }
            }
        });
    }

    /// What a duplicate meets while the first attempt runs: by default it waits 5 seconds.
    pub fn while_running(self, while_running: WhileRunning) -> Operation {
        self.with(|contract| contract.while_running = while_running)
    }

    /// Attempts in all that may end as not done; 0 is no maximum. What is rolled back in atomic mode is no attempt that
    /// anybody remembers.
    pub fn max_attempts(self, attempts: u32) -> Operation {
        self.with(|contract| contract.max_attempts = attempts)
    }

    /// Which keys carry a time. By default those that are version 7 UUIDs: one that says itself that it is older than the
    /// retention is refused.
    pub fn key_time(self, time: KeyTime) -> Operation {
        self.with(|contract| contract.key.time = time)
    }

    /// What an untyped error of reserved mode means. By default that the outcome is unknown.
    pub fn on_error(mut self, on_error: OnError) -> Operation {
        self.on_error = on_error;
        self
    }

    /// What of the request does not count: JSON pointers such as `/trace_id`.
    ///
    /// # Panics
    /// If one of them is no JSON pointer.
    pub fn ignore(self, pointers: &[&str]) -> Operation {
        let parsed = pointers.iter().map(|text| text.parse().expect("an ignored field is a JSON pointer"));
        let ignore = parsed.collect();
        let names = pointers.iter().map(|text| (*text).to_owned()).collect();
        Operation { ignore, ..self.with(|contract| contract.fingerprint.ignore = names) }
    }

    /// The version of the result's form: 1 at first, any number up to 65 535. Raise it when a stored result could not be
    /// read as the type that it has now. A result of a later version than this one cannot be read
    /// ([`CallError::ValueUnreadable`]).
    pub fn value_version(mut self, version: u16) -> Operation {
        self.value_version = version;
        self
    }

    /// Brings a stored result of an older version into the present form; `None` where it cannot, which its caller is told as
    /// [`CallError::ValueUnreadable`]. It runs with each replay, in the task of the caller, whose panic its panic is.
    pub fn upgrade(mut self, upgrade: Upgrade) -> Operation {
        self.upgrade = Some(upgrade);
        self
    }

    /// A call under this key: the intention of one caller, whose scope it is, and what is asked.
    ///
    /// The request is compared by its canonical JSON: another order of members or notation of numbers is the same
    /// request, any other difference is a conflict.
    ///
    /// # Errors
    /// [`CallError::KeyInvalid`]: the key is empty, blank or longer than 255 bytes. [`CallError::RequestInvalid`]: the
    /// request cannot be written as JSON. Nothing was asked of the store.
    pub fn call(
        &self,
        scope: Scope,
        key: impl Into<String>,
        request: &(impl Serialize + ?Sized),
    ) -> Result<Call, CallError> {
        let key = Key::new(key).map_err(CallError::KeyInvalid)?;
        let json =
            serde_json::to_vec(request).map_err(|error| CallError::RequestInvalid(error.to_string()))?;
        let mut hasher = BodyHasher::new(BodyKind::Json, &self.ignore);
        hasher.update(&json);
        Ok(self.call_of(scope, key, Significant::Digest(hasher.finish().digest)))
    }

    /// A call whose fingerprint is known already, such as that of an HTTP request.
    pub fn call_as(&self, scope: Scope, key: Key, fingerprint: Fingerprint) -> Call {
        self.call_of(scope, key, Significant::Fingerprint(fingerprint))
    }

    fn call_of(&self, scope: Scope, key: Key, significant: Significant) -> Call {
        self.tell();
        let operation = self.contract.operation.clone();
        Call {
            operation: self.clone(),
            identity: Identity { scope, operation, key },
            significant,
            correlation_id: None,
            traceparent: None,
        }
    }

    /// What it promises.
    pub fn contract(&self) -> &Arc<Contract> {
        &self.contract
    }

    /// What of the request does not count.
    pub fn ignored(&self) -> &[Pointer] {
        &self.ignore
    }

    pub(crate) fn errors(&self) -> OnError {
        self.on_error
    }

    pub(crate) fn version(&self) -> u16 {
        self.value_version
    }

    pub(crate) fn upgrading(&self) -> Option<Upgrade> {
        self.upgrade
    }
}

/// The fingerprint of a canonical request under the store's secret.
pub(crate) fn fingerprint(digest: &[u8; 32], secret: &onefold_core::IdentityKey) -> Fingerprint {
    FingerprintBuilder::new(secret).part("request", digest).finish()
}
