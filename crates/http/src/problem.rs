//! Problem documents (RFC 9457): every answer that the layer makes itself.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Response, header};
use onefold_core::problem::TYPE_BASE;
use onefold_core::{Problem, State, retry};
use serde_json::{Map, Value, json};

/// One layer-made answer, before it is written.
#[derive(Clone, Debug)]
pub struct ProblemDocument {
    problem: Problem,
    detail: String,
    operation: Option<String>,
    state: Option<State>,
    retry_after: Option<Duration>,
    safe_to_use_new_key: Option<bool>,
    more: Map<String, Value>,
}

impl ProblemDocument {
    /// A problem with a sentence on what to do about it. The sentence holds no key, body or credential.
    pub fn new(problem: Problem, detail: impl Into<String>) -> ProblemDocument {
        ProblemDocument {
            problem,
            detail: detail.into(),
            operation: None,
            state: None,
            retry_after: None,
            safe_to_use_new_key: None,
            more: Map::new(),
        }
    }

    /// The operation's URL.
    pub fn operation(mut self, url: impl Into<String>) -> ProblemDocument {
        self.operation = Some(url.into());
        self
    }

    /// Where the operation stands.
    pub fn state(mut self, state: State) -> ProblemDocument {
        self.state = Some(state);
        self
    }

    /// When waiting helps.
    pub fn retry_after(mut self, after: Duration) -> ProblemDocument {
        self.retry_after = Some(after);
        self
    }

    /// Whether the same intention may be tried under a new key.
    pub fn safe_to_use_new_key(mut self, safe: bool) -> ProblemDocument {
        self.safe_to_use_new_key = Some(safe);
        self
    }

    /// A further member.
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> ProblemDocument {
        self.more.insert(name.to_owned(), value.into());
        self
    }

    /// Which entry of the catalogue it is.
    pub fn problem(&self) -> Problem {
        self.problem
    }

    /// The sentence.
    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// The document as an answer. `policy` is the path of the published policy, where each type is described.
    pub fn into_response(self, policy: &str) -> Response<Bytes> {
        let mut response = self.into_bare_response();
        if let Ok(link) = HeaderValue::try_from(format!("<{policy}>; rel=\"describedby\"")) {
            response.headers_mut().insert(header::LINK, link);
        }
        response
    }

    /// The document as the answer of a listener that publishes no policy.
    pub fn into_bare_response(self) -> Response<Bytes> {
        let mut body = Map::new();
        body.insert("type".into(), json!(format!("{TYPE_BASE}{}", self.problem.code())));
        body.insert("title".into(), json!(self.problem.title()));
        body.insert("status".into(), json!(self.problem.status()));
        body.insert("detail".into(), json!(self.detail));
        body.insert("code".into(), json!(self.problem.code()));
        if let Some(operation) = &self.operation {
            body.insert("operation".into(), json!(operation));
        }
        if let Some(state) = self.state {
            body.insert("state".into(), json!(state.name()));
        }
        if let Some(after) = self.retry_after {
            body.insert("retry_after_ms".into(), json!(u64::try_from(after.as_millis()).unwrap_or(u64::MAX)));
        }
        if let Some(safe) = self.safe_to_use_new_key {
            body.insert("safe_to_use_new_key".into(), json!(safe));
        }
        body.extend(self.more);
        let mut response = Response::new(Bytes::from(Value::Object(body).to_string()));
        *response.status_mut() =
            http::StatusCode::from_u16(self.problem.status()).expect("catalogued statuses are valid");
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(after) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(retry::whole_seconds(after)));
        }
        if self.problem == Problem::ScopeMissing {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(operation) = self.operation.and_then(|url| HeaderValue::try_from(url).ok()) {
            headers.insert(crate::OPERATION, operation);
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_has_its_members_and_the_headers_that_go_with_them() {
        let response = ProblemDocument::new(Problem::InProgress, "ask again")
            .operation("/operations/ab")
            .state(State::Processing)
            .retry_after(Duration::from_millis(1200))
            .safe_to_use_new_key(false)
            .into_response("/.well-known/idempotency");
        assert_eq!(response.status(), 409);
        assert_eq!(response.headers()["retry-after"], "2");
        assert_eq!(response.headers()["onefold-operation"], "/operations/ab");
        assert_eq!(response.headers()["content-type"], "application/problem+json");
        let body: Value = serde_json::from_slice(response.body()).unwrap();
        assert_eq!(body["type"], "https://onefold.dev/problems/in-progress");
        assert_eq!(body["code"], "in-progress");
        assert_eq!(body["state"], "processing");
        assert_eq!(body["retry_after_ms"], 1200);
        assert_eq!(body["safe_to_use_new_key"], false);
    }
}
