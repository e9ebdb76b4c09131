//! `authorize` of the settings: may this caller have a stored answer?
//!
//! A stored answer was judged when it was made; rights may have been revoked since. So another service is
//! asked, with the credentials of the caller who wants it now. First requests are judged by the upstream itself.

use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};
use onefold_core::{Contract, Problem, Record, retry};
use onefold_http::ProblemDocument;

use crate::Gateway;
use crate::body::{AnyBody, answer};
use crate::forward::Head;
use crate::pass::handed_on;

const ORIGINAL_METHOD: HeaderName = HeaderName::from_static("x-original-method");
const ORIGINAL_URI: HeaderName = HeaderName::from_static("x-original-uri");

impl Gateway {
    /// What the caller gets in place of something stored; `None` when they may have it, or the contract asks nobody.
    pub(crate) async fn refuses(
        &self,
        contract: &Contract,
        head: &Head,
        record: &Record,
    ) -> Option<Response<AnyBody>> {
        let rule = contract.authorize.as_ref()?;
        let unavailable = |why: &str| {
            tracing::warn!(operation = %record.id, why, "whether a caller may have a stored answer could not be asked");
            let detail = "the operation is known, and whether you may have its answer cannot be asked at present; try again";
            let problem = ProblemDocument::new(Problem::AuthorizationUnavailable, detail)
                .operation(self.operation_url(record.id))
                .state(record.state)
                .safe_to_use_new_key(false)
                .retry_after(retry::RETRY_AFTER_MIN);
            Some(answer(problem.into_response(&self.options.policy_path)))
        };
        let Ok(url) = rule.url.parse() else { return unavailable("its URL is none") };
        match self.services.get(&url, asked_with(head), rule.timeout).await {
            Ok(response) if response.status().is_success() => None,
            Ok(response) if is_no(response.status()) => Some(handed_on(response)),
            Ok(response) => unavailable(&format!("it answered {}", response.status())),
            Err(why) => unavailable(&why),
        }
    }
}

fn is_no(status: StatusCode) -> bool {
    matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN)
}

/// The caller's credentials, and what was asked for. Nothing else of the request goes there, so nothing in it can be
/// taken for what the gateway says.
fn asked_with(head: &Head) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for name in [header::AUTHORIZATION, header::COOKIE] {
        for value in head.headers.get_all(&name) {
            headers.append(&name, value.clone());
        }
    }
    for (name, text) in [(ORIGINAL_METHOD, head.method.as_str()), (ORIGINAL_URI, head.target())] {
        if let Ok(value) = HeaderValue::from_str(text) {
            headers.insert(name, value);
        }
    }
    headers
}
