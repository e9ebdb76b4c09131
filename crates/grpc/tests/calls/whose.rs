//! What is looked at before anything is claimed: the key and whose it is.

use onefold::WhileRunning;
use onefold::grpc::Whose;
use tonic::{Code, Request};

use crate::world::{World, checkout, is_problem, keyed, replayed};

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_with_a_call_is_said_before_anything_runs() {
    let world = World::open().await;
    let place = |lines: &[&str], who: bool| {
        let mut request = Request::new(checkout("lamp"));
        for line in lines {
            request.metadata_mut().append("idempotency-key", line.parse().unwrap());
        }
        if who {
            request.metadata_mut().insert("authorization", "Bearer me".parse().unwrap());
        }
        let mut orders = world.orders.clone();
        async move { orders.place(request).await }
    };
    let long = "x".repeat(256);
    for (lines, who, code, reason) in [
        (&[][..], true, Code::InvalidArgument, "key-missing"),
        (&[""], true, Code::InvalidArgument, "key-invalid"),
        (&["\"open"], true, Code::InvalidArgument, "key-invalid"),
        (&[&long], true, Code::InvalidArgument, "key-invalid"),
        (&["a", "b"], true, Code::InvalidArgument, "key-ambiguous"),
        (&["a, b"], true, Code::InvalidArgument, "key-ambiguous"),
        (&["k"], false, Code::Unauthenticated, "scope-missing"),
    ] {
        is_problem(&place(lines, who).await.unwrap_err(), code, reason);
    }
    assert_eq!((world.order_rows(), world.records()), (0, 0));
    assert!(!replayed(&place(&["k"], true).await.unwrap()), "no claim was taken");
    assert!(replayed(&place(&["\"k\""], true).await.unwrap()), "both forms are one key, as over HTTP");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_key_of_one_caller_is_not_that_of_another() {
    for whose in [crate::world::by_principal(), Whose::credential()] {
        let world = World::with(WhileRunning::Busy, whose).await;
        for (who, number) in [("Bearer me", 1), ("Bearer you", 2), ("Bearer me", 1)] {
            let mut request = keyed("k", checkout("lamp"));
            request.metadata_mut().insert("authorization", who.parse().unwrap());
            assert_eq!(world.orders.clone().place(request).await.unwrap().get_ref().number, number);
        }
        assert_eq!(world.order_rows(), 2);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scope_without_parts_or_with_an_empty_one_is_missing_and_never_everybodys() {
    for parts in [vec![], vec![("customer", "")]] {
        let whose = Whose::metadata(move |_, _| Some(onefold::Scope::new(parts.clone())));
        let world = World::with(WhileRunning::Busy, whose).await;
        is_problem(&world.place("k", "lamp").await.unwrap_err(), Code::Unauthenticated, "scope-missing");
    }
    let world = World::with(WhileRunning::Busy, Whose::shared()).await;
    assert!(!replayed(&world.place("k", "lamp").await.unwrap()));
}
