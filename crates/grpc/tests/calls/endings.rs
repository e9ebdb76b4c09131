//! What the end of a handler's work means, and what callers get.

use onefold::grpc::{Meaning, NOT_DONE, OUTCOME, REJECTED};
use tonic::Code;

use crate::world::{World, is_problem, replayed};

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_is_remembered_and_replayed_with_its_code_and_words() {
    let world = World::open().await;
    for (ends, code, words) in [
        ("refused", Code::FailedPrecondition, "no cover"),
        ("refused by the business", Code::Internal, "no cover, says the rulebook"),
    ] {
        for again in [false, true] {
            let refused = world.charge(ends.split(' ').next_back().unwrap(), ends).await.unwrap_err();
            assert_eq!((refused.code(), refused.message()), (code, words));
            assert_eq!(refused.metadata().get(OUTCOME).unwrap(), REJECTED, "the business says so");
            assert_eq!(refused.metadata().contains_key("idempotent-replayed"), again);
        }
    }
    assert_eq!(world.charges(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_not_done_is_passed_on_and_frees_the_key() {
    let world = World::open().await;
    for _ in 0..2 {
        let down = world.charge("k", "down").await.unwrap_err();
        assert_eq!((down.code(), down.message()), (Code::Unavailable, "down"));
        assert_eq!(down.metadata().get(OUTCOME).unwrap(), NOT_DONE);
        assert!(!down.metadata().contains_key("idempotent-replayed"));
    }
    assert!(!replayed(&world.charge("k", "well").await.unwrap()), "another message may take the key");
    for _ in 0..2 {
        let closed = world.place("k", "later").await.unwrap_err();
        assert_eq!((closed.code(), closed.message()), (Code::Internal, "the supplier is closed"));
    }
    assert_eq!((world.charges(), world.order_rows()), (3, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_outcome_is_held_as_unknown_and_never_repeated() {
    let world = World::open().await;
    for ends in ["lost", "untyped", "panic"] {
        for _ in 0..3 {
            let unknown = world.charge(ends, ends).await.unwrap_err();
            let details = is_problem(&unknown, Code::Unknown, "outcome-unknown");
            assert_eq!(details.error_info().unwrap().metadata["safe_to_use_new_key"], "false");
            assert!(details.retry_info().is_some(), "it will be settled");
            assert!(!unknown.metadata().contains_key("grpc-retry-pushback-ms"));
        }
    }
    assert_eq!(world.charges(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resumed_workflow_does_not_take_the_echo_of_a_lost_attempt_for_a_refusal() {
    let world = World::open().await;
    let lost = world.charge("k", "workflow lost").await.unwrap_err();
    is_problem(&lost, Code::Unavailable, "in-progress");
    for _ in 0..2 {
        let echo = world.charge("k", "workflow lost").await.unwrap_err();
        is_problem(&echo, Code::Unavailable, "in-progress");
    }
    assert_eq!(world.charges(), 2, "the finished step is not asked for again");
    for again in [false, true] {
        let refused = world.charge("first", "workflow").await.unwrap_err();
        assert_eq!(refused.code(), Code::AlreadyExists, "the first attempt speaks for the operation");
        assert_eq!(refused.metadata().contains_key("idempotent-replayed"), again);
    }
}

#[test]
fn only_refusals_and_definite_nothings_are_more_than_unknown() {
    for (code, bare, with_retry_info) in onefold::grpc::meanings() {
        let may_have_happened = matches!(
            code,
            Code::Cancelled | Code::Unknown | Code::DeadlineExceeded | Code::Internal | Code::DataLoss
        );
        if may_have_happened {
            assert_eq!((bare, with_retry_info), (Meaning::Unknown, Meaning::Unknown), "{code:?}");
        }
    }
}
