//! Section 4: the process that has the operation is killed while the supplier works.

use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

use onefold::{Operation, Resolution, ResolvedAs, State, WhileRunning};
use onefold_testkit::{Gate, Store, TestDirectory, on_each_store, wait};

use crate::service::{Service, Supplier, assert_problem, operation, order};

on_each_store!(b35_b36_killed_owner_leaves_an_unknown_outcome_that_a_person_settles_and_nothing_runs_again);

const STORE: &str = "ONEFOLD_TEST_STORE";
const FOLDER: &str = "ONEFOLD_TEST_FOLDER";

/// A short lease, so that nobody need wait long for a dead owner.
fn impatient() -> Operation {
    operation().lease(Duration::from_secs(1)).while_running(WhileRunning::Busy)
}

/// Serves, asks the supplier for one order, and stands there.
pub async fn child() {
    let (Ok(url), Ok(folder)) = (std::env::var(STORE), std::env::var(FOLDER)) else { return };
    let supplier = Supplier::default();
    supplier.stands_before(&Gate::closed());
    let service = Service::start(&url, &supplier, &impatient()).await;
    let order = order("k");
    let answer = service.send(&order);
    let stands = async {
        supplier.asked(1).await;
        std::fs::write(Path::new(&folder).join("stands"), []).unwrap();
        std::future::pending::<()>().await;
    };
    tokio::select! {
        answer = answer => panic!("nobody answers: {answer}"),
        () = stands => {}
    }
}

/// A process that is killed with this value.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn b35_b36_killed_owner_leaves_an_unknown_outcome_that_a_person_settles_and_nothing_runs_again(
    store: &Store,
) {
    let supplier = Supplier::default();
    let service = Service::start(store.url(), &supplier, &impatient()).await;
    let folder = TestDirectory::create();
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--nocapture"])
        .env(STORE, store.url())
        .env(FOLDER, folder.path())
        .spawn();
    let child = Killed(child.unwrap());
    let stands = folder.file("stands");
    wait::until("the supplier of the child works", || stands.exists()).await;
    assert_problem(&service.send(&order("k")).await, 409, "in-progress");
    drop(child);
    let unknown = wait::some(wait::DEADLINE, "the lease is over", async || {
        let answer = service.send(&order("k")).await;
        (answer.problem().as_deref() != Some("in-progress")).then_some(answer)
    })
    .await;
    assert_problem(&unknown, 409, "outcome-unknown");
    assert_eq!(unknown.json()["safe_to_use_new_key"], false, "{unknown}");
    let unknowns =
        onefold_store::Query { state: Some(State::OutcomeUnknown), limit: 10, ..Default::default() };
    let listed = service.engine.list(unknowns).await.unwrap().records;
    let [record] = &listed[..] else { panic!("people see it: {listed:?}") };
    let resolution = Resolution {
        resolved_as: ResolvedAs::Succeeded,
        reason: "the supplier has it".into(),
        evidence: "its order 5001".into(),
        who: "ann".into(),
        resource: None,
        answer: None,
    };
    service.engine.resolve(record.id, resolution).await.unwrap();
    let settled = service.send(&order("k")).await;
    assert_problem(&settled, 409, "response-not-kept");
    assert_eq!(supplier.times(), 0, "nothing ran again");
}
