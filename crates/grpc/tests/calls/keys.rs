//! Where the key of a call is, and what ties it to others.

use onefold::grpc::client::{Correlate, channel, under};
use tonic::{Code, Request};

use crate::world::{Checkout, OrdersClient, World, checkout, is_problem, keyed, replayed};

const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn named(key: &str) -> Checkout {
    let labels = [("key".to_owned(), key.to_owned())].into();
    Checkout { labels, ..checkout("lamp") }
}

fn of_me<M>(message: M) -> Request<M> {
    let mut request = Request::new(message);
    request.metadata_mut().insert("authorization", "Bearer me".parse().unwrap());
    request
}

#[tokio::test(flavor = "multi_thread")]
async fn the_key_stands_in_the_message_in_the_metadata_or_in_both_which_agree() {
    let world = World::open().await;
    let mut orders = world.orders.clone();
    assert!(!replayed(&orders.place(of_me(named("checkout \"7\""))).await.unwrap()));
    let both = keyed(r#""checkout \"7\"""#, named("checkout \"7\""));
    assert!(replayed(&orders.place(both).await.unwrap()), "one key, in both of its carriers");
    let other = orders.place(keyed("another", named("checkout \"7\""))).await.unwrap_err();
    is_problem(&other, Code::InvalidArgument, "key-ambiguous");
    for (nothing, reason) in [(named(""), "key-missing"), (named("   "), "key-invalid")] {
        let refused = orders.place(of_me(nothing)).await.unwrap_err();
        is_problem(&refused, Code::InvalidArgument, reason);
    }
    assert!(
        !replayed(&orders.place(keyed("its-own", named(""))).await.unwrap()),
        "an empty field names none"
    );
    assert_eq!(world.order_rows(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_ties_a_workflow_together_goes_from_the_call_to_its_messages() {
    let world = World::open().await;
    let mut orders = OrdersClient::new(channel(world.url()).unwrap());
    for flow in ["flow-7", "of another caller's flow"] {
        let mut asked = under("checkout-7", checkout("lamp")).unwrap().correlated(flow).traced(TRACE);
        asked.metadata_mut().insert("authorization", "Bearer me".parse().unwrap());
        orders.place(asked).await.unwrap();
    }
    let event = world.onefold.outgoing("order-1/placed").await.unwrap().unwrap();
    let id = world.operation_id();
    let expected =
        [("onefold-correlation-id", "flow-7"), ("onefold-causation-id", id.as_str()), ("traceparent", TRACE)];
    let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(event.message.headers, expected, "it deduplicates nothing, and blanks are no id");
    assert_eq!(world.order_rows(), 1);
}

#[tokio::test]
async fn what_is_no_url_and_no_key_is_told_before_anything_is_sent() {
    assert!(channel("no url at all").is_err());
    assert_eq!(under("", checkout("lamp")).unwrap_err().code(), Code::InvalidArgument);
}
