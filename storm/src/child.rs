//! A process of the storm: consumes with the inbox, or relays, until it is killed.

use std::path::PathBuf;
use std::sync::{Arc, Once};
use std::time::Duration;

use async_trait::async_trait;
use onefold::Onefold;
use onefold::any::{AnyStore, AnyTx};
use onefold::inbox::{Consumer, Handled, Inbound, InboxSettings, Incoming, Receive, Settle};
use onefold::messages::{Destination, IfLost, Message, Sending, Sink};

use crate::database;

pub(crate) const FOLDER: &str = "ONEFOLD_STORM_FOLDER";
pub(crate) const ROLE: &str = "ONEFOLD_STORM_ROLE";
/// The URL of the database that this role works on.
pub(crate) const DATABASE: &str = "ONEFOLD_STORM_DATABASE";
pub(crate) const TOLD: &str = "ONEFOLD_STORM_TOLD_";
pub(crate) const CONSUMES: &str = "consumes";
/// Relays, and dies behind the broker's back now and then.
pub(crate) const RELAYS_AND_DIES: &str = "relays and dies";
/// Relays to the end.
pub(crate) const RELAYS_ON: &str = "relays on";
/// The name of the storm's destination.
pub(crate) const DESTINATION: &str = "storm";

/// Handlers take up to this long before they write, so that messages that are handled at once end in any order.
const UNEVEN: Duration = Duration::from_millis(10);
/// One try in so many fails, and one is put off.
const FAILS_ONE_IN: u32 = 100;
/// One accepted message in so many is the last that its relay does.
const DIES_ONE_IN: u32 = 50;
/// How long one sending may take: what a killed relay had is sent again 15 s after this.
const SENDING: Duration = Duration::from_secs(1);

/// What a child is.
pub enum Role {
    /// Consumes: everything is to be handed to this.
    Consumes(Arc<dyn Receive>),
    /// Relays: see [`Child::relay`].
    Relays,
}

/// This process, where it is a child of the storm.
pub struct Child {
    folder: PathBuf,
    role: String,
    database: String,
}

impl Child {
    /// `None` in a process that is no child.
    #[must_use]
    pub fn of_environment() -> Option<Child> {
        let folder = PathBuf::from(std::env::var_os(FOLDER)?);
        let said = |name: &str| std::env::var(name).ok();
        Some(Child { folder, role: said(ROLE)?, database: said(DATABASE)? })
    }

    /// What the [`Broker`](crate::Broker) has it told.
    ///
    /// # Panics
    /// If it is not told.
    #[must_use]
    pub fn told(&self, name: &str) -> String {
        std::env::var(format!("{TOLD}{name}")).expect("the broker tells it")
    }

    /// What it is to do. The storm counts its time from here.
    pub async fn role(&self) -> Role {
        let role = match self.role.as_str() {
            CONSUMES => {
                let consumer = consumer(&database::open(&self.database).await);
                let works = self.folder.join(works(std::process::id()));
                Role::Consumes(Arc::new(Uneven { consumer, works, begun: Once::new() }))
            }
            _ => Role::Relays,
        };
        std::fs::write(self.folder.join(up(std::process::id())), []).expect("the storm's folder");
        role
    }

    /// Relays what the storm has put into the outbox to this sink, for ever.
    pub async fn relay(&self, sink: impl Sink) {
        let onefold = database::open(&self.database).await;
        let dies = self.role == RELAYS_AND_DIES;
        let destination = Destination::new(DESTINATION, Mortal { sink, dies }).timeout(SENDING);
        let _relay = onefold.relay(vec![destination]);
        std::future::pending().await
    }
}

/// The file by which a child tells that it is at work.
pub(crate) fn up(process: u32) -> String {
    format!("up-{process}")
}

/// The file by which a consumer tells that it was handed a message.
pub(crate) fn works(process: u32) -> String {
    format!("works-{process}")
}

fn consumer(onefold: &Onefold<AnyStore>) -> Consumer<AnyStore> {
    let mut settings = InboxSettings { park_after: None, ..InboxSettings::new("storm") };
    settings.backoff.first = Duration::from_millis(20);
    onefold.inbox(settings).consumer(async |tx: &mut AnyTx, message: Arc<Incoming>| {
        let number: i64 = std::str::from_utf8(&message.body)?.parse()?;
        let key = message.ordering_key.as_deref().unwrap_or_default();
        tx.execute("INSERT INTO effects (number, key) VALUES ($1, $2)", &[&number, &key]).await?;
        match rand::random_range(0..FAILS_ONE_IN) {
            0 => Err("a try that fails".into()),
            1 => Ok(Handled::not_yet(Duration::from_millis(20))),
            _ => Ok(Handled::Done),
        }
    })
}

struct Uneven {
    consumer: Consumer<AnyStore>,
    /// The file by which it tells that it was handed something.
    works: PathBuf,
    begun: Once,
}

#[async_trait]
impl Receive for Uneven {
    async fn receive(&self, inbound: Inbound) -> Settle {
        self.begun.call_once(|| std::fs::write(&self.works, []).expect("the storm's folder"));
        tokio::time::sleep(UNEVEN.mul_f64(rand::random())).await;
        self.consumer.receive(inbound).await
    }
}

/// A sink whose process dies between the broker's word and the relay's own note.
struct Mortal<K> {
    sink: K,
    dies: bool,
}

#[async_trait]
impl<K: Sink> Sink for Mortal<K> {
    fn if_lost(&self) -> IfLost {
        self.sink.if_lost()
    }

    fn batch(&self) -> usize {
        self.sink.batch()
    }

    async fn send(&self, message: &Message) -> Sending {
        let sending = self.sink.send(message).await;
        self.survive(&sending);
        sending
    }

    async fn send_all(&self, messages: Vec<Message>) -> Vec<Sending> {
        let sendings = self.sink.send_all(messages).await;
        sendings.iter().for_each(|sending| self.survive(sending));
        sendings
    }
}

impl<K> Mortal<K> {
    fn survive(&self, sending: &Sending) {
        if self.dies && *sending == Sending::Accepted && rand::random_range(0..DIES_ONE_IN) == 0 {
            std::process::abort();
        }
    }
}
