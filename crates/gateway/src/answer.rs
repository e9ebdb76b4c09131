//! What a duplicate is told: the replay, where the operation stands, or why there is no answer (SEMANTICS 8).

use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, Uri, header};
use onefold_core::contract::{ResponsePolicy, WhileRunning};
use onefold_core::{Decision, Kept, OperationId, Problem, Record, retry};
use onefold_engine::Known;
use onefold_http::{ProblemDocument, REPLAYED, answers, capture, view};

use crate::Gateway;
use crate::body::{AnyBody, answer, whole};
use crate::forward::{Caller, Head};
use crate::options::Route;
use crate::pass::handed_on;
use crate::upstream::no_body;

impl Gateway {
    /// The path of an operation's page.
    pub(crate) fn operation_url(&self, id: OperationId) -> String {
        format!("{}/{id}", self.options.operations_path)
    }

    /// The answer to a request whose operation is known.
    pub(crate) async fn answer_known(
        &self,
        route: &Route,
        head: &Head,
        caller: Caller,
        known: &Known,
    ) -> Response<AnyBody> {
        let url = self.operation_url(known.id);
        let document = match (known.decision, known.record.as_deref()) {
            (Decision::Replay | Decision::Exhausted, Some(record)) => {
                return self.replay(route, head, caller, record, known).await;
            }
            (Decision::Busy { retry_after }, Some(record))
                if route.contract.while_running == WhileRunning::Accepted =>
            {
                return accepted(record, known, &url, retry_after);
            }
            (Decision::Pending, Some(record)) => {
                return accepted(record, known, &url, retry::RETRY_AFTER_MIN);
            }
            (Decision::Conflict { original }, _) => answers::conflict(original),
            (Decision::Busy { .. }, _) => answers::in_progress(),
            (Decision::Expired(expiry), _) => answers::expired(expiry),
            (Decision::NeedsOperator, _) => answers::needs_operator(),
            _ => answers::outcome_unknown(),
        };
        let document = match &known.record {
            Some(record) => {
                let safe = record.answers(Some(&route.contract)).safe_to_use_new_key();
                document.operation(url).state(record.state).safe_to_use_new_key(safe)
            }
            None => document,
        };
        let document = match known.retry_after() {
            Some(after) => document.retry_after(after),
            None => document,
        };
        answer(document.into_response(&self.options.policy_path))
    }

    async fn replay(
        &self,
        route: &Route,
        head: &Head,
        caller: Caller,
        record: &Record,
        known: &Known,
    ) -> Response<AnyBody> {
        if let Some(refused) = self.refuses(&route.contract, head, record).await {
            return refused;
        }
        let policy = if known.decision == Decision::Exhausted {
            ResponsePolicy::Original
        } else {
            route.contract.response
        };
        let mut response = match policy {
            ResponsePolicy::Status => {
                let body = view::for_caller(record, Some(&route.contract), known.now).to_string();
                let mut response = Response::new(whole(body.into(), None));
                response
                    .headers_mut()
                    .insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
                marked(response)
            }
            ResponsePolicy::Current => match self.read_again(route, head, caller, record).await {
                Some(response) => response,
                None => self.original(record, known),
            },
            ResponsePolicy::Original => self.original(record, known),
        };
        if let Ok(url) = HeaderValue::from_str(&self.operation_url(known.id)) {
            response.headers_mut().insert(onefold_http::OPERATION, url);
        }
        response
    }

    fn original(&self, record: &Record, known: &Known) -> Response<AnyBody> {
        let (status, why) = match &record.kept {
            Kept::Full(kept) | Kept::Reference(kept) => {
                let (response, trailers) = capture::replay(kept);
                return response.map(|bytes| whole(bytes, trailers));
            }
            Kept::NotKept { status, why } => (*status, why.name()),
            // A service's own code has performed it under this identity; its result is no answer of HTTP.
            Kept::Value(_) => (None, "typed_value"),
            Kept::Nothing => (None, "nothing"),
        };
        let problem = match known.decision {
            Decision::Exhausted => answers::exhausted(),
            _ => answers::not_kept(),
        };
        let problem = problem
            .operation(self.operation_url(record.id))
            .state(record.state)
            .safe_to_use_new_key(record.answers(None).safe_to_use_new_key())
            .with("reason", why)
            .with("original_status", status)
            .with("resource", record.resource.as_ref().map(view::resource));
        answer(problem.into_response(&self.options.policy_path))
    }

    /// `response = "current"`: the resource as it is now, read with the caller's own credentials.
    async fn read_again(
        &self,
        route: &Route,
        head: &Head,
        caller: Caller,
        record: &Record,
    ) -> Option<Response<AnyBody>> {
        let location: Uri = record.resource.as_ref()?.id.parse().ok()?;
        if location
            .authority()
            .is_some_and(|a| a != self.upstream.authority() && Some(a.as_str()) != host(head))
        {
            return None;
        }
        let mut read = Head { method: Method::GET, uri: location, headers: head.headers.clone() };
        about_this_request(&mut read.headers, route);
        let request = read.to_request(self, caller, no_body()).ok()?;
        let sent = tokio::time::timeout(self.options.upstream_timeout, self.upstream.ask(request)).await;
        match sent {
            Ok(Ok(response)) => Some(marked(handed_on(response))),
            Ok(Err(_)) | Err(_) => {
                let detail =
                    "the operation is done; the resource could not be read from the upstream. Ask again";
                let problem = ProblemDocument::new(Problem::UpstreamUnreachable, detail)
                    .operation(self.operation_url(record.id))
                    .state(record.state)
                    .safe_to_use_new_key(false)
                    .retry_after(retry::RETRY_AFTER_MIN);
                Some(answer(problem.into_response(&self.options.policy_path)))
            }
        }
    }
}

/// Takes away what speaks of the request with the key and not of the resource: its body, its conditions, its key.
fn about_this_request(headers: &mut HeaderMap, route: &Route) {
    let conditions = [
        header::IF_MATCH,
        header::IF_NONE_MATCH,
        header::IF_MODIFIED_SINCE,
        header::IF_UNMODIFIED_SINCE,
        header::IF_RANGE,
        header::RANGE,
    ];
    let body =
        [header::CONTENT_TYPE, header::CONTENT_LENGTH, header::CONTENT_ENCODING, header::TRANSFER_ENCODING];
    for name in conditions.into_iter().chain(body) {
        headers.remove(name);
    }
    for name in &route.contract.key.headers {
        headers.remove(name.as_str());
    }
}

/// An answer that stands for the first one. A problem document is none.
fn marked(mut response: Response<AnyBody>) -> Response<AnyBody> {
    response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    response
}

fn host(head: &Head) -> Option<&str> {
    head.headers.get(header::HOST)?.to_str().ok()
}

fn accepted(
    record: &Record,
    known: &Known,
    url: &str,
    retry_after: std::time::Duration,
) -> Response<AnyBody> {
    let body = view::for_caller(record, None, known.now).to_string();
    let mut response = Response::new(whole(body.into(), None));
    *response.status_mut() = StatusCode::ACCEPTED;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::RETRY_AFTER, retry::whole_seconds(retry_after).into());
    if let Ok(url) = HeaderValue::from_str(url) {
        headers.insert(header::LOCATION, url.clone());
        headers.insert(onefold_http::OPERATION, url);
    }
    response
}
