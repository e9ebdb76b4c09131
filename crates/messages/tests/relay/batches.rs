//! Sinks that take many messages at once.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use onefold_core::OutboxState;
use onefold_core::retry::Backoff;
use onefold_messages::{Destination, Message, Sending, Sink};
use onefold_testkit::{Store, on_each_store};
use parking_lot::Mutex;

use crate::rig::{message, outbox};

on_each_store!(
    each_message_of_a_batch_has_its_own_answer,
    messages_of_a_batch_that_have_no_answer_have_lost_it,
    one_of_an_ordering_key_is_in_a_batch_and_no_more_than_there_are_places,
);

/// Answers each message by its id, and remembers what came together.
#[derive(Clone, Default)]
struct Many(Arc<Mutex<Vec<Vec<String>>>>);

#[async_trait]
impl Sink for Many {
    async fn send(&self, message: &Message) -> Sending {
        match message.id.as_str() {
            id if id.starts_with("refused") => Sending::Refused { reason: "no such queue".into() },
            _ => Sending::Accepted,
        }
    }

    fn batch(&self) -> usize {
        8
    }

    async fn send_all(&self, messages: Vec<Message>) -> Vec<Sending> {
        let ids: Vec<String> = messages.iter().map(|message| message.id.as_str().to_owned()).collect();
        let first_time = self.0.lock().iter().flatten().all(|seen| *seen != ids[0]);
        self.0.lock().push(ids.clone());
        let mut answers = Vec::new();
        for message in &messages {
            match message.id.as_str() {
                "panics" if first_time => panic!("a bug of the sink"),
                // It and those behind it have no answer.
                "cut" if first_time => break,
                _ => answers.push(self.send(message).await),
            }
        }
        answers
    }
}

impl Many {
    fn destination(&self) -> Destination {
        let backoff = Backoff { first: Duration::from_millis(5), max: Duration::from_millis(20) };
        Destination::new("shop", self.clone()).backoff(backoff)
    }

    /// The lengths of what came together, the longest first.
    fn lengths(&self) -> Vec<usize> {
        let mut lengths: Vec<usize> = self.0.lock().iter().map(Vec::len).collect();
        lengths.sort_unstable_by(|one, other| other.cmp(one));
        lengths
    }
}

async fn each_message_of_a_batch_has_its_own_answer(store: &Store) {
    let (outbox, sink) = (outbox(store, None).await, Many::default());
    let ids: Vec<String> =
        (0..20).map(|n| if n % 5 == 0 { format!("refused{n}") } else { format!("m{n}") }).collect();
    outbox.put(ids.iter().map(|id| message(id, "shop", None)).collect()).await;
    let relay = outbox.relay(vec![sink.destination()]);
    for id in &ids {
        let state = if id.starts_with('r') { OutboxState::Dead } else { OutboxState::Delivered };
        outbox.becomes(id, state).await;
    }
    assert_eq!(sink.lengths(), [8, 8, 4]);
    assert_eq!(relay.stop(Duration::from_secs(10)).await, 0);
}

async fn messages_of_a_batch_that_have_no_answer_have_lost_it(store: &Store) {
    for head in ["panics", "cut"] {
        let (outbox, sink) = (outbox(store, None).await, Many::default());
        let ids = [head, &format!("behind one that {head}")];
        outbox.put(ids.iter().map(|id| message(id, "shop", None)).collect()).await;
        let _relay = outbox.relay(vec![sink.destination()]);
        for id in ids {
            outbox.becomes(id, OutboxState::Delivered).await;
            assert_eq!(outbox.entry(id).await.failures, 1, "{id}");
        }
    }
}

async fn one_of_an_ordering_key_is_in_a_batch_and_no_more_than_there_are_places(store: &Store) {
    let (outbox, sink) = (outbox(store, None).await, Many::default());
    let of = |id: &&str| message(id, "shop", Some(&id[..1]));
    outbox.put(["a1", "a2", "b1", "c1", "d1"].iter().map(of).collect()).await;
    let _relay = outbox.relay(vec![sink.destination().concurrency(3)]);
    for id in ["a1", "a2", "b1", "c1", "d1"] {
        outbox.becomes(id, OutboxState::Delivered).await;
    }
    let batches = sink.0.lock().clone();
    assert!(batches.iter().all(|batch| batch.len() <= 3), "{batches:?}");
    let keys = |batch: &Vec<String>| batch.iter().filter(|id| id.starts_with('a')).count();
    assert!(batches.iter().all(|batch| keys(batch) <= 1), "{batches:?}");
}
