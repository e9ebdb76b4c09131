//! How long a sending may take after a store that was slow.

use async_trait::async_trait;
use onefold_core::StoreTime;
use onefold_store_sqlite::{Options, SqliteStore};

use super::*;
use crate::{IfLost, Sink};

/// As long as a sink of ours may take before it gives up by itself.
const SINKS_BOUND: Duration = Duration::from_secs(12);

/// A mail server that is as slow as the store was.
struct Slow;

#[async_trait]
impl Sink for Slow {
    fn if_lost(&self) -> IfLost {
        IfLost::Hold
    }

    async fn send(&self, _: &Message) -> Sending {
        tokio::time::sleep(SINKS_BOUND).await;
        Sending::Accepted
    }
}

fn taken() -> Taken {
    let message = Message {
        id: Key::new("m-1").expect("a key"),
        destination: "mail".into(),
        address: String::new(),
        ordering_key: None,
        headers: Vec::new(),
        body: Vec::new(),
    };
    Taken { message, attempt: 1, failures: 0, created_at: StoreTime(0), now: StoreTime(0) }
}

/// What becomes of a message, by the seconds that the store took to give it.
async fn after(seconds: u64) -> Sent {
    let directory = tempfile::tempdir().expect("a directory");
    let store = SqliteStore::open(directory.path().join("shop.db"), Options::default()).expect("it opens");
    let mut course = Course::new(Arc::new(store), Destination::new("mail", Slow), Arc::default());
    // clock: tokio's, which this test moves.
    let at = Instant::now();
    tokio::time::advance(Duration::from_secs(seconds)).await;
    let asked = Asked { settlements: Vec::new(), room: 1, at, answer: Ok((Vec::new(), vec![taken()])) };
    assert_eq!(course.answered(asked), Some(1));
    if let Some(ended) = course.on_way.join_next().await {
        course.ended(ended);
    }
    course.unsettled.pop().expect("it ended").sent
}

#[tokio::test(start_paused = true)]
async fn a_sending_has_its_own_time_after_a_store_that_was_slow() {
    for seconds in [0, 10, 20, 25] {
        assert_eq!(after(seconds).await, Sent::Delivered, "given after {seconds} s");
    }
}

#[tokio::test(start_paused = true)]
async fn what_the_store_gives_too_late_is_put_back_and_not_sent() {
    for seconds in [26, 40, 60] {
        let sent = after(seconds).await;
        let Sent::Again { counted: false, reason, .. } = sent else { panic!("{seconds} s: {sent:?}") };
        assert_eq!(reason, GIVEN_LATE, "given after {seconds} s");
    }
}
