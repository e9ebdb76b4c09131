//! The bound on connections, which follows from the limit of open files.

use onefold_e2e::{assert_fresh, order, parallel, setup};
use onefold_testkit::{Connection, Upstream, wait};

const OPEN_FILES: u64 = 250;
/// What the gateway grants under that limit: a third of what is left beside 64 files for others.
const CONNECTIONS: usize = 62;
const SILENT: usize = 400;

#[tokio::test]
async fn connections_beyond_the_bound_wait_and_take_no_files_from_operators_and_store() {
    let upstream = Upstream::start().await;
    let gateway = setup(&upstream, "").open_files(OPEN_FILES).start().await;
    let before = gateway.process().open_files();

    let mut silent = Vec::new();
    for _ in 0..SILENT {
        silent.push(Connection::open(gateway.address()).await.expect("queued, not refused"));
    }
    let late = parallel::send(order("k-1"), gateway.address());
    wait::until("as many as may are served", || gateway.process().open_files() >= before + CONNECTIONS).await;
    assert_eq!(gateway.admin_get("/readyz").await.status, 200, "operators and store have files left");
    let files = gateway.process().open_files() - before;
    assert!(files <= CONNECTIONS + 8, "{files} more files open for {SILENT} connections");

    drop(silent);
    assert_fresh(&wait::within(wait::DEADLINE, "its turn", late).await.unwrap(), 200);
}
