//! Every chapter of the story, as a test: what is in every database and in the outside world afterwards is what should be
//! there, and nothing else. Each is played on SQLite with webhooks, on PostgreSQL with NATS, on PostgreSQL with RabbitMQ,
//! and, with the feature `kafka`, on SQLite with the mock cluster of Kafka's client library, which this process holds and
//! the services reach over TCP. Servers that are missing here are skipped.

mod servers;

use std::path::Path;
use std::time::Duration;

use bfstore::ground::{Events, Ground};
use bfstore::story::CHAPTERS;
#[cfg(feature = "kafka")]
use onefold::kafka::rdkafka::mocking::MockCluster;
use onefold_testkit::{NatsServer, RabbitServer, TestDirectory};
use servers::on_postgres;

#[cfg(feature = "kafka")]
const MOCK_BROKERS: i32 = 3;

/// How long payment is down: long enough for more attempts than there may be, if nothing bounded them.
const DOWN_FOR: Duration = Duration::from_secs(3);

async fn play(name: &str, ground: &Ground) {
    let chapter = CHAPTERS.iter().find(|chapter| chapter.name == name).expect("there is such a chapter");
    let folder = tempfile::tempdir().unwrap();
    let ground = ground.renamed();
    let binary = Path::new(env!("CARGO_BIN_EXE_bfstore"));
    let played = chapter.play(binary, folder.path(), &ground, DOWN_FOR).await;
    let played = played.unwrap_or_else(|error| {
        // What the services had to say is the only trace of what went wrong.
        panic!("{error:#}; the files are in {}, the rest is {ground:?}", folder.keep().display())
    });
    let differences = played.books.differences(chapter.books);
    assert!(differences.is_empty(), "{differences:#?}\nof\n{}", played.books);
}

/// Makes a test of each chapter on each ground.
macro_rules! chapters {
    ($($test:ident: $chapter:literal;)+) => {
        mod sqlite_and_webhooks {
            $(
                #[tokio::test]
                async fn $test() {
                    super::play($chapter, &super::Ground::default()).await;
                }
            )+
        }

        mod postgresql_and_nats {
            $(
                #[tokio::test]
                async fn $test() {
                    let what = concat!(stringify!($test), " on PostgreSQL and NATS");
                    let directory = super::TestDirectory::create();
                    let Some(nats) = super::NatsServer::any(what, &directory) else { return };
                    let events = super::Events::Nats(nats.url().to_owned());
                    if let Some(ground) = super::on_postgres(what, events) {
                        super::play($chapter, &ground).await;
                    }
                }
            )+
        }

        mod postgresql_and_rabbitmq {
            $(
                #[tokio::test]
                async fn $test() {
                    let what = concat!(stringify!($test), " on PostgreSQL and RabbitMQ");
                    let Some(rabbit) = super::RabbitServer::any(what) else { return };
                    let events = super::Events::RabbitMq(rabbit.url().to_owned());
                    if let Some(ground) = super::on_postgres(what, events) {
                        super::play($chapter, &ground).await;
                    }
                }
            )+
        }

        #[cfg(feature = "kafka")]
        mod sqlite_and_mock_of_kafka {
            $(
                #[tokio::test]
                async fn $test() {
                    let mock = super::MockCluster::new(super::MOCK_BROKERS).unwrap();
                    let events = super::Events::Kafka(format!("kafka://{}", mock.bootstrap_servers()));
                    super::play($chapter, &super::Ground { events, ..super::Ground::default() }).await;
                }
            )+
        }
    };
}

chapters! {
    c01_answer_lost_after_the_commit_is_one_order: "1";
    c02_eight_submits_at_once_are_one_order: "2";
    c03_same_checkout_with_another_basket_is_refused: "3";
    c04_rejection_is_the_same_each_time: "4";
    c05_capture_whose_answer_was_lost_is_looked_up_and_not_repeated: "5a";
    c05_capture_that_was_not_found_and_lands_late_is_one_capture: "5b";
    c05_refused_capture_releases_the_reservation_and_the_order_says_so: "5c";
    c06_event_whose_consumer_was_killed_is_one_award: "6";
    c07_two_events_and_a_lost_answer_are_one_mail: "7";
    c08_stale_product_event_changes_nothing: "8";
    c09_permitted_build_repairs_what_is_damaged_and_nothing_else: "9";
    c10_dead_letter_that_nobody_remembers_is_refused_without_a_permit: "10";
    c11_later_checkout_of_the_same_basket_is_another_order: "11";
    c12_expired_key_is_refused_and_the_order_protects_without_a_record: "12";
    c13_payment_that_is_down_is_not_overrun_and_everything_settles: "13";
    c14_transactions_that_are_lost_are_run_again_and_nothing_outside_is_repeated: "14";
    c15_mark_without_its_effect_is_found_and_named: "15";
}
