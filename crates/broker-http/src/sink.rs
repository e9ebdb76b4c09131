//! Sending: one signed POST, and what became of it.

use std::error::Error as _;
use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use onefold_client::reqwest::{Client, ClientBuilder, Error, Response, Url};
use onefold_client::{ClientError, once_client, retry_after};
use onefold_messages::{IfLost, Message, Sending, Sink};
use onefold_webhooks::Secret;

use crate::clock;
use crate::meaning::meaning;
use crate::request::{headers, place};

/// How long an endpoint has to answer: below the 30 s that a relay gives a sending.
const ANSWER_WITHIN: Duration = Duration::from_secs(20);
/// Bytes of an answer's body that are read so that its connection can be used again; they are thrown away.
const BODY_BYTES_READ: usize = 64 * 1024;
/// How long those may take.
const BODY_WITHIN: Duration = Duration::from_secs(2);

/// A destination: one endpoint. A message's address is empty, or a path below it.
#[derive(Clone)]
pub struct HttpSink {
    http: Client,
    endpoint: Url,
    secrets: Vec<Secret>,
    if_lost: IfLost,
    answer_within: Duration,
}

impl fmt::Debug for HttpSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Its path and query may hold a secret.
        f.debug_struct("HttpSink").field("host", &self.endpoint.host_str()).finish_non_exhaustive()
    }
}

/// Why there is no such destination.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The endpoint is no URL of HTTP.
    #[error("the endpoint is no URL that begins with http:// or https://")]
    NotAnEndpoint,
    /// Nobody could tell the messages from forged ones.
    #[error("there is no secret to sign with")]
    NoSecret,
    /// The settings of the HTTP client cannot be had.
    #[error(transparent)]
    Client(#[from] ClientError),
}

impl HttpSink {
    /// POSTs to this endpoint, signed with each of these secrets. While secrets change give the new and the old one:
    /// receivers with either accept the message.
    pub fn new(endpoint: &str, secrets: Vec<Secret>) -> Result<HttpSink, SetupError> {
        HttpSink::with(endpoint, secrets, |settings| settings)
    }

    /// The same with reqwest's own settings (proxies, certificates, headers). Its retries and redirects stay turned
    /// off.
    pub fn with(
        endpoint: &str,
        secrets: Vec<Secret>,
        change: impl FnOnce(ClientBuilder) -> ClientBuilder,
    ) -> Result<HttpSink, SetupError> {
        let endpoint = Url::parse(endpoint).map_err(|_| SetupError::NotAnEndpoint)?;
        if !matches!(endpoint.scheme(), "http" | "https") {
            return Err(SetupError::NotAnEndpoint);
        }
        if secrets.is_empty() {
            return Err(SetupError::NoSecret);
        }
        let http = once_client(change)?;
        Ok(HttpSink { http, endpoint, secrets, if_lost: IfLost::SendAgain, answer_within: ANSWER_WITHIN })
    }

    /// What becomes of a message whose answer was lost. By default it is sent again, since a receiver of Standard
    /// Webhooks keeps ids. `Hold` is for a receiver that does not: then the message is `outcome_unknown`.
    pub fn lost_answers(mut self, if_lost: IfLost) -> HttpSink {
        self.if_lost = if_lost;
        self
    }

    /// How long the endpoint has to answer. Longer than 20 s needs a longer
    /// [`Destination::timeout`](onefold_messages::Destination::timeout) as well.
    pub fn answer_within(mut self, limit: Duration) -> HttpSink {
        self.answer_within = limit;
        self
    }
}

#[async_trait]
impl Sink for HttpSink {
    fn if_lost(&self) -> IfLost {
        self.if_lost
    }

    async fn send(&self, message: &Message) -> Sending {
        let place = match place(&self.endpoint, &message.address) {
            Ok(place) => place,
            Err(reason) => return Sending::Refused { reason },
        };
        let headers = match headers(message, clock::unix_s(), &self.secrets) {
            Ok(headers) => headers,
            Err(reason) => return Sending::Refused { reason },
        };
        let request = self.http.post(place).headers(headers).body(message.body.clone()).send();
        match tokio::time::timeout(self.answer_within, request).await {
            Ok(Ok(answer)) => {
                let sending = meaning(answer.status(), retry_after(answer.headers()), self.if_lost);
                read_to_its_end(answer).await;
                sending
            }
            // Nothing of it was sent, and that is no failure of the message.
            Ok(Err(error)) if error.is_connect() => {
                Sending::NotYet { after: None, reason: format!("nothing was sent: {}", described(&error)) }
            }
            Ok(Err(error)) if error.is_builder() => Sending::Refused { reason: described(&error) },
            Ok(Err(error)) => Sending::lost(described(&error), self.if_lost),
            Err(_) => Sending::lost(format!("no answer within {:?}", self.answer_within), self.if_lost),
        }
    }
}

/// Makes the connection free again. What does not end soon is cut off with its connection: the status has said all.
async fn read_to_its_end(mut answer: Response) {
    let reading = async {
        let mut room = BODY_BYTES_READ;
        while let Ok(Some(chunk)) = answer.chunk().await {
            match room.checked_sub(chunk.len()) {
                Some(left) => room = left,
                None => return,
            }
        }
    };
    let _ = tokio::time::timeout(BODY_WITHIN, reading).await;
}

/// The causes of an error, without the URL, which may hold a credential.
fn described(error: &Error) -> String {
    let mut causes = Vec::new();
    let mut source = error.source();
    while let Some(cause) = source {
        causes.push(cause.to_string());
        source = cause.source();
    }
    if causes.is_empty() { "no answer".into() } else { causes.join(": ") }
}
