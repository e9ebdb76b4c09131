//! `reconcile` of the settings: a look-up by GET, and what its status says.
//!
//! A look-up carries no credentials of anybody. Its answer is not the answer of the original request, so what
//! duplicates get after "it happened" is the way to the resource, where the look-up names one; only under
//! `response = "current"`, which promises the resource as it is now, is the look-up's own answer kept.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderMap, StatusCode, Uri, header};
use onefold_canon::Pointer;
use onefold_core::contract::{ForwardKey, LookUp, ResponsePolicy, StatusPattern, StoreMode, Variable};
use onefold_core::reconcile::{Found, Verdict};
use onefold_core::{Contract, Kept, NotKept, Resource};
use onefold_engine::{Probed, Reconciler, Registration, Subject};
use onefold_http::capture::{self, Recorded};

use crate::limits::{EXCERPT_CHARS_MAX, LATE_TIMEOUTS, LOOK_UP_BYTES_MAX, LOOK_UP_MAX};
use crate::look_up::{Services, body};
use crate::options::{Options, Route};
use crate::perform::UPSTREAM_STEP;

/// The routes whose contracts name a look-up.
pub(crate) fn registrations(options: &Options, services: &Services) -> Vec<Registration> {
    let registered = options.routes.iter().filter_map(|route| {
        let asks = Asks {
            look_up: route.contract.reconcile.clone()?,
            contract: route.contract.clone(),
            redact: route.redact.clone(),
            services: services.clone(),
            within: options.upstream_timeout.min(LOOK_UP_MAX),
            keep_excerpts: options.keep_excerpts,
        };
        Some(registration(route, asks, options.upstream_timeout))
    });
    registered.collect()
}

fn registration(route: &Route, asks: Asks, upstream_timeout: Duration) -> Registration {
    Registration {
        operation: route.contract.operation.clone(),
        label: route.label.clone(),
        probe_max: asks.within * 2,
        reconciler: Arc::new(asks),
        // As long as an attempt is listened to, its request may still be being written; one more for good measure.
        sends_for: upstream_timeout * (LATE_TIMEOUTS + 1),
        companion: None,
    }
}

struct Asks {
    look_up: LookUp,
    contract: Arc<Contract>,
    redact: Vec<Pointer>,
    services: Services,
    within: Duration,
    keep_excerpts: bool,
}

#[async_trait]
impl Reconciler for Asks {
    async fn probe(&self, subject: &Subject) -> Probed {
        let Ok(url) = self.url(subject).parse::<Uri>() else {
            return Probed::inconclusive("the look-up has no URL for this key", "");
        };
        let response = match self.services.get(&url, HeaderMap::new(), self.within).await {
            Ok(response) => response,
            Err(why) => return Probed::inconclusive(format!("the look-up was not answered: {why}"), ""),
        };
        let (parts, answer) = response.into_parts();
        let status = parts.status.as_u16();
        let bytes = match body(answer, LOOK_UP_BYTES_MAX, self.within).await {
            Ok(bytes) => bytes,
            Err(why) => {
                let reason = format!("the look-up answered {status}, but not to its end: {why}");
                return Probed::inconclusive(reason, format!("status {status}"));
            }
        };
        let evidence = self.evidence(status, &bytes);
        let (verdict, reason) = match self.meaning(status) {
            Some(true) => (Verdict::Happened(self.found(parts.status, &parts.headers, bytes)), "look-up"),
            Some(false) => (Verdict::DidNotHappen(self.look_up.fence), "look-up"),
            None => (Verdict::Inconclusive, "the contract does not say what this means: look-up"),
        };
        Probed { verdict, reason: format!("{reason} answered {status}"), evidence }
    }
}

impl Asks {
    fn url(&self, subject: &Subject) -> String {
        let record = subject.record();
        let key = || record.key.as_ref().map(|key| key.as_str().to_owned()).unwrap_or_default();
        self.look_up.get.fill(|variable| match (variable, self.contract.forward_key) {
            (Variable::OperationId, _) => record.id.to_string(),
            (Variable::DownstreamKey, ForwardKey::Derived) => subject.downstream_key(UPSTREAM_STEP),
            (Variable::Key | Variable::DownstreamKey, _) => key(),
        })
    }

    /// Whether it happened. A status beats a class; what nobody names says nothing.
    fn meaning(&self, status: u16) -> Option<bool> {
        let LookUp { happened, did_not_happen, .. } = &self.look_up;
        let says =
            |pattern: StatusPattern| match (happened.contains(&pattern), did_not_happen.contains(&pattern)) {
                (true, _) => Some(true),
                (_, true) => Some(false),
                _ => None,
            };
        says(StatusPattern::Exactly(status)).or_else(|| says(StatusPattern::Class(status / 100)))
    }

    fn found(&self, status: StatusCode, headers: &HeaderMap, body: Bytes) -> Found {
        let location = headers.get(header::CONTENT_LOCATION).and_then(|value| value.to_str().ok());
        let named = location.map(|id| Resource { kind: "location".into(), id: id.to_owned() });
        let resource = capture::resource(headers).or(named);
        let kept = match self.contract.response {
            ResponsePolicy::Current => {
                let rule = &self.contract.store_response;
                let too_big = body.len() as u64 > rule.body_bytes_max;
                let body = if too_big { Recorded::TooBig } else { Recorded::Whole(body.to_vec()) };
                capture::keep(rule, &self.redact, status, headers, body, None)
            }
            ResponsePolicy::Original | ResponsePolicy::Status => {
                Kept::NotKept { status: None, why: NotKept::Reconciled }
            }
        };
        Found { kept, resource }
    }

    /// The status, and the beginning of the body where the contract keeps bodies as they are and in clear.
    fn evidence(&self, status: u16, body: &[u8]) -> String {
        let plain = self.keep_excerpts
            && self.contract.store_response.mode == StoreMode::Full
            && self.redact.is_empty();
        if !plain || body.is_empty() {
            return format!("status {status}, {} bytes", body.len());
        }
        let text = String::from_utf8_lossy(&body[..body.len().min(4 * EXCERPT_CHARS_MAX)]);
        let printed = text.chars().map(|c| if c.is_control() { ' ' } else { c });
        let excerpt: String = printed.take(EXCERPT_CHARS_MAX).collect();
        format!("status {status}, {} bytes: {excerpt}", body.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asks(happened: &[&str], did_not_happen: &[&str]) -> Asks {
        let statuses = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
        Asks {
            look_up: LookUp {
                get: "http://h/{{key}}".parse().unwrap(),
                happened: statuses(happened),
                did_not_happen: statuses(did_not_happen),
                fence: None,
            },
            contract: Arc::new(Contract::new("CreateOrder", "one order for each key")),
            redact: Vec::new(),
            services: Services::new(),
            within: Duration::from_secs(1),
            keep_excerpts: true,
        }
    }

    #[test]
    fn status_beats_its_class_and_what_nobody_names_says_nothing() {
        let asks = asks(&["2xx"], &["204", "404"]);
        let said = [200, 204, 404, 403, 302, 500].map(|status| asks.meaning(status));
        assert_eq!(said, [Some(true), Some(false), Some(false), None, None, None]);
    }

    #[test]
    fn evidence_is_bounded_printable_and_leaves_out_what_is_not_kept_in_clear() {
        let mut asks = asks(&["200"], &[]);
        assert_eq!(asks.evidence(404, b""), "status 404, 0 bytes");
        assert_eq!(asks.evidence(200, b"order\n\x1b5"), "status 200, 8 bytes: order  5");
        let long = asks.evidence(200, "\u{e9}".repeat(4000).as_bytes());
        assert_eq!(long.chars().count(), "status 200, 8000 bytes: ".len() + EXCERPT_CHARS_MAX);
        asks.redact = vec!["/card".parse().unwrap()];
        assert_eq!(asks.evidence(200, b"4111"), "status 200, 4 bytes");
        asks.redact.clear();
        asks.keep_excerpts = false;
        assert_eq!(asks.evidence(200, b"4111"), "status 200, 4 bytes");
    }
}
