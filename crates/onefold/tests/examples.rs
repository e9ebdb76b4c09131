//! The examples run and end well.

use onefold_testkit::postgres::{Database, Isolation};

#[path = "../examples/atomic.rs"]
mod atomic;
#[path = "../examples/atomic_postgres.rs"]
#[allow(dead_code, reason = "its main reads the environment")]
mod atomic_postgres;
#[path = "../examples/inbox.rs"]
mod inbox;
#[path = "../examples/notify.rs"]
mod notify;
#[path = "../examples/outbox.rs"]
mod outbox;
#[path = "../examples/reconcile.rs"]
mod reconcile;
#[path = "../examples/reserved.rs"]
mod reserved;
#[path = "../examples/resumable.rs"]
mod resumable;

#[test]
fn atomic_example_runs() {
    atomic::main().unwrap();
}

#[tokio::test]
async fn atomic_example_on_postgresql_runs_any_number_of_times() {
    let what = "the example of atomic mode on PostgreSQL";
    let Some(database) = Database::create(what, Isolation::ReadCommitted).await else { return };
    for _ in 0..2 {
        atomic_postgres::run(&database.url()).await.unwrap();
    }
}

#[test]
fn inbox_example_runs() {
    inbox::main().unwrap();
}

#[test]
fn notify_example_runs() {
    notify::main().unwrap();
}

#[test]
fn outbox_example_runs() {
    outbox::main().unwrap();
}

#[test]
fn reconcile_example_runs() {
    reconcile::main().unwrap();
}

#[test]
fn reserved_example_runs() {
    reserved::main().unwrap();
}

#[test]
fn resumable_example_runs() {
    resumable::main().unwrap();
}
