//! Every message several times and in any order, over consumers that are killed every second.

use std::sync::Arc;
use std::time::Duration;

use onefold_broker_kafka::Subscription;
use onefold_messages::{Order, Sending, Sink};
use onefold_testkit::wait;

use crate::rig::{GROUP, TOPIC, committed, consume, message, mock, sink};
use onefold_storm::{Ledger, shuffled};

const KEYS: usize = 10;
const PARTITIONS: i32 = 4;

/// The full number is 10 000 (`ONEFOLD_STORM=10000`).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_storm_over_the_mock_is_done_once_and_in_order() {
    let count: usize = std::env::var("ONEFOLD_STORM").ok().and_then(|text| text.parse().ok()).unwrap_or(1000);
    let mock = mock(PARTITIONS);
    let sink = sink(&mock);
    let copies = shuffled(count);
    for batch in copies.chunks(100) {
        // Those of one key one after the other, as the relay sends them.
        let mut sends = Vec::new();
        for key in 0..KEYS {
            let sink = sink.clone();
            let of_key: Vec<usize> = batch.iter().copied().filter(|number| number % KEYS == key).collect();
            sends.push(tokio::spawn(async move {
                for number in of_key {
                    let (id, key) = (number.to_string(), key.to_string());
                    let sent = message(&id, Some(&key), &id);
                    assert_eq!(sink.send(&sent).await, Sending::Accepted);
                }
            }));
        }
        for sent in sends {
            sent.await.unwrap();
        }
    }
    let ledger = Arc::new(Ledger { uneven: Duration::from_millis(10), ..Ledger::default() });
    let wish = Subscription { order: Order::PerKey, ..Subscription::new(TOPIC, GROUP) };
    // Two share the partitions, and each second the older one is killed.
    let mut older = consume(&mock, wish.clone(), &ledger);
    let mut newer = consume(&mock, wish.clone(), &ledger);
    let mut kills = 0;
    wait::until_within(Duration::from_secs(900), "all are done", async || {
        wait::pass_time(Duration::from_secs(1), "consumers are killed every second").await;
        let before = ledger.handed();
        let next = std::mem::replace(&mut newer, consume(&mock, wish.clone(), &ledger));
        std::mem::replace(&mut older, next).kill();
        kills += 1;
        // Sharing out anew takes as long as it takes: the next kill is for those that work.
        let _ =
            wait::try_some(Duration::from_secs(10), async || (ledger.handed() > before).then_some(())).await;
        ledger.effects().len() == count
    })
    .await;
    wait::until_within(Duration::from_secs(300), "all offsets are committed", async || {
        let mut all = 0;
        for partition in 0..PARTITIONS {
            all += committed(&mock, partition).await.unwrap_or(0);
        }
        all == copies.len() as i64
    })
    .await;
    older.stop().await;
    newer.stop().await;
    let effects: Vec<usize> = ledger.effects().iter().map(|body| body.parse().unwrap()).collect();
    assert_eq!(effects.len(), count, "one effect for each message");
    for key in 0..KEYS {
        let of_key: Vec<usize> = effects.iter().copied().filter(|number| number % KEYS == key).collect();
        assert!(of_key.is_sorted(), "the order of key {key} is kept");
    }
    let duplicates = ledger.duplicates();
    assert!(duplicates >= copies.len() - count, "every copy was delivered");
    println!("{count} messages, {} sent, {duplicates} duplicates, {kills} kills", copies.len());
}
