//! A storm for the tests of a broker's adapter: every message is sent 1 to 5 times in shuffled order, and the processes
//! that consume it with the inbox are killed (SIGKILL) every second; its mirror image kills relays, also between the
//! broker's word and their own note. Afterwards the effects are counted in the consumers' database.
//!
//! Beside it a [`Ledger`], for the tests that look at one delivery and need no inbox.
//!
//! A broker's test brings a [`Broker`] and one test that is the child, which the storm starts as a process:
//!
//! ```ignore
//! #[tokio::test]
//! async fn storm_child() {
//!     let Some(child) = Child::of_environment() else { return };
//!     match child.role() {
//!         Role::Consumes(receive) => consumer(child.told("URL"), receive).run(pending()).await.unwrap(),
//!         Role::Relays => child.relay(sink(child.told("URL"))).await,
//!     }
//! }
//! ```

mod child;
mod database;
mod ledger;
mod parent;

use async_trait::async_trait;

pub use child::{Child, Role};
pub use ledger::{Done, Ledger};
pub use parent::{Report, Storm};

/// Keys under which the storm's messages are ordered.
const KEYS: usize = 10;

/// One copy of a message.
#[derive(Clone, Debug)]
pub struct Copy {
    /// The message's id, the same for all copies.
    pub id: String,
    /// The ordering key.
    pub key: String,
    /// The body, the same for all copies.
    pub body: Vec<u8>,
}

impl Copy {
    fn of(number: usize) -> Copy {
        Copy {
            id: format!("m-{number}"),
            key: format!("k-{}", number % KEYS),
            body: number.to_string().into(),
        }
    }
}

/// A broker, seen from the process that makes the storm.
#[async_trait]
pub trait Broker {
    /// What children are told: names and values for [`Child::told`].
    fn told(&self) -> Vec<(&'static str, String)>;

    /// Where at the broker relays send to: the address of their messages.
    fn address(&self) -> String;

    /// Sends these copies in this order, each of them, with id and ordering key in the headers of `docs/messages.md`
    /// alone, so that the broker takes none for a duplicate. Returns when all are accepted.
    async fn publish(&mut self, copies: &[Copy]);

    /// Messages that the broker has for the consumers, undelivered or not settled. While a child runs those that are
    /// out at it may be missing.
    async fn left(&mut self) -> u64;
}

/// The numbers of `count` messages, each 1 to 5 times: the first copies keep their order, so that the order of a key is
/// known, and every other copy stands at a random place behind.
pub fn shuffled(count: usize) -> Vec<usize> {
    let mut copies: Vec<(f64, usize)> = Vec::new();
    for number in 0..count {
        copies.push((number as f64, number));
        for _ in 0..rand::random_range(0..5) {
            copies.push((rand::random_range(number as f64..(count + 1) as f64), number));
        }
    }
    copies.sort_by(|one, other| one.0.total_cmp(&other.0));
    copies.into_iter().map(|(_, number)| number).collect()
}
