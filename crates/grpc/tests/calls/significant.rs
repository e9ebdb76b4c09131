//! What makes two calls the same.

use std::collections::BTreeMap;

use tonic::Code;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Channel;
use tonic_prost::ProstCodec;

use crate::world::{Checkout, Order, World, checkout, is_problem, keyed, replayed};

/// A later caller's checkout: its fields in another order, and one that this service does not know.
#[derive(Clone, PartialEq, prost::Message)]
struct LaterCheckout {
    #[prost(string, tag = "9")]
    colour: String,
    #[prost(uint32, tag = "2")]
    quantity: u32,
    #[prost(string, tag = "1")]
    sku: String,
}

async fn place_later(world: &World, key: &str, message: LaterCheckout) -> tonic::Response<Order> {
    let channel: Channel = world.channel().await;
    let mut grpc = tonic::client::Grpc::new(channel);
    grpc.ready().await.unwrap();
    let path = PathAndQuery::from_static("/shop.v1.Orders/Place");
    let codec = ProstCodec::<LaterCheckout, Order>::default();
    grpc.unary(keyed(key, message), path, codec).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_whole_message_counts_and_unknown_fields_do_not() {
    let world = World::open().await;
    world.place("k", "lamp").await.unwrap();
    let later = LaterCheckout { colour: "red".into(), quantity: 1, sku: "lamp".into() };
    assert!(replayed(&place_later(&world, "k", later).await));
    let labelled = |labels: &[(&str, &str)]| Checkout {
        labels: labels.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect(),
        ..checkout("lamp")
    };
    for other in
        [checkout("chair"), Checkout { quantity: 2, ..checkout("lamp") }, labelled(&[("gift", "yes")])]
    {
        let conflict = world.orders.clone().place(keyed("k", other)).await.unwrap_err();
        is_problem(&conflict, Code::FailedPrecondition, "key-conflict");
    }
    assert_eq!(world.order_rows(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_order_of_a_maps_entries_does_not_count() {
    let world = World::open().await;
    let names: Vec<String> = (0..20).map(|n| format!("label {n}")).collect();
    let labels: BTreeMap<String, String> = names.iter().map(|name| (name.clone(), String::new())).collect();
    let message = Checkout { labels, ..checkout("lamp") };
    for again in [false, true, true] {
        assert_eq!(replayed(&world.orders.clone().place(keyed("k", message.clone())).await.unwrap()), again);
    }
    let mixed = MixedCheckout {
        sku: "lamp".into(),
        quantity: 1,
        labels: names.iter().rev().map(|name| Label { key: name.clone(), value: String::new() }).collect(),
    };
    let mut grpc = tonic::client::Grpc::new(world.channel().await);
    grpc.ready().await.unwrap();
    let path = PathAndQuery::from_static("/shop.v1.Orders/Place");
    let codec = ProstCodec::<MixedCheckout, Order>::default();
    let placed: tonic::Response<Order> = grpc.unary(keyed("k", mixed), path, codec).await.unwrap();
    assert!(replayed(&placed));
}

/// The wire form of a checkout, with its map in an order of the caller's.
#[derive(Clone, PartialEq, prost::Message)]
struct MixedCheckout {
    #[prost(string, tag = "1")]
    sku: String,
    #[prost(uint32, tag = "2")]
    quantity: u32,
    #[prost(message, repeated, tag = "3")]
    labels: Vec<Label>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Label {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(string, tag = "2")]
    value: String,
}

#[tokio::test(flavor = "multi_thread")]
async fn where_a_value_is_named_the_rest_of_the_message_does_not_count() {
    let world = World::open().await;
    let traced = |trace: &str, quantity| Checkout { trace: trace.into(), quantity, ..checkout("lamp") };
    for (trace, again) in [("first hop", false), ("second hop", true)] {
        let placed = world.orders.clone().place(keyed("k", traced(trace, 1))).await.unwrap();
        assert_eq!(replayed(&placed), again);
    }
    let conflict = world.orders.clone().place(keyed("k", traced("first hop", 2))).await.unwrap_err();
    is_problem(&conflict, Code::FailedPrecondition, "key-conflict");
    assert_eq!(world.order_rows(), 1);
}
