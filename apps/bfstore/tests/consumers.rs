//! A service whose consumer has ended for good ends with an error, and the stage says so: nobody waits for events that do
//! not come any more.

use std::path::Path;
use std::time::Duration;

use bfstore::ground::{Events, Ground};
use bfstore::stage::{Set, Stage};
use onefold::rabbitmq::lapin::options::QueueDeclareOptions;
use onefold::rabbitmq::lapin::types::FieldTable;
use onefold::rabbitmq::lapin::{Connection, ConnectionProperties};
use onefold_testkit::{NatsServer, RabbitServer, TestDirectory, wait};

const BINARY: &str = env!("CARGO_BIN_EXE_bfstore");
const DEADLINE: Duration = Duration::from_secs(60);

/// What the stage says of the first that has fallen.
async fn fallen(stage: &Stage) -> String {
    format!("{:#}", wait::within(DEADLINE, "a service ends", stage.fallen()).await)
}

#[tokio::test]
async fn service_whose_consumer_another_process_has_taken_over_ends_and_the_stage_says_why() {
    let directory = TestDirectory::create();
    let Some(nats) = NatsServer::any("a consumer that is taken over", &directory) else { return };
    let events = Events::Nats(nats.url().to_owned());
    let ground = Ground { events, ..Ground::default() }.renamed();
    let [first, second] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let set = Set { ground: ground.clone(), ..Set::default() };
    let earlier = Stage::start(Path::new(BINARY), first.path(), set.clone()).await.unwrap();
    // The same place, by mistake.
    let later = Stage::start(Path::new(BINARY), second.path(), set).await.unwrap();
    let said = fallen(&earlier).await;
    assert!(said.contains("has ended by itself") && said.contains("no more events come in"), "{said}");
    assert!(said.contains("another process has taken this consumer over"), "{said}");
    later.end().await;
    ground.clear().await.unwrap();
}

#[tokio::test]
async fn service_whose_queue_was_made_otherwise_ends_and_the_stage_says_why() {
    let Some(rabbit) = RabbitServer::any("a queue that was made otherwise") else { return };
    let events = Events::RabbitMq(rabbit.url().to_owned());
    let ground = Ground { events, ..Ground::default() }.renamed();
    let connection = Connection::connect(rabbit.url(), ConnectionProperties::default()).await.unwrap();
    let channel = connection.create_channel().await.unwrap();
    let queue = format!("{}.order.loyalty", ground.name);
    // Without `x-single-active-consumer`, so it keeps no order.
    let made =
        channel.queue_declare(queue.as_str().into(), QueueDeclareOptions::durable(), FieldTable::default());
    made.await.unwrap();

    let folder = tempfile::tempdir().unwrap();
    let set = Set { ground: ground.clone(), ..Set::default() };
    let stage = Stage::start(Path::new(BINARY), folder.path(), set).await.unwrap();
    let said = fallen(&stage).await;
    assert!(said.contains("loyalty has ended by itself") && said.contains("was made otherwise"), "{said}");
    stage.end().await;
    ground.clear().await.unwrap();
    connection.close(200, "done".into()).await.unwrap();
}
