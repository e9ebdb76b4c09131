//! What is wrong with a contract: what could double an effect in silence, and what is merely unwise.

use std::time::Duration;

use super::{
    AfterExpiry, Contract, DURATION_MIN, ForwardKey, LookUp, OnStale, Retention, ScopeSource, StoreMode,
    Variable,
};
use crate::reconcile::Fence;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Worth a word at start; refused with `--strict`.
    Warning,
    /// Could double an effect in silence, or cannot work: refused.
    Refused,
}

/// One thing that is wrong with a contract.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// The setting it is about.
    pub setting: &'static str,
    /// What is wrong and what to do.
    pub message: String,
}

/// A retention below this is shorter than what clients and queues commonly retry for.
pub const RETRY_HORIZON: Duration = Duration::from_secs(86_400);

impl Contract {
    /// Everything that is wrong with this contract, refusals first.
    pub fn check(&self) -> Vec<Finding> {
        let mut found = Vec::new();
        let mut add = |severity, setting, message: String| found.push(Finding { severity, setting, message });
        if self.boundary.trim().is_empty() {
            add(
                Severity::Refused,
                "boundary",
                "a boundary in words is required, such as \"one order for each key\"".into(),
            );
        }
        if self.lease < DURATION_MIN {
            add(Severity::Refused, "lease", "the smallest lease is 1s".into());
        }
        if self.scope.is_empty() {
            add(Severity::Refused, "scope", "at least one part, or \"shared\", is required".into());
        }
        if self.scope.contains(&ScopeSource::Shared) && self.scope.len() > 1 {
            add(Severity::Refused, "scope", "\"shared\" stands alone: it means everybody".into());
        }
        if self.key.headers.is_empty() && self.key.body.is_none() {
            add(Severity::Refused, "key", "name a header or a body pointer that carries the key".into());
        }
        if self.on_stale == OnStale::Resume && self.forward_key == ForwardKey::None {
            add(
                Severity::Refused,
                "on_stale",
                "\"resume\" repeats the request, so the upstream must get the key: set forward_key to \"same\" or \"derived\"".into(),
            );
        }
        if self.on_stale == OnStale::Reconcile && self.reconcile.is_none() {
            add(
                Severity::Refused,
                "on_stale",
                "\"reconcile\" needs somebody to ask: name it in reconcile".into(),
            );
        }
        if let Some(look_up) = &self.reconcile {
            for (severity, message) in self.check_look_up(look_up) {
                add(severity, "reconcile", message.into());
            }
        }
        match self.retention {
            Retention::For(retention) if retention < DURATION_MIN => {
                add(Severity::Refused, "retention", "the smallest retention is 1s".into());
            }
            Retention::For(retention) if retention < RETRY_HORIZON => {
                add(
                    Severity::Warning,
                    "retention",
                    format!(
                        "{retention:?} is shorter than the day for which clients and queues commonly retry"
                    ),
                );
                if self.after_expiry == AfterExpiry::New {
                    add(
                        Severity::Warning,
                        "after_expiry",
                        "\"new\" with a short retention lets a late retry create a second effect".into(),
                    );
                }
            }
            _ => {}
        }
        if self.scope == [ScopeSource::Shared] && self.store_response.mode == StoreMode::Full {
            add(
                Severity::Warning,
                "scope",
                "\"shared\": whoever knows a key can read the kept answer".into(),
            );
        }
        found.sort_by_key(|f| std::cmp::Reverse(f.severity));
        found
    }

    fn check_look_up(&self, look_up: &LookUp) -> Vec<(Severity, &'static str)> {
        let mut found = Vec::new();
        if self.on_stale == OnStale::Resume {
            found.push((
                Severity::Warning,
                "under on_stale = \"resume\" the next request is sent on, so nobody is asked but after a release",
            ));
        }
        let no_key = self.forward_key == ForwardKey::None;
        if look_up.get.variables().next().is_none() {
            found.push((
                Severity::Refused,
                "the look-up asks the same for every operation: write {{key}}, {{operation_id}} or {{downstream_key}} into its URL",
            ));
        }
        if no_key && look_up.get.variables().any(|v| v == Variable::DownstreamKey) {
            found.push((
                Severity::Refused,
                "{{downstream_key}} is the key that the upstream gets, and it gets none: set forward_key to \"same\" or \"derived\"",
            ));
        }
        if no_key && look_up.fence == Some(Fence::SameKey) {
            found.push((
                Severity::Refused,
                "the fence \"same_key\" repeats the request, so the upstream must get the key: set forward_key to \"same\" or \"derived\"",
            ));
        }
        if !look_up.did_not_happen.is_empty() && look_up.fence.is_none() {
            found.push((
                Severity::Warning,
                "without a fence a negative answer frees nothing, since the request may still arrive: a person has to settle it",
            ));
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(change: impl FnOnce(&mut Contract)) -> Vec<&'static str> {
        let mut contract = Contract::new("CreateOrder", "one order for each key");
        change(&mut contract);
        let findings = contract.check();
        findings.iter().filter(|f| f.severity == Severity::Refused).map(|f| f.setting).collect()
    }

    #[test]
    fn the_defaults_are_accepted_without_a_word() {
        assert_eq!(Contract::new("CreateOrder", "one order for each key").check(), []);
    }

    #[test]
    fn what_could_double_an_effect_or_cannot_work_is_refused() {
        assert_eq!(refused(|c| c.boundary = " ".into()), ["boundary"]);
        assert_eq!(refused(|c| c.lease = Duration::from_millis(999)), ["lease"]);
        assert_eq!(refused(|c| c.retention = Retention::For(Duration::ZERO)), ["retention"]);
        assert_eq!(refused(|c| c.scope.clear()), ["scope"]);
        assert_eq!(refused(|c| c.scope.push(ScopeSource::Shared)), ["scope"]);
        assert_eq!(refused(|c| c.key.headers.clear()), ["key"]);
        let resume_without_key = |c: &mut Contract| {
            c.on_stale = OnStale::Resume;
            c.forward_key = ForwardKey::None;
        };
        assert_eq!(refused(resume_without_key), ["on_stale"]);
        assert_eq!(refused(|c| c.on_stale = OnStale::Reconcile), ["on_stale"]);
        assert_eq!(refused(|c| c.reconcile = Some(look_up("http://h/orders", None))), ["reconcile"]);
        for (url, fence) in
            [("http://h/{{downstream_key}}", None), ("http://h/{{key}}", Some(Fence::SameKey))]
        {
            let keyless = |c: &mut Contract| {
                c.reconcile = Some(look_up(url, fence));
                c.forward_key = ForwardKey::None;
            };
            assert_eq!(refused(keyless), ["reconcile"], "{url}");
        }
    }

    fn look_up(url: &str, fence: Option<Fence>) -> LookUp {
        let status = |status| vec![crate::contract::StatusPattern::Exactly(status)];
        LookUp { get: url.parse().unwrap(), happened: status(200), did_not_happen: status(404), fence }
    }

    #[test]
    fn negative_answer_without_a_fence_is_a_warning() {
        let mut contract = Contract::new("CreateOrder", "one order for each key");
        contract.reconcile = Some(look_up("http://h/{{key}}", None));
        let found: Vec<_> = contract.check().iter().map(|f| (f.severity, f.setting)).collect();
        assert_eq!(found, [(Severity::Warning, "reconcile")]);
        contract.reconcile = Some(look_up("http://h/{{key}}", Some(Fence::Tombstoned)));
        assert_eq!(contract.check(), []);
    }

    #[test]
    fn what_is_merely_unwise_is_a_warning() {
        let mut contract = Contract::new("CreateOrder", "one order for each key");
        contract.retention = Retention::For(Duration::from_secs(60));
        contract.after_expiry = AfterExpiry::New;
        contract.scope = vec![ScopeSource::Shared];
        let settings: Vec<_> = contract.check().iter().map(|f| (f.severity, f.setting)).collect();
        assert_eq!(settings, ["retention", "after_expiry", "scope"].map(|s| (Severity::Warning, s)));
    }
}
