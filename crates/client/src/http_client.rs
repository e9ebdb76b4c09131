//! A client over reqwest: every attempt of a request under one key.
//!
//! reqwest repeats nothing by itself and follows no redirect: every attempt is ours to count. A request whose body
//! cannot be sent a second time (a stream) is refused. Answers are read whole before they are handed on, since only a
//! whole answer ends an operation.

mod attempt;
mod carrying;
mod once;

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use reqwest::Request;

use crate::answer::Ended;
use crate::call::{Call, Past};
use crate::destination::{Destinations, origin};
use crate::drive::{Progress, drive};
use crate::intentions::{IntentionError, Intentions};
use crate::key::OperationKey;
use crate::policy::{Policy, Repeat};
use crate::profile::{Carrier, DoesNotFit, Profile};
use attempt::Attempt;
use carrying::carry;

pub use once::once_client;

/// Sends requests, each under one key, until they are settled. Cheap to clone.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

struct Inner {
    http: reqwest::Client,
    profile: Profile,
    policy: Policy,
    destinations: Arc<Destinations>,
    intentions: Option<Intentions>,
    watch: Option<Box<dyn Fn(Progress) + Send + Sync>>,
}

/// Makes a [`Client`].
#[derive(Default)]
pub struct ClientBuilder {
    http: Option<Box<dyn FnOnce(reqwest::ClientBuilder) -> reqwest::ClientBuilder>>,
    profile: Option<Profile>,
    policy: Policy,
    destinations: Option<Arc<Destinations>>,
    intentions: Option<Intentions>,
    watch: Option<Box<dyn Fn(Progress) + Send + Sync>>,
}

/// Why a request was not sent at all. Nothing happened.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// reqwest could not be set up.
    #[error("the HTTP client cannot be made: {0}")]
    Setup(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The body is a stream: it could not be sent again.
    #[error("the body is a stream and could not be sent again; give it as bytes")]
    Stream,
    /// The profile puts the key into a JSON object, and the body is none, or has another key already.
    #[error(
        "the key goes into the member {0:?} of a JSON object; the body is none, or has that member already"
    )]
    NoPlaceForKey(String),
    /// The request carries a key already.
    #[error("the request has a header {0} already")]
    KeyTwice(http::HeaderName),
    /// The provider does not take this key.
    #[error(transparent)]
    DoesNotFit(#[from] DoesNotFit),
    /// The profile has no place for a key.
    #[error("{0} takes no key; send it without one")]
    TakesNoKey(String),
    /// No journal was given.
    #[error("this client keeps no intentions; give it a journal")]
    KeepsNone,
    /// The intention is not certain to be found again.
    #[error(transparent)]
    Intention(#[from] IntentionError),
    /// Attempts may go on for longer than the provider remembers a key: the last ones could be second effects.
    #[error(
        "attempts go on for up to {deadline:?} and the provider remembers a key for {window:?} only; \
         choose a deadline that is shorter"
    )]
    Outlasts {
        /// How long an operation may take.
        deadline: Duration,
        /// How long the provider remembers.
        window: Duration,
    },
    /// The intention is older than the provider remembers its key: sent again, it could be a second effect.
    #[error(
        "the intention was begun {age:?} ago and its key is remembered for {window:?} only; \
         find out whether it happened, then finish the intention"
    )]
    TooOld {
        /// How long ago it was begun.
        age: Duration,
        /// How long the provider remembers.
        window: Duration,
    },
}

impl ClientBuilder {
    /// reqwest's own settings (proxies, certificates, headers), on top of this crate's. Its retries and redirects stay
    /// turned off.
    #[must_use]
    pub fn http(
        mut self,
        change: impl FnOnce(reqwest::ClientBuilder) -> reqwest::ClientBuilder + 'static,
    ) -> ClientBuilder {
        self.http = Some(Box::new(change));
        self
    }

    /// The provider. Default: [`Profile::onefold`].
    #[must_use]
    pub fn profile(mut self, profile: Profile) -> ClientBuilder {
        self.profile = Some(profile);
        self
    }

    /// The bounds of each operation.
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> ClientBuilder {
        self.policy = policy;
        self
    }

    /// Budgets and circuits. Default: those of the process.
    #[must_use]
    pub fn destinations(mut self, destinations: Arc<Destinations>) -> ClientBuilder {
        self.destinations = Some(destinations);
        self
    }

    /// Where intentions are kept.
    #[must_use]
    pub fn intentions(mut self, intentions: Intentions) -> ClientBuilder {
        self.intentions = Some(intentions);
        self
    }

    /// Is told what goes on. Must not block.
    #[must_use]
    pub fn watch(mut self, watch: impl Fn(Progress) + Send + Sync + 'static) -> ClientBuilder {
        self.watch = Some(Box::new(watch));
        self
    }

    /// The client.
    ///
    /// # Errors
    /// The settings of [`ClientBuilder::http`] cannot be had, or the policy goes on for longer than the provider
    /// remembers a key.
    pub fn build(self) -> Result<Client, ClientError> {
        let profile = self.profile.unwrap_or_else(Profile::onefold);
        let deadline = self.policy.deadline;
        if let Some(window) = profile.outlasted_by(deadline) {
            return Err(ClientError::Outlasts { deadline, window });
        }
        let http = once_client(|ours| match self.http {
            Some(change) => change(ours),
            None => ours,
        })?;
        Ok(Client(Arc::new(Inner {
            http,
            profile,
            policy: self.policy,
            destinations: self.destinations.unwrap_or_else(Destinations::process),
            intentions: self.intentions,
            watch: self.watch,
        })))
    }
}

impl Client {
    /// With settings.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    /// Begins a request of this client; `build()` it and hand it to one of the methods below. (Its own `send()` would
    /// send it once, without a key.)
    pub fn request(&self, method: Method, url: impl reqwest::IntoUrl) -> reqwest::RequestBuilder {
        self.0.http.request(method, url)
    }

    /// Sends a request under this key until it is settled, or the policy ends it.
    ///
    /// Cancellation: dropping the future stops it; the operation may have happened. Come back with the same key.
    ///
    /// # Errors
    /// Only what kept the request from being sent. How it ended is [`Ended`].
    pub async fn send(&self, request: Request, key: &OperationKey) -> Result<Ended, ClientError> {
        let attempt = self.prepared(request, Some(key))?;
        let past = if key.was_used() { Past::Perhaps } else { Past::Fresh };
        Ok(self.keyed(attempt, key, past).await)
    }

    /// Whether [`Client::send`] would send this request under this key. Nothing is sent.
    ///
    /// # Errors
    /// Those of [`Client::send`].
    pub fn check(&self, request: &Request, key: &OperationKey) -> Result<(), ClientError> {
        let request = request.try_clone().ok_or(ClientError::Stream)?;
        self.prepared(request, Some(key)).map(drop)
    }

    async fn keyed(&self, attempt: Attempt, key: &OperationKey, past: Past) -> Ended {
        let mut ended = self.drive(attempt, true, past).await;
        ended.key = Some(key.clone());
        ended
    }

    /// Sends a request under the key of a kept intention: made and flushed to the disk now, or found from before. When
    /// the operation is final the intention is removed; else it stays, for the next call of this name.
    ///
    /// Cancellation: as [`Client::send`]; the intention stays.
    ///
    /// # Errors
    /// Also when the intention cannot be kept, or is older than the provider remembers.
    pub async fn send_intention(&self, request: Request, name: &str) -> Result<Ended, ClientError> {
        let intentions = self.0.intentions.clone().ok_or(ClientError::KeepsNone)?;
        let begun = {
            let (intentions, name) = (intentions.clone(), name.to_owned());
            blocking(move || intentions.begin(&name)).await?
        };
        if begun.found
            && let Some(window) = self.0.profile.outlasted_by(begun.age + self.0.policy.deadline)
        {
            return Err(ClientError::TooOld { age: begun.age, window });
        }
        let attempt = self.prepared(request, Some(&begun.key))?;
        let past = if begun.found { Past::Begun } else { Past::Fresh };
        let mut ended = self.keyed(attempt, &begun.key, past).await;
        if ended.verdict.is_final() {
            ended.forget_error = blocking(move || intentions.finish(&begun.name)).await.err();
        }
        Ok(ended)
    }

    /// Sends a request without a key. Unless its method is idempotent, it is not sent again after bytes were sent.
    ///
    /// # Errors
    /// As [`Client::send`].
    pub async fn send_without_key(&self, request: Request) -> Result<Ended, ClientError> {
        let repeat = Repeat::of(request.method(), false) != Repeat::Never;
        let attempt = if repeat { self.prepared(request, None)? } else { self.once(request) };
        Ok(self.drive(attempt, false, Past::Fresh).await)
    }

    /// Budgets and circuits of the destinations of this client.
    pub fn destinations(&self) -> &Destinations {
        &self.0.destinations
    }

    async fn drive(&self, mut attempt: Attempt, has_key: bool, past: Past) -> Ended {
        let call = Call::new(self.0.policy, Repeat::of(attempt.method(), has_key)).after(past);
        let uri = attempt.url().as_str().parse().unwrap_or_default();
        let destination = self.0.destinations.of(&origin(&uri));
        let watch = |progress| {
            if let Some(watch) = &self.0.watch {
                watch(progress);
            }
        };
        drive(call, &destination, &self.0.profile, &mut attempt, &watch).await
    }

    fn prepared(&self, mut request: Request, key: Option<&OperationKey>) -> Result<Attempt, ClientError> {
        if request.body().is_some_and(|body| body.as_bytes().is_none()) {
            return Err(ClientError::Stream);
        }
        if let Some(key) = key {
            carry(&mut request, key, &self.0.profile)?;
        }
        Ok(self.once(request))
    }

    fn once(&self, request: Request) -> Attempt {
        let carrier = match &self.0.profile.carrier {
            Some(Carrier::Header { name, .. }) => Some(name.clone()),
            _ => None,
        };
        Attempt::new(self.0.http.clone(), request, carrier)
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, IntentionError> + Send + 'static,
) -> Result<T, IntentionError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        // The runtime is ending, or the work panicked: what it did is not known.
        Err(_) => Err(IntentionError::Poisoned),
    }
}
