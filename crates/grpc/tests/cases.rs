//! The real-world cases of sections 3, 4 and 15 for methods of a service, on each kind of store. The gateway and the
//! layer of axum have the same.
//!
//! What lies elsewhere is a supplier that counts. A process that is killed is this test binary, told by its environment
//! which store it works on.

use std::path::Path;
use std::time::Duration;

use onefold::grpc::{Protection, REPLAYED, Whose};
use onefold::postgres::PostgresStore;
use onefold::{AtomicStore, Onefold, Operation, Performing, SqliteStore, Verdict, WhileRunning};
use onefold_testkit::{
    FragileStore, Gate, SecondProcess, Store, Supplier, on_each_outage, on_each_store, wait,
};
use prost::Message;
use tokio::task::JoinHandle;
use tonic::{Code, Request, Response, Status};
use tonic_types::StatusExt;

mod cases {
    use super::*;

    on_each_store!(
        b26_waiter_is_woken_by_the_end_of_the_attempt_and_busy_is_told_at_once,
        b28_losers_of_the_race_between_two_instances_are_no_errors,
        b30_instances_and_protections_of_one_method_are_one,
        b35_b36_killed_owner_leaves_an_unknown_outcome_and_nothing_runs_again,
    );
}

mod outages {
    use super::*;

    on_each_outage!(b129_store_out_of_reach_fails_closed_and_recovers_by_itself);
}

#[derive(Clone, PartialEq, Message)]
struct Payment {
    #[prost(string, tag = "1")]
    card: String,
}

#[derive(Clone, PartialEq, Message)]
struct Receipt {
    #[prost(uint64, tag = "1")]
    charge: u64,
}

/// A protected method over whichever store.
#[derive(Clone)]
enum Method {
    Sqlite(Protection),
    Postgresql(Protection<PostgresStore>),
}

/// An instance of the service: its own connections, flights and memory.
#[derive(Clone)]
enum Instance {
    Sqlite(Onefold<SqliteStore>),
    Postgresql(Onefold<PostgresStore>),
}

impl Instance {
    async fn open(url: &str) -> Instance {
        match url.strip_prefix("sqlite:") {
            Some(path) => Instance::Sqlite(Onefold::sqlite(Path::new(path)).unwrap()),
            None => Instance::Postgresql(Onefold::postgres(url).await.unwrap()),
        }
    }

    fn protect(&self, while_running: WhileRunning) -> Method {
        let operation = Operation::new("Charge", "one charge for each key").while_running(while_running);
        let operation = operation.lease(Duration::from_secs(1));
        match self {
            Instance::Sqlite(onefold) => Method::Sqlite(protection(onefold, operation)),
            Instance::Postgresql(onefold) => Method::Postgresql(protection(onefold, operation)),
        }
    }
}

fn protection<S: AtomicStore>(onefold: &Onefold<S>, operation: Operation) -> Protection<S> {
    Protection::new(onefold, operation, "/shop.v1.Orders/Charge", Whose::credential())
}

impl Method {
    async fn of(url: &str, while_running: WhileRunning) -> Method {
        Instance::open(url).await.protect(while_running)
    }

    async fn charge(&self, key: &str, supplier: &Supplier) -> Result<Response<Receipt>, Status> {
        let mut request = Request::new(Payment { card: "4242".into() });
        for (name, value) in [("idempotency-key", key), ("authorization", "Bearer me")] {
            request.metadata_mut().insert(name, value.parse().unwrap());
        }
        let supplier = supplier.clone();
        let work = |_: Performing, _: Payment| async move {
            let charge = supplier.ask().await;
            Ok(Verdict::succeeded(Receipt { charge }))
        };
        match self {
            Method::Sqlite(method) => method.reserved(request, work).await,
            Method::Postgresql(method) => method.reserved(request, work).await,
        }
    }

    fn charges(&self, key: &str, supplier: &Supplier) -> JoinHandle<Result<Response<Receipt>, Status>> {
        let (method, key, supplier) = (self.clone(), key.to_owned(), supplier.clone());
        tokio::spawn(async move { method.charge(&key, &supplier).await })
    }
}

/// The charge, and whether it is a replay.
fn told(answer: Result<Response<Receipt>, Status>) -> (u64, bool) {
    let answer = answer.unwrap();
    (answer.get_ref().charge, answer.metadata().contains_key(REPLAYED))
}

fn reason(answer: Result<Response<Receipt>, Status>) -> (Code, String) {
    let status = answer.unwrap_err();
    let details = status.get_error_details();
    (status.code(), details.error_info().map(|info| info.reason.clone()).unwrap_or_default())
}

fn is_busy(answer: Result<Response<Receipt>, Status>) {
    let status = answer.unwrap_err();
    assert!(status.get_error_details().retry_info().is_some(), "{status:?}");
    assert_eq!(reason(Err(status)), (Code::Unavailable, "in-progress".to_owned()));
}

async fn b26_waiter_is_woken_by_the_end_of_the_attempt_and_busy_is_told_at_once(store: &Store) {
    let gate = Gate::closed();
    let supplier = Supplier::behind(&gate);
    let service = Instance::open(store.url()).await;
    let patient = service.protect(WhileRunning::Wait(wait::DEADLINE));
    let first = patient.charges("k", &supplier);
    supplier.asked(1).await;
    let second = patient.charges("k", &supplier);
    is_busy(service.protect(WhileRunning::Busy).charge("k", &supplier).await);
    wait::pass_time(Duration::from_millis(200), "the second call is to be waiting").await;
    assert!(!second.is_finished(), "answered while the first one runs");
    gate.open();
    assert_eq!(told(first.await.unwrap()), (1, false));
    let woken = wait::within(Duration::from_secs(5), "the waiter is woken", second).await;
    assert_eq!(told(woken.unwrap()), (1, true));
}

async fn b28_losers_of_the_race_between_two_instances_are_no_errors(store: &Store) {
    let supplier = Supplier::default();
    let wait = WhileRunning::Wait(wait::DEADLINE);
    let both = [Method::of(store.url(), wait).await, Method::of(store.url(), wait).await];
    for round in 1..=10 {
        let key = format!("k-{round}");
        let calls: Vec<_> = (0..20).map(|n| both[n % 2].charges(&key, &supplier)).collect();
        let mut fresh = 0;
        for call in calls {
            let (charge, replayed) = told(call.await.unwrap());
            assert_eq!(charge, round);
            fresh += u32::from(!replayed);
        }
        assert_eq!(fresh, 1);
    }
    assert_eq!(supplier.times(), 10);
}

async fn b30_instances_and_protections_of_one_method_are_one(store: &Store) {
    let supplier = Supplier::default();
    let (one, two) = (Instance::open(store.url()).await, Instance::open(store.url()).await);
    let first = one.protect(WhileRunning::Busy);
    assert_eq!(told(first.charge("k", &supplier).await), (1, false));
    for again in [one.protect(WhileRunning::Busy), two.protect(WhileRunning::Busy), first] {
        assert_eq!(told(again.charge("k", &supplier).await), (1, true));
    }
    assert_eq!(supplier.times(), 1);
}

/// Not a test by itself: asks the supplier for one charge, and stands there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child() {
    let Some(store) = SecondProcess::store() else { return };
    let supplier = Supplier::behind(&Gate::closed());
    let method = Method::of(&store, WhileRunning::Busy).await;
    let _charge = method.charges("k", &supplier);
    supplier.asked(1).await;
    SecondProcess::stand().await;
}

async fn b35_b36_killed_owner_leaves_an_unknown_outcome_and_nothing_runs_again(store: &Store) {
    let supplier = Supplier::default();
    let method = Method::of(store.url(), WhileRunning::Busy).await;
    let owner = SecondProcess::standing(store.url()).await;
    is_busy(method.charge("k", &supplier).await);
    drop(owner);
    let unknown = (Code::Unknown, "outcome-unknown".to_owned());
    wait::until_within(wait::DEADLINE, "the lease is over", async || {
        reason(method.charge("k", &supplier).await) == unknown
    })
    .await;
    assert_eq!(reason(method.charge("k", &supplier).await), unknown);
    assert_eq!(supplier.times(), 0, "nothing ran again");
}

async fn b129_store_out_of_reach_fails_closed_and_recovers_by_itself(mut store: FragileStore) {
    let supplier = Supplier::default();
    let method = Method::of(store.url(), WhileRunning::Busy).await;
    assert_eq!(told(method.charge("before", &supplier).await), (1, false));
    store.go_away();
    for key in ["k-1", "k-2"] {
        let refused = method.charge(key, &supplier).await;
        assert_eq!(reason(refused), (Code::Unavailable, "store-unavailable".to_owned()));
    }
    assert_eq!(supplier.times(), 1, "nothing ran without a claim");
    store.come_back();
    for (n, key) in ["k-1", "k-2"].into_iter().enumerate() {
        let charged = wait::some(wait::DEADLINE, "the service has recovered", async || {
            method.charge(key, &supplier).await.ok()
        })
        .await;
        assert_eq!(told(Ok(charged)), (n as u64 + 2, false), "it was never performed");
    }
    assert_eq!(told(method.charge("before", &supplier).await), (1, true));
}
