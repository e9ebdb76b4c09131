//! The stage: every service and the outside world as processes on loopback, with free ports and their files in one
//! folder.
//!
//! *Promises.* No process outlives the stage: each ends with a pipe that the stage holds, and is killed by its own
//! process id when it is dropped. One that is killed on purpose comes back to its address and its files.

mod balancer;
mod carrier;
mod child;
mod fallen;
mod line;

use std::collections::BTreeMap;
use std::future::Future;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, anyhow};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tokio::net::lookup_host;
use tokio::task::JoinSet;

use balancer::Balancer;
pub use balancer::{Answer, Backend, Balance, Delivery};
pub use carrier::EVENT_ID;
use child::{Child, Part};
use fallen::Fallen;
pub use line::Line;

use crate::ground::{Events, Ground, between_services};
use crate::safeguard::Safeguard;
use crate::service::Settings;
use crate::services::NAMES;

/// Who signs events. The catalogue is somebody outside of bfstore.
const SENDERS: [&str; 3] = ["order", "payment", "catalogue"];
/// Who is reached over a [`Line`] that can lose answers, where a story asks for it. Who gets events from a broker reaches
/// that over its line instead.
const BEHIND_LINES: [&str; 3] = ["loyalty", "notification", "storefront"];

/// What the event of a confirmed order says: behind it a word is lost.
const ORDER_CONFIRMED: &[u8] = b"order.confirmed";
/// A free port of loopback.
const FREE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// Whether answers can be lost on the way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lines {
    /// Services are reached as they are.
    #[default]
    Straight,
    /// Some are reached over lines that can be told to lose an answer.
    CanLose,
}

/// How a stage is set.
#[derive(Clone, Default)]
pub struct Set {
    /// Whether answers can be lost on the way.
    pub lines: Lines,
    /// Where databases are, and what carries events.
    pub ground: Ground,
    /// Says what becomes of the requests to every service and to the outside world, and of the events between services.
    pub balance: Option<Arc<dyn Balance>>,
    /// The protection that is taken away from the services.
    pub without: Option<Safeguard>,
}

/// All processes.
pub struct Stage {
    binary: PathBuf,
    folder: PathBuf,
    set: Set,
    balancers: Vec<Balancer>,
    /// Those between services that speak over a broker, where it is said what becomes of events.
    carriers: JoinSet<()>,
    fallen: Fallen,
    secrets: BTreeMap<String, String>,
    urls: BTreeMap<String, String>,
    lines: BTreeMap<String, Line>,
    // Dropped in order of names: nobody depends on the order of ending.
    running: BTreeMap<String, Child>,
    addresses: BTreeMap<String, SocketAddr>,
    flags: BTreeMap<String, Vec<String>>,
}

impl Stage {
    /// Starts everything, set in this way. `binary` is this program, `folder` exists.
    pub async fn start(binary: &Path, folder: &Path, set: Set) -> anyhow::Result<Stage> {
        set.ground.prepare().await?;
        let fallen = Fallen::default();
        let carriers = match (&set.balance, set.ground.events.broker()) {
            (Some(balance), Some(broker)) => {
                set.ground.sent().prepare_events().await?;
                carrier::between(&*broker, &set.ground, folder, balance, &fallen).await?
            }
            _ => JoinSet::new(),
        };
        let secret =
            |name: &str| (name.to_owned(), format!("whsec_{}", STANDARD.encode(rand::random::<[u8; 32]>())));
        let mut stage = Stage {
            binary: binary.to_owned(),
            folder: folder.to_owned(),
            set,
            balancers: Vec::new(),
            carriers,
            fallen,
            secrets: SENDERS.map(secret).into(),
            urls: BTreeMap::new(),
            lines: BTreeMap::new(),
            running: BTreeMap::new(),
            addresses: BTreeMap::new(),
            flags: BTreeMap::new(),
        };
        let outside = vec!["outside".into(), "--listen".into(), FREE.to_string()];
        let (child, [smtp, http]) = stage.part("outside", outside)?.start().await?;
        stage.running.insert("outside".into(), child);
        stage.urls.insert("smtp".into(), format!("smtp://{smtp}"));
        let http = stage.balanced("outside", http).await?;
        stage.urls.insert("outside".into(), format!("http://{http}"));
        for name in NAMES {
            let behind_line = stage.set.lines == Lines::CanLose && BEHIND_LINES.contains(&name);
            let broker = stage.broker_of(name).await?;
            if let (true, Some(broker)) = (behind_line, broker) {
                stage.lines.insert(name.into(), Line::to(broker).await?);
            }
            let address = stage.start_service(name, FREE).await?;
            let mut reached_at = stage.balanced(name, address).await?;
            if behind_line && broker.is_none() {
                let line = Line::to(reached_at).await?;
                reached_at = line.address();
                stage.lines.insert(name.into(), line);
            }
            stage.addresses.insert(name.into(), address);
            stage.urls.insert(name.into(), format!("http://{reached_at}"));
        }
        Ok(stage)
    }

    /// SIGKILL: it ends in the middle of whatever it does.
    pub async fn kill(&mut self, name: &str) -> anyhow::Result<()> {
        self.running.remove(name).context("it does not run")?.kill().await
    }

    /// Lets it end, as at an update.
    pub async fn let_end(&mut self, name: &str) -> anyhow::Result<()> {
        self.running.remove(name).context("it does not run")?.end().await;
        Ok(())
    }

    /// Starts it again, at its address and on its files.
    pub async fn start_again(&mut self, name: &str) -> anyhow::Result<()> {
        let address = *self.addresses.get(name).context("it never ran")?;
        if let Some(line) = self.lines.get(name) {
            line.mend();
        }
        self.start_service(name, address).await?;
        Ok(())
    }

    /// Settings with which it is started from now on, such as `--build=41`.
    pub fn set(&mut self, name: &str, settings: &[&str]) {
        self.flags.insert(name.into(), settings.iter().map(|&setting| setting.into()).collect());
    }

    /// Where others reach it.
    pub fn url(&self, name: &str) -> &str {
        &self.urls[name]
    }

    /// Ready when something has ended that nobody has ended: a process of a service, or what carries events. It says what.
    pub fn fallen(&self) -> impl Future<Output = anyhow::Error> + Send + use<> {
        self.fallen.told()
    }

    /// What a service of this name is told; it listens wherever it likes.
    pub fn settings(&self, name: &str) -> anyhow::Result<Settings> {
        Ok(Settings {
            name: name.to_owned(),
            database: self.set.ground.database(name, &self.folder)?,
            events: self.set.ground.events.clone(),
            place: match SENDERS.contains(&name) && NAMES.contains(&name) && !self.carriers.is_empty() {
                true => self.set.ground.sent().name,
                false => self.set.ground.name.clone(),
            },
            listen: FREE,
            peers: self.urls.clone(),
            secrets: self.secrets.clone(),
            retention: None,
            build: String::new(),
        })
    }

    /// Where databases are, and what carries events.
    pub fn ground(&self) -> &Ground {
        &self.set.ground
    }

    /// The next word by which it says that it has an event will not arrive: its answer to a webhook, or its
    /// acknowledgement to a broker. Where no line can lose that, it is [taken back](Stage::take_word_back).
    pub fn lose_its_word(&self, name: &str) -> anyhow::Result<()> {
        match &self.set.ground.events {
            Events::Webhooks => self.line(name).lose_an_answer(),
            broker if broker.behind_line()?.is_some() => self.line(name).fall_silent_behind(ORDER_CONFIRMED),
            _ => {}
        }
        Ok(())
    }

    /// Whether that word is lost, or can only be taken back.
    pub fn has_lost_its_word(&self, name: &str) -> anyhow::Result<bool> {
        let by_line = match &self.set.ground.events {
            Events::Webhooks => true,
            broker => broker.behind_line()?.is_some(),
        };
        Ok(!by_line || self.line(name).lost() == 1)
    }

    /// When it is dead: the broker has not heard its word, also where no line could lose it.
    pub async fn take_word_back(&self, name: &str) -> anyhow::Result<()> {
        let Some(broker) = self.set.ground.events.broker() else { return Ok(()) };
        for (sender, receiver) in between_services().filter(|(_, receiver)| *receiver == name) {
            if broker.take_back(&self.set.ground.route(sender, receiver)).await? {
                self.line(name).has_lost();
            }
        }
        Ok(())
    }

    /// The line to it.
    ///
    /// # Panics
    /// Where there is none.
    pub fn line(&self, name: &str) -> &Line {
        assert_eq!(self.set.lines, Lines::CanLose, "the stage was started without lines");
        &self.lines[name]
    }

    /// The secret with which `sender` signs.
    pub fn secret(&self, sender: &str) -> &str {
        &self.secrets[sender]
    }

    /// Where the databases and logs are.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Lets every process end.
    pub async fn end(self) {
        for (_, child) in self.running {
            child.end().await;
        }
    }

    /// Where a service at this address is reached.
    async fn balanced(&mut self, name: &'static str, service: SocketAddr) -> anyhow::Result<SocketAddr> {
        let Some(balance) = self.set.balance.clone() else { return Ok(service) };
        let balancer = Balancer::before(name, service, balance).await?;
        let address = balancer.address();
        self.balancers.push(balancer);
        Ok(address)
    }

    async fn start_service(&mut self, name: &str, listen: SocketAddr) -> anyhow::Result<SocketAddr> {
        let Settings { database, events, place, peers, .. } = self.settings(name)?;
        let line = self.lines.get(name).filter(|_| consumes(name));
        let broker = events.behind_line()?;
        let mut events = events.text().to_owned();
        if let (Some(mut broker), Some(line)) = (broker, line) {
            broker.set_host(Some("127.0.0.1"))?;
            broker.set_port(Some(line.address().port())).map_err(|()| anyhow!("a broker has a port"))?;
            events = broker.into();
        }
        let listen = listen.to_string();
        let args = ["service", name, "--database", &database, "--events", &events, "--place", &place];
        let mut args: Vec<String> =
            args.into_iter().chain(["--listen", &listen]).map(str::to_owned).collect();
        args.extend(peers.iter().map(|(peer, url)| format!("--peer={peer}={url}")));
        args.extend(self.set.without.map(|_| "--rig".to_owned()));
        args.extend(self.flags.get(name).into_iter().flatten().cloned());
        let (child, [address]) = self.part(name, args)?.start().await?;
        self.running.insert(name.into(), child);
        Ok(address)
    }

    /// The broker from which it gets events over a line.
    async fn broker_of(&self, name: &str) -> anyhow::Result<Option<SocketAddr>> {
        let Some(broker) = self.set.ground.events.behind_line()? else { return Ok(None) };
        if !consumes(name) {
            return Ok(None);
        }
        let host = (
            broker.host_str().context("a broker has a host")?,
            broker.port().context("a broker has a port")?,
        );
        Ok(Some(lookup_host(host).await?.next().context("the broker is nowhere")?))
    }

    fn part(&self, name: &str, args: Vec<String>) -> anyhow::Result<Part> {
        Ok(Part {
            binary: self.binary.clone(),
            name: name.to_owned(),
            args,
            secrets: serde_json::to_string(&self.secrets)?,
            without: self.set.without,
            log: self.folder.join(format!("{name}.log")),
            fallen: self.fallen.clone(),
        })
    }
}

/// Whether it gets events of other services.
fn consumes(name: &str) -> bool {
    between_services().any(|(_, receiver)| receiver == name)
}
