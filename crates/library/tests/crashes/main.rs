//! B34 and its kind, everywhere: a process dies right before and right after every statement of every mode, another
//! one makes the same call again, and the whole state is that of an undisturbed run: no second effect, none lost, no
//! key stuck.
//!
//! Where a process can die is not listed here: an undisturbed child writes down which crash points it passes
//! (`onefold_store::crash`, decision 0015), and a child dies at each. A child is this test binary, told by its
//! environment what to do. What is compared: the rows of the business, effects, projections, the record with its result
//! and steps, leases and counters of scopes, marks and messages, and what the provider did.

mod base;
mod frozen;
mod ground;
mod matrix;
mod messages;
mod points;
mod postgres;
mod scenario;
mod sqlite;

use matrix::hold;
use postgres::Postgres;
use scenario::{ACCOMPANIED, ATOMIC, BORROWED, INCOMING, OUTGOING, RESERVED, RESUMABLE};
use sqlite::Sqlite;

/// Not a test by itself: what a child does.
#[tokio::test(flavor = "multi_thread")]
async fn child() {
    let _ = ground::child::<Sqlite>().await || ground::child::<Postgres>().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b34_sqlite_atomic_is_one_order_wherever_the_process_dies() {
    hold::<Sqlite>(&ATOMIC).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b34_postgres_atomic_is_one_order_wherever_the_process_dies() {
    hold::<Postgres>(&ATOMIC).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b34_sqlite_a_transaction_of_the_callers_is_one_order_wherever_the_process_dies() {
    hold::<Sqlite>(&BORROWED).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b34_postgres_a_transaction_of_the_callers_is_one_order_wherever_the_process_dies() {
    hold::<Postgres>(&BORROWED).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b36_sqlite_reserved_is_never_repeated_by_itself_wherever_the_process_dies() {
    hold::<Sqlite>(&RESERVED).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b36_postgres_reserved_is_never_repeated_by_itself_wherever_the_process_dies() {
    hold::<Postgres>(&RESERVED).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b34_sqlite_an_outcome_and_its_rows_are_one_commit_wherever_the_process_dies() {
    hold::<Sqlite>(&ACCOMPANIED).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b34_postgres_an_outcome_and_its_rows_are_one_commit_wherever_the_process_dies() {
    hold::<Postgres>(&ACCOMPANIED).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b98_sqlite_resumable_asks_under_the_same_key_wherever_the_process_dies() {
    hold::<Sqlite>(&RESUMABLE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b98_postgres_resumable_asks_under_the_same_key_wherever_the_process_dies() {
    hold::<Postgres>(&RESUMABLE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b76_sqlite_a_message_is_handled_once_wherever_the_process_dies() {
    hold::<Sqlite>(&INCOMING).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b76_postgres_a_message_is_handled_once_wherever_the_process_dies() {
    hold::<Postgres>(&INCOMING).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b94_sqlite_every_message_leaves_under_its_id_wherever_the_process_dies() {
    hold::<Sqlite>(&OUTGOING).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b94_postgres_every_message_leaves_under_its_id_wherever_the_process_dies() {
    hold::<Postgres>(&OUTGOING).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b27_sqlite_a_process_that_wakes_after_its_lease_changes_nothing_that_another_has_begun() {
    frozen::hold::<Sqlite>().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b27_postgres_a_process_that_wakes_after_its_lease_changes_nothing_that_another_has_begun() {
    frozen::hold::<Postgres>().await;
}
