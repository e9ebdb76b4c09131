//! The sink.

use std::sync::Arc;
use std::time::Duration;

use onefold_messages::{Message, Sending, Sink};
use onefold_storm::Ledger;
use onefold_testkit::wait;
use rdkafka::types::RDKafkaApiKey;
use rdkafka::types::RDKafkaRespErr::{
    RD_KAFKA_RESP_ERR__TRANSPORT, RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE, RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS,
};

use crate::rig::{Kind, PATIENCE, accepted, on_each};

on_each!(a_message_arrives_with_its_id_and_headers);

async fn a_message_arrives_with_its_id_and_headers(kind: Kind) {
    let Some(cluster) = kind.cluster("headers", 1).await else { return };
    let sink = cluster.sink();
    let sent = Message {
        headers: vec![("x-note".into(), "a".into()), ("x-note".into(), "b".into())],
        ..cluster.message("m-1", Some("order-1"), "one")
    };
    for _ in 0..3 {
        assert_eq!(sink.send(&sent).await, Sending::Accepted);
    }
    let ledger = Arc::new(Ledger::default());
    let consumer = cluster.consume(cluster.subscription(), &ledger);
    wait::until_within(PATIENCE, "all copies came", async || ledger.duplicates() == 2).await;
    consumer.stop().await;
    let done = ledger.done.lock().unwrap();
    let came = &done.effects[0];
    assert_eq!(
        (came.source.as_str(), came.ordering_key.as_deref()),
        (cluster.topic.as_str(), Some("order-1"))
    );
    assert_eq!(came.id.as_ref().map(|id| id.as_str()), Some("m-1"));
    for (name, value) in [("x-note", "a"), ("x-note", "b"), ("onefold-message-id", "m-1")] {
        assert!(came.headers.contains(&(name.into(), value.into())), "{name} {value}: {came:?}");
    }
}

#[tokio::test]
async fn what_the_mock_refuses_for_now_is_repeated_and_what_cannot_be_sent_is_refused() {
    let cluster = Kind::Mock.cluster("refusals", 1).await.unwrap();
    let sink = cluster.sink();
    cluster.mock().request_errors(
        RDKafkaApiKey::Produce,
        &[RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS, RD_KAFKA_RESP_ERR__TRANSPORT],
    );
    let good = cluster.message("m-1", None, "one");
    assert_eq!(sink.send(&good).await, Sending::Accepted);
    cluster.mock().request_errors(RDKafkaApiKey::Produce, &[RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE]);
    let large = Message { body: vec![0; 2 << 20], ..good.clone() };
    let nowhere = Message { address: "no topic".into(), ..good.clone() };
    let named = Message { headers: vec![("a\0b".into(), String::new())], ..good.clone() };
    for refused in [good.clone(), large, nowhere, named] {
        let sending = sink.send(&refused).await;
        assert!(matches!(sending, Sending::Refused { .. }), "{sending:?}");
    }
    accepted(&sink, good).await;
}

#[tokio::test]
async fn message_without_an_address_goes_to_the_sinks_own_topic_of_the_mock_and_is_refused_without_one() {
    let cluster = Kind::Mock.cluster("a topic of the sink's own", 1).await.unwrap();
    let message = Message { address: String::new(), ..cluster.message("m-1", None, "one") };
    let sending = cluster.sink().send(&message).await;
    assert!(matches!(sending, Sending::Refused { .. }), "{sending:?}");
    let sink = cluster.sink().default_topic(&cluster.topic);
    assert_eq!(sink.send(&message).await, Sending::Accepted);
    assert_eq!(sink.send_all(vec![message]).await, [Sending::Accepted]);
    assert_eq!(cluster.left(0).await, Some(2));
}

#[tokio::test]
async fn messages_that_the_mock_gets_together_have_an_answer_each_and_share_its_slowness() {
    const ROUND_TRIP: Duration = Duration::from_secs(1);
    const TOGETHER: u32 = 30;
    let cluster = Kind::Mock.cluster("batches", 1).await.unwrap();
    let sink = cluster.sink();
    assert_eq!(sink.send(&cluster.message("m", None, "one")).await, Sending::Accepted);
    for broker in 1..=3 {
        cluster.mock().broker_round_trip_time(broker, ROUND_TRIP).unwrap();
    }
    let mut batch: Vec<_> = (0..TOGETHER).map(|n| cluster.message(&format!("m-{n}"), None, "one")).collect();
    batch[3].address = "no topic".into();
    // A round trip for each would take longer.
    let sendings = wait::within(ROUND_TRIP * TOGETHER / 2, "all are answered", sink.send_all(batch)).await;
    for (n, sending) in sendings.into_iter().enumerate() {
        match n {
            3 => assert!(matches!(sending, Sending::Refused { .. }), "{sending:?}"),
            _ => assert_eq!(sending, Sending::Accepted),
        }
    }
}

/// One question for all of a batch, and no attempt of any is counted.
#[tokio::test]
async fn without_a_broker_of_the_mock_nothing_of_a_batch_is_sent() {
    let cluster = Kind::Mock.cluster("no broker for a batch", 1).await.unwrap();
    let sink = cluster.sink();
    for broker in 1..=3 {
        cluster.mock().broker_down(broker).unwrap();
    }
    assert!(matches!(sink.send(&cluster.message("m", None, "one")).await, Sending::Failed { .. }));
    let batch: Vec<_> = (0..sink.batch()).map(|n| cluster.message(&format!("m-{n}"), None, "one")).collect();
    let sendings = wait::within(Duration::from_secs(20), "all are answered", sink.send_all(batch)).await;
    let put_off = |sending: &Sending| matches!(sending, Sending::NotYet { .. });
    assert_eq!((sendings.len(), sendings.iter().all(put_off)), (sink.batch(), true), "{sendings:?}");
}

#[tokio::test]
async fn a_confirmation_that_the_mock_gives_too_late_is_no_acceptance_and_the_copy_is_known() {
    let cluster = Kind::Mock.cluster("late confirmations", 1).await.unwrap();
    let sink = cluster.sink();
    assert_eq!(sink.send(&cluster.message("m-1", None, "one")).await, Sending::Accepted);
    for broker in 1..=3 {
        cluster.mock().broker_round_trip_time(broker, Duration::from_secs(12)).unwrap();
    }
    let sending = sink.send(&cluster.message("m-2", None, "two")).await;
    assert!(matches!(sending, Sending::Failed { .. }), "{sending:?}");
    for broker in 1..=3 {
        cluster.mock().broker_round_trip_time(broker, Duration::ZERO).unwrap();
    }
    accepted(&sink, cluster.message("m-2", None, "two")).await;
    let ledger = Arc::new(Ledger::default());
    let consumer = cluster.consume(cluster.subscription(), &ledger);
    wait::until_within(PATIENCE, "both came", async || ledger.effects().len() == 2).await;
    consumer.stop().await;
}

#[tokio::test]
async fn without_a_broker_of_the_mock_nothing_is_sent_and_no_attempt_is_counted() {
    let cluster = Kind::Mock.cluster("no broker", 1).await.unwrap();
    let sink = cluster.sink();
    let good = cluster.message("m-1", None, "one");
    assert_eq!(sink.send(&good).await, Sending::Accepted);
    for broker in 1..=3 {
        cluster.mock().broker_down(broker).unwrap();
    }
    // The first one finds out.
    assert!(matches!(sink.send(&good).await, Sending::Failed { .. }));
    let sending = sink.send(&good).await;
    assert!(matches!(sending, Sending::NotYet { .. }), "{sending:?}");
    for broker in 1..=3 {
        cluster.mock().broker_up(broker).unwrap();
    }
    accepted(&sink, good).await;
}
