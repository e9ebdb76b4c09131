//! One request and reqwest: how it is sent, what its errors say, and how its operation's page is asked.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, Method, header};
use reqwest::{Request, Response, Url};

use crate::answer::Answer;
use crate::drive::{NoAnswer, Transport};
use crate::limits::ANSWER_BYTES_MAX;

/// What a page is asked with: the request's credentials, and nothing that speaks of the request itself.
fn page_headers(of_request: &HeaderMap, carrier: Option<HeaderName>) -> HeaderMap {
    let about_the_request = [
        header::CONTENT_TYPE,
        header::CONTENT_LENGTH,
        header::CONTENT_ENCODING,
        header::TRANSFER_ENCODING,
        header::ACCEPT,
        header::RANGE,
        header::IF_MATCH,
        header::IF_NONE_MATCH,
        header::IF_MODIFIED_SINCE,
        header::IF_UNMODIFIED_SINCE,
        header::EXPECT,
    ];
    let mut headers = of_request.clone();
    for name in about_the_request.into_iter().chain(carrier) {
        headers.remove(name);
    }
    headers
}

/// One request, and reqwest.
pub(super) struct Attempt {
    http: reqwest::Client,
    method: Method,
    url: Url,
    page_headers: HeaderMap,
    /// Taken by the only attempt of a request that cannot be sent again.
    request: Option<Request>,
}

impl Attempt {
    /// `carrier` is the header with the key.
    pub(super) fn new(http: reqwest::Client, request: Request, carrier: Option<HeaderName>) -> Attempt {
        Attempt {
            http,
            method: request.method().clone(),
            url: request.url().clone(),
            page_headers: page_headers(request.headers(), carrier),
            request: Some(request),
        }
    }

    pub(super) fn method(&self) -> &Method {
        &self.method
    }

    pub(super) fn url(&self) -> &Url {
        &self.url
    }
}

impl Transport for Attempt {
    async fn send(&mut self) -> Result<Answer, NoAnswer> {
        let request = match self.request.as_ref().and_then(Request::try_clone) {
            Some(again) => Some(again),
            None => self.request.take(),
        };
        let Some(request) = request else {
            // Only what was not sent comes here again: a stream goes with a request that has no key.
            return Err(NoAnswer::NotSent("the body was a stream and is gone".into()));
        };
        let answer = match self.http.execute(request).await {
            Ok(answer) => answer,
            Err(error) if error.is_connect() || error.is_builder() => {
                return Err(NoAnswer::NotSent(described(&error)));
            }
            Err(error) => return Err(NoAnswer::Lost(described(&error))),
        };
        read(answer).await.map_err(|error| NoAnswer::Lost(described(&error)))
    }

    async fn page(&mut self, path: &str) -> Option<Answer> {
        let url = self.url.join(path).ok()?;
        // The path came from the other side: credentials go to the host that the caller named, nowhere else.
        if url.origin() != self.url.origin() {
            return None;
        }
        let asked = self.http.get(url).headers(self.page_headers.clone()).send().await.ok()?;
        read(asked).await.ok()
    }
}

/// The whole answer, up to the limit.
async fn read(mut answer: Response) -> Result<Answer, reqwest::Error> {
    let (status, headers) = (answer.status(), answer.headers().clone());
    let (mut body, mut is_cut) = (Vec::new(), false);
    while let Some(chunk) = answer.chunk().await? {
        let room = ANSWER_BYTES_MAX - body.len();
        body.extend_from_slice(&chunk[..chunk.len().min(room)]);
        if chunk.len() > room {
            is_cut = true;
            break;
        }
    }
    Ok(Answer { status, headers, trailers: HeaderMap::new(), body: Bytes::from(body), is_cut })
}

/// The error and its causes, without the URL, which may hold a credential.
fn described(error: &reqwest::Error) -> String {
    let mut causes = Vec::new();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        causes.push(cause.to_string());
        source = cause.source();
    }
    match causes.is_empty() {
        true => "no answer".into(),
        false => causes.join(": "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn a_page_is_asked_with_credentials_and_without_what_is_about_the_request() {
        let mut headers = HeaderMap::new();
        for name in ["authorization", "x-tenant", "content-type", "idempotency-key", "if-match"] {
            headers.insert(name, HeaderValue::from_static("x"));
        }
        let asked = page_headers(&headers, Some(HeaderName::from_static("idempotency-key")));
        let mut names: Vec<_> = asked.keys().map(|name| name.as_str()).collect();
        names.sort_unstable();
        assert_eq!(names, ["authorization", "x-tenant"]);
    }
}
