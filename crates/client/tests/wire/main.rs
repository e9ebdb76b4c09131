//! The client over sockets, against peers that drop, delay, reset, answer half, and say "not yet".

mod answers;
mod lost;
mod several;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use onefold_client::{
    BudgetSettings, CircuitSettings, Client, ClientBuilder, Destinations, Ended, OperationKey, Policy,
    Progress, reqwest::Method,
};
use onefold_testkit::Seen;

/// The only route.
const ROUTE: &str = "/orders";

/// Pauses of a test: there are some, and they are short.
fn policy() -> Policy {
    let mut policy = Policy::default();
    policy.backoff.first = Duration::from_millis(5);
    policy.wait_min = Duration::from_millis(5);
    policy
}

/// A budget that stands in no test's way.
fn plenty() -> Arc<Destinations> {
    let budget = BudgetSettings { reserve: 1_000_000, ..BudgetSettings::default() };
    Destinations::new(budget, CircuitSettings { failures: 0, ..CircuitSettings::default() })
}

/// What a client was seen doing.
#[derive(Clone, Default)]
struct Watched(Arc<Mutex<Vec<Progress>>>);

impl Watched {
    fn builder(&self) -> ClientBuilder {
        let told = self.0.clone();
        let watch = move |progress| told.lock().unwrap().push(progress);
        Client::builder().policy(policy()).destinations(plenty()).watch(watch)
    }

    fn client(&self) -> Client {
        self.builder().build().unwrap()
    }

    /// The pauses.
    fn waits(&self) -> Vec<Duration> {
        let told = self.0.lock().unwrap();
        let wait = |progress: &Progress| match progress {
            Progress::Waiting { time, .. } => Some(*time),
            _ => None,
        };
        told.iter().filter_map(wait).collect()
    }

    /// The time that each attempt was given.
    fn times(&self) -> Vec<Duration> {
        let told = self.0.lock().unwrap();
        let time = |progress: &Progress| match progress {
            Progress::Sending { time, .. } => Some(*time),
            _ => None,
        };
        told.iter().filter_map(time).collect()
    }
}

fn client() -> Client {
    Watched::default().client()
}

fn key(key: &str) -> OperationKey {
    OperationKey::business(key).unwrap()
}

/// An order to this server, under this key.
async fn order(client: &Client, server: &str, key: &OperationKey) -> Ended {
    client.send(request(client, Method::POST, server), key).await.unwrap()
}

fn request(client: &Client, method: Method, server: &str) -> onefold_client::reqwest::Request {
    let request = client.request(method, format!("{server}{ROUTE}"));
    request.header("content-type", "application/json").body(r#"{"item":"book"}"#).build().unwrap()
}

/// The keys that a peer has seen.
fn keys(seen: &[Seen]) -> Vec<Option<&str>> {
    seen.iter().map(|seen| seen.header("idempotency-key")).collect()
}
