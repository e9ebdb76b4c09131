//! The process that makes the storm and counts afterwards.

use std::collections::HashSet;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

use onefold::any::AnyStore;
use onefold::messages::{Message, OutboxStore};
use onefold::{Key, Onefold};
use onefold_testkit::{TestDirectory, wait};

use crate::child::{self, CONSUMES, DATABASE, DESTINATION, FOLDER, RELAYS_AND_DIES, RELAYS_ON, ROLE, TOLD};
use crate::database::{self, Databases};
use crate::{Broker, Copy, shuffled};

/// How many messages, where it is not said: the full number is 10 000.
const VARIABLE: &str = "ONEFOLD_STORM";
const COUNT: usize = 1000;
/// How long each part of a storm may take.
const PATIENCE: Duration = Duration::from_secs(1800);
/// How long a process lives: a consumer from when one of those that were started with it is handed a message.
const LIFE: Duration = Duration::from_secs(1);
/// How long it may take until consumers are handed a message: some brokers share out anew first.
const HANDED_WITHIN: Duration = Duration::from_secs(300);
/// Of so many messages one relay dies, before others go on to the end.
const RELAY_DIES_ONE_IN: usize = 200;
/// Messages whose copies are counted one by one when the storm is over.
const CALM: usize = 100;
/// The key of effects whose message has none.
const UNORDERED: &str = "";

/// What a storm has seen.
#[derive(Clone, Copy, Debug)]
pub struct Report {
    /// Different messages, each of which had one effect.
    pub messages: usize,
    /// Copies that were sent to the broker, or, by relays, at least that many.
    pub sent: usize,
    /// Deliveries that the inbox has counted as duplicates: those that a killed process had not written are lost.
    pub duplicates: u64,
    /// Processes that were killed.
    pub kills: usize,
}

/// One storm, with the databases of its processes.
pub struct Storm {
    directory: TestDirectory,
    databases: Databases,
    /// That of the consumers.
    onefold: Onefold<AnyStore>,
    /// The test that is the child.
    test: &'static str,
    count: usize,
}

/// A child, killed when dropped.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Storm {
    /// A storm whose processes are this test of the test's own binary, over SQLite. `ONEFOLD_STORM` says of how many
    /// messages.
    pub async fn new(test: &'static str) -> Storm {
        let directory = TestDirectory::create();
        let databases = Databases::files(directory.path());
        Storm::of_processes(test, directory, databases).await
    }

    /// The same over this database of PostgreSQL, which is empty.
    pub async fn over(test: &'static str, url: &str) -> Storm {
        Storm::of_processes(test, TestDirectory::create(), Databases::server(url)).await
    }

    async fn of_processes(test: &'static str, directory: TestDirectory, databases: Databases) -> Storm {
        let onefold = databases.make().await;
        Storm { directory, databases, onefold, test, count: COUNT }.of(COUNT)
    }

    /// Of so many messages, where `ONEFOLD_STORM` says nothing.
    #[must_use]
    pub fn of(self, count: usize) -> Storm {
        let said = std::env::var(VARIABLE).ok().and_then(|text| text.parse().ok());
        Storm { count: said.unwrap_or(count), ..self }
    }

    /// Every message 1 to 5 times in shuffled order, and consumers that are killed every second, so many at once.
    ///
    /// # Panics
    /// Unless each message has one effect, those of a key in their order, the broker is empty and every duplicate
    /// that no killed process took along is counted.
    pub async fn kills_consumers(&self, broker: &mut impl Broker, at_once: usize) -> Report {
        let copies: Vec<Copy> = shuffled(self.count).into_iter().map(Copy::of).collect();
        broker.publish(&copies).await;
        let mut kills = 0;
        wait::until_within(PATIENCE, "everything is consumed", async || {
            let mut consumers = Vec::new();
            for _ in 0..at_once {
                consumers.push(self.start(CONSUMES, broker).await);
            }
            self.until_they_work(&consumers, broker).await;
            wait::pass_time(LIFE, "consumers are killed every second").await;
            kills += consumers.len();
            drop(consumers);
            broker.left().await == 0
        })
        .await;
        self.check_effects().await;
        let stormy = database::duplicates(&self.onefold).await;
        let calm: Vec<Copy> = (0..self.count.min(CALM)).map(Copy::of).collect();
        broker.publish(&calm).await;
        let duplicates = self.consume_to_the_end(broker, stormy + calm.len() as u64).await;
        self.check_effects().await;
        Report { messages: self.count, sent: copies.len() + calm.len(), duplicates, kills }
    }

    /// Every message in an outbox, and relays that are killed, some of them after the broker's word and before their
    /// own note. Consumers with the inbox see each message once.
    ///
    /// # Panics
    /// Unless each message has one effect, those of a key in their order, and both the outbox and the broker are empty.
    pub async fn kills_relays(&self, broker: &mut impl Broker) -> Report {
        let outbox = database::open(&self.databases.relays).await;
        let address = broker.address();
        for first in (0..self.count).step_by(1000) {
            let numbers = first..self.count.min(first + 1000);
            let messages = numbers.map(|number| message(number, &address)).collect();
            outbox.store().enqueue(messages).await.expect("the store works");
        }
        let kills = self.count.div_ceil(RELAY_DIES_ONE_IN);
        let mut died = 0;
        for _ in 0..kills {
            let mut relay = self.start(RELAYS_AND_DIES, broker).await;
            let ended = wait::try_some(LIFE, async || relay.0.try_wait().expect("a child")).await;
            died += usize::from(ended.is_some_and(|status| is_abort(&status)));
        }
        assert!(died > 0, "no relay died between the broker's word and its own note");
        {
            let _relays = [self.start(RELAYS_ON, broker).await, self.start(RELAYS_ON, broker).await];
            wait::until_within(PATIENCE, "the outbox is empty", async || {
                outbox.store().survey_outbox().await.expect("the store works").iter().all(|of| of.depth == 0)
            })
            .await;
        }
        let duplicates = self.consume_to_the_end(broker, died as u64).await;
        self.check_effects().await;
        Report { messages: self.count, sent: self.count + died, duplicates, kills }
    }

    /// Consumes without killing until nothing is left and so many duplicates are counted. Returns how many are.
    async fn consume_to_the_end(&self, broker: &mut impl Broker, duplicates: u64) -> u64 {
        loop {
            let consumer = self.start(CONSUMES, broker).await;
            wait::until_within(PATIENCE, "everything is consumed", async || broker.left().await == 0).await;
            wait::until_within(PATIENCE, "every duplicate is counted", async || {
                database::duplicates(&self.onefold).await >= duplicates
            })
            .await;
            drop(consumer);
            // Some brokers do not tell what is out at a consumer.
            if broker.left().await == 0 {
                return database::duplicates(&self.onefold).await;
            }
        }
    }

    /// Starts a child and waits until it is at work.
    async fn start(&self, role: &str, broker: &impl Broker) -> Process {
        let told = broker.told().into_iter().map(|(name, value)| (format!("{TOLD}{name}"), value));
        let child = Command::new(std::env::current_exe().expect("this test's binary"))
            .args(["--exact", self.test, "--nocapture"])
            .env(FOLDER, self.folder())
            .env(ROLE, role)
            .env(DATABASE, if role == CONSUMES { &self.databases.consumers } else { &self.databases.relays })
            .envs(told)
            .spawn()
            .expect("this test's binary starts");
        let up = self.directory.file(&child::up(child.id()));
        let process = Process(child);
        wait::until("the process is at work", || up.exists()).await;
        process
    }

    /// Waits until one of them was handed a message, which takes some brokers longer than a second, or none is left.
    async fn until_they_work(&self, consumers: &[Process], broker: &mut impl Broker) {
        let works = |process: &Process| self.directory.file(&child::works(process.0.id())).exists();
        wait::until_within(HANDED_WITHIN, "a message is handed over", async || {
            let handed = async || consumers.iter().any(works).then_some(());
            wait::try_some(LIFE, handed).await.is_some() || broker.left().await == 0
        })
        .await;
    }

    fn folder(&self) -> &Path {
        self.directory.path()
    }

    async fn check_effects(&self) {
        let effects = database::effects(&self.onefold).await;
        let distinct: HashSet<usize> = effects.iter().map(|(number, _)| *number).collect();
        assert_eq!((effects.len(), distinct.len()), (self.count, self.count), "one effect for each message");
        let keys: HashSet<&str> = effects.iter().map(|(_, key)| key.as_str()).collect();
        for key in keys.into_iter().filter(|key| *key != UNORDERED) {
            let of_key = effects.iter().filter(|effect| effect.1 == key).map(|(number, _)| number);
            assert!(of_key.is_sorted(), "the order of {key} is kept");
        }
    }
}

/// One of four is ordered: a relay that is killed holds up the keys of what it had until its leases end.
fn message(number: usize, address: &str) -> Message {
    let Copy { id, key, body } = Copy::of(number);
    Message {
        id: Key::new(id).expect("an id is a key"),
        destination: DESTINATION.into(),
        address: address.into(),
        ordering_key: number.is_multiple_of(4).then_some(key),
        headers: Vec::new(),
        body,
    }
}

fn is_abort(status: &ExitStatus) -> bool {
    use std::os::unix::process::ExitStatusExt;
    status.signal() == Some(6)
}
