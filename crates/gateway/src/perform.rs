//! One attempt against the upstream: sent once, heard out, and told to the engine in the words of SEMANTICS 8.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http::{Response, header};
use hyper::body::Incoming;
use onefold_core::contract::{Meaning, OnStale, Remember};
use onefold_core::retry::Backoff;
use onefold_core::{Kept, OperationId, Outcome, Problem, State, downstream, retry};
use onefold_engine::{Attempt, Settled, Verdict};
use onefold_http::ProblemDocument;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::Shared;
use crate::body::{AnyBody, answer};
use crate::forward::{Caller, Head, forward_key};
use crate::limits::{LATE_TIMEOUTS, UNWRITTEN_TRIES};
use crate::options::Route;
use crate::relay::{Listener, relay};
use crate::request_body::Held;
use crate::upstream::NoAnswer;

/// Everything that an attempt needs.
pub(crate) struct Performance {
    pub(crate) gateway: Shared,
    pub(crate) route: Arc<Route>,
    pub(crate) head: Head,
    pub(crate) held: Held,
    pub(crate) caller: Caller,
}

/// Where the caller is told; sending into the void is fine: the caller may have gone.
pub(crate) type Told = oneshot::Sender<Response<AnyBody>>;

/// The step of every operation here: its one call to the upstream, under whose name the key is derived.
pub(crate) const UPSTREAM_STEP: &str = "upstream";

type Asked = Pin<Box<dyn Future<Output = Result<Response<Incoming>, NoAnswer>> + Send>>;

/// Performs the operation and tells the caller.
pub(crate) async fn perform(p: Performance, mut attempt: Attempt, told: Told) {
    let p = Arc::new(p);
    let automatic = p.route.contract.retry_failed.clone();
    let mut retries = 0;
    loop {
        let mut asked: Asked = Box::pin(p.clone().ask(attempt.id()));
        let (outcome, response) = match timeout(p.gateway.options.upstream_timeout, &mut asked).await {
            Ok(Ok(response)) => (p.outcome(&attempt, &response), Some(response)),
            Ok(Err(NoAnswer::Unreachable(why) | NoAnswer::NotTaken(why))) => {
                tracing::warn!(operation = %attempt.id(), why, "the upstream was not reached");
                (Outcome::NotDone, None)
            }
            Ok(Err(NoAnswer::Lost(why))) => return p.lost(attempt, &why, told).await,
            Err(_) => return p.late(attempt, asked, told).await,
        };
        let last = retries >= automatic.attempts
            || p.route.contract.exhausted(attempt.number())
            || attempt.resumes();
        if outcome == Outcome::NotDone && !last {
            let pause = pause(&automatic.backoff, retries, response.as_ref());
            retries += 1;
            drop(response);
            let id = attempt.id();
            match attempt.again(pause).await {
                Ok(next) => attempt = next,
                Err(settled) => return p.overtaken(id, settled, told),
            }
            continue;
        }
        return match response {
            Some(response) => relay(&p, attempt, outcome, response, Listener::Waiting(told)).await,
            None => p.not_reached(attempt, told).await,
        };
    }
}

/// The pause before an automatic attempt: with jitter, and never shorter than the upstream asked for.
fn pause(backoff: &Backoff, retries: u32, response: Option<&Response<Incoming>>) -> Duration {
    let asked_for = response
        .and_then(|r| r.headers().get(header::RETRY_AFTER)?.to_str().ok()?.parse().ok())
        .map_or(Duration::ZERO, Duration::from_secs);
    backoff.pause(retries, rand::random::<f64>()).max(asked_for.min(backoff.max))
}

impl Performance {
    /// Sends the request; what was provably not written is sent again on another connection.
    async fn ask(self: Arc<Self>, id: OperationId) -> Result<Response<Incoming>, NoAnswer> {
        let secret = self.gateway.engine.identity_key();
        let mut tries = 1;
        loop {
            let request = self.head.to_request(&self.gateway, self.caller, self.held.to_body());
            let mut request = request.map_err(|error| NoAnswer::Unreachable(error.to_string()))?;
            forward_key(request.headers_mut(), &self.route.contract, || {
                downstream::key(id, UPSTREAM_STEP, secret)
            });
            match self.gateway.upstream.ask(request).await {
                Err(NoAnswer::NotTaken(_)) if tries < UNWRITTEN_TRIES => tries += 1,
                answer => return answer,
            }
        }
    }

    fn outcome(&self, attempt: &Attempt, response: &Response<Incoming>) -> Outcome {
        let status = response.status().as_u16();
        let retry_after = response.headers().contains_key(header::RETRY_AFTER);
        let remember = &self.route.contract.remember;
        let meaning = match attempt.resumes() {
            true => remember.meaning_when_resumed(status),
            false => remember.meaning(status, retry_after),
        };
        match meaning {
            Meaning::NotDone => Outcome::NotDone,
            Meaning::Unknown => Outcome::Unknown,
            Meaning::Final if Remember::final_state(status) == State::Succeeded => Outcome::Succeeded,
            Meaning::Final => Outcome::Rejected,
        }
    }

    pub(crate) fn operation_url(&self, id: OperationId) -> String {
        self.gateway.operation_url(id)
    }

    /// Nothing was written: the key is free, unless an earlier attempt was lost.
    async fn not_reached(&self, attempt: Attempt, told: Told) {
        let url = self.operation_url(attempt.id());
        let detail = match attempt.resumes() {
            true => {
                "the upstream could not be reached; an earlier attempt may have happened: send the request again under the same key"
            }
            false => {
                "the upstream could not be reached; nothing happened, and the key is free: send the request again"
            }
        };
        let mut problem = ProblemDocument::new(Problem::UpstreamUnreachable, detail)
            .operation(url)
            .safe_to_use_new_key(false)
            .retry_after(retry::RETRY_AFTER_MIN);
        if let Settled::Recorded(record) =
            attempt.settle(Verdict::known(Outcome::NotDone, Kept::Nothing, None)).await
        {
            let safe = record.answers(Some(&self.route.contract)).safe_to_use_new_key();
            problem = problem.state(record.state).safe_to_use_new_key(safe);
        }
        self.tell(told, problem);
    }

    /// The request was written and there is no answer.
    async fn lost(&self, attempt: Attempt, why: &str, told: Told) {
        let url = self.operation_url(attempt.id());
        attempt.settle(Verdict::unknown(format!("the upstream's answer was lost: {why}"))).await;
        self.tell(told, self.no_answer(Problem::AnswerLost, url));
    }

    /// The answer is late: the caller is told so, and the upstream is listened to for a while longer. A late answer
    /// settles the operation. A stop of the gateway does not wait for it: the outcome is marked as unknown already.
    async fn late(self: Arc<Self>, mut attempt: Attempt, asked: Asked, told: Told) {
        let limit = self.gateway.options.upstream_timeout;
        let url = self.operation_url(attempt.id());
        attempt.lose(&format!("the upstream did not answer within {} ms", limit.as_millis())).await;
        self.tell(told, self.no_answer(Problem::AnswerLate, url));
        tokio::spawn(async move { self.listen_on(attempt, asked).await });
    }

    async fn listen_on(&self, attempt: Attempt, asked: Asked) {
        match timeout(self.gateway.options.upstream_timeout * LATE_TIMEOUTS, asked).await {
            Ok(Ok(response)) => {
                let outcome = self.outcome(&attempt, &response);
                if outcome != Outcome::Unknown {
                    relay(self, attempt, outcome, response, Listener::Gone).await;
                }
            }
            Ok(Err(NoAnswer::Unreachable(_) | NoAnswer::NotTaken(_))) => {
                attempt.settle(Verdict::known(Outcome::NotDone, Kept::Nothing, None)).await;
            }
            Ok(Err(NoAnswer::Lost(_))) | Err(_) => {}
        }
    }

    fn no_answer(&self, problem: Problem, url: String) -> ProblemDocument {
        let resumes = self.route.contract.on_stale == OnStale::Resume;
        let detail = if resumes {
            "the request was sent and the answer did not come; send it again under the same key"
        } else {
            "the request was sent and the answer did not come: it may or may not have happened. Ask the operation's URL; do not use a new key"
        };
        ProblemDocument::new(problem, detail)
            .operation(url)
            .state(if resumes { State::Processing } else { State::OutcomeUnknown })
            .safe_to_use_new_key(false)
            .retry_after(if resumes { retry::RETRY_AFTER_MIN } else { retry::RETRY_AFTER_MAX })
    }

    /// Between two automatic attempts somebody else took the operation, or the store went away.
    fn overtaken(&self, id: OperationId, settled: Settled, told: Told) {
        let problem = match settled {
            Settled::Recorded(_) | Settled::Superseded(_) => {
                ProblemDocument::new(Problem::InProgress, "another request has taken the operation over")
            }
            Settled::NotStored(_) => ProblemDocument::new(
                Problem::StoreUnavailable,
                "nothing has happened yet, and the record of operations cannot be reached; try again",
            ),
        };
        let problem = problem.operation(self.operation_url(id)).safe_to_use_new_key(false);
        self.tell(told, problem.retry_after(retry::RETRY_AFTER_MIN));
    }

    fn tell(&self, told: Told, problem: ProblemDocument) {
        let _ = told.send(answer(problem.into_response(&self.gateway.options.policy_path)));
    }
}
