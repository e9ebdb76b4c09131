//! The real gateway: `onefold serve` as a child process.
//!
//! Ports are found from the two lines that the binary prints to stdout once it is ready; a restart uses the
//! ports that were found, on the same store. stderr goes to a log in the test's directory. Dropping the
//! handle kills the process.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, ChildStdout, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use serde_json::Value;

use crate::answer::Answer;
use crate::binary::{self, Ended};
use crate::metrics::Metrics;
use crate::process::Process;
use crate::request::Request;
use crate::setup::{Log, Setup};
use crate::wait;

/// Lines of stdout that may wait to be read while the addresses are looked for.
const LINES_AHEAD: usize = 64;

/// How long a start may take.
const START_DEADLINE: Duration = Duration::from_secs(30);

static STARTED: AtomicUsize = AtomicUsize::new(0);

/// A gateway that was started.
#[derive(Debug)]
pub struct Gateway {
    setup: Setup,
    name: String,
    child: Child,
    address: SocketAddr,
    admin_address: SocketAddr,
}

impl Gateway {
    /// Starts it and waits until it is ready.
    ///
    /// # Panics
    /// When it ends before, or is not ready in time.
    pub async fn start(setup: Setup) -> Self {
        let name = format!("gateway-{}", STARTED.fetch_add(1, Ordering::Relaxed) + 1);
        let (child, (address, admin_address)) = spawn(&setup, &name).await;
        Self { setup, name, child, address, admin_address }
    }

    /// A second gateway on the same store and before the same upstream, on ports of its own.
    pub async fn twin(&self) -> Self {
        Self::start(self.setup.clone().addresses("127.0.0.1:0", "127.0.0.1:0")).await
    }

    /// Starts again on the same store and the same ports; ends what still runs with SIGKILL.
    pub async fn restart(&mut self) {
        self.kill();
        let (address, admin_address) = (self.address.to_string(), self.admin_address.to_string());
        self.setup = self.setup.clone().addresses(&address, &admin_address);
        let (child, addresses) = spawn(&self.setup, &self.name).await;
        assert_eq!(addresses, (self.address, self.admin_address), "a restart keeps its addresses");
        self.child = child;
    }

    /// Starts again, as [`Gateway::restart`] does, with a changed configuration.
    pub async fn restart_with(&mut self, change: impl FnOnce(Setup) -> Setup) {
        self.setup = change(self.setup.clone());
        self.restart().await;
    }

    /// Where callers connect.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where operators connect.
    #[must_use]
    pub fn admin_address(&self) -> SocketAddr {
        self.admin_address
    }

    /// The setup it runs with.
    #[must_use]
    pub fn setup(&self) -> &Setup {
        &self.setup
    }

    /// The process.
    #[must_use]
    pub fn process(&self) -> Process {
        Process::of(self.child.id())
    }

    /// Sends a request to the callers' side.
    ///
    /// # Panics
    /// When no answer comes.
    pub async fn send(&self, request: &Request) -> Answer {
        request.send(self.address).await
    }

    /// GET on the admin listener.
    ///
    /// # Panics
    /// When no answer comes.
    pub async fn admin_get(&self, target: &str) -> Answer {
        Request::get(target).send(self.admin_address).await
    }

    /// POST of JSON on the admin listener.
    ///
    /// # Panics
    /// When no answer comes.
    pub async fn admin_post(&self, target: &str, body: &Value) -> Answer {
        Request::post(target).json(body.to_string()).send(self.admin_address).await
    }

    /// Scrapes the metrics.
    ///
    /// # Panics
    /// When they cannot be had.
    pub async fn metrics(&self) -> Metrics {
        let answer = self.admin_get("/metrics").await;
        assert_eq!(answer.status, 200, "{answer}");
        Metrics::parse(answer.text())
    }

    /// The text of the log (stderr of all starts).
    #[must_use]
    pub fn log(&self) -> String {
        let bytes = std::fs::read(self.setup.directory().file(&format!("{}.log", self.name)));
        String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned()
    }

    /// Runs another command of the binary on the same store, with JSON output.
    ///
    /// # Panics
    /// When it does not end.
    pub async fn command(&self, args: &[&str]) -> Ended {
        let mut all = args.to_vec();
        all.extend(["--store", self.setup.store_address(), "--output", "json"]);
        binary::onefold(self.setup.directory().path(), &all).await
    }

    /// `onefold operations list --state STATE` as its items, all pages of it.
    ///
    /// # Panics
    /// When the command fails or prints no list.
    pub async fn operations_in(&self, state: &str) -> Vec<Value> {
        let mut all = Vec::new();
        let mut cursor = None;
        loop {
            let mut args = vec!["operations", "list", "--state", state];
            args.extend(cursor.iter().flat_map(|cursor: &String| ["--cursor", cursor.as_str()]));
            let listed = self.command(&args).await;
            listed.assert_code(0);
            let mut page = listed.json();
            let Value::Array(items) = page["items"].take() else { panic!("no list: {listed:?}") };
            all.extend(items);
            cursor = match &page["next_cursor"] {
                Value::Null => return all,
                Value::String(next) => Some(next.clone()),
                next => Some(next.to_string()),
            };
        }
    }

    /// Whether the process still runs.
    ///
    /// # Panics
    /// When the system does not say.
    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("the child's state").is_none()
    }

    /// Kills it with SIGKILL and reaps it; nothing happens when it has ended already.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Waits until it ends by itself.
    ///
    /// # Panics
    /// When it does not within `deadline`.
    pub async fn ended(&mut self, deadline: Duration) -> ExitStatus {
        let child = &mut self.child;
        wait::some(deadline, "the gateway has ended", async || child.try_wait().expect("the child's state"))
            .await
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.kill();
    }
}

type Addresses = (SocketAddr, SocketAddr);

async fn spawn(setup: &Setup, name: &str) -> (Child, Addresses) {
    let log_path = setup.directory().file(&format!("{name}.log"));
    let log = OpenOptions::new().create(true).append(true).open(&log_path).expect("opens the log");
    let mut command = setup.command(&format!("{name}.toml"));
    let stderr = match setup.log() {
        Log::File => Stdio::from(log),
        Log::LostReader => Stdio::piped(),
    };
    let mut child = command.stdout(Stdio::piped()).stderr(stderr).spawn().expect("the binary can be started");
    let lines = read_lines(child.stdout.take().expect("piped"), setup, name);
    let mut found = Found::default();
    let ready = wait::try_some(START_DEADLINE, async || {
        lines.try_iter().for_each(|line| found.note(&line));
        let is_over = found.both().is_some() || matches!(child.try_wait(), Ok(Some(_)));
        is_over.then(|| found.both())
    })
    .await;
    match ready.flatten() {
        Some(addresses) => {
            drop(child.stderr.take());
            (child, addresses)
        }
        None => {
            let _ = child.kill();
            let status = child.wait();
            let log = std::fs::read_to_string(&log_path).unwrap_or_default();
            panic!("the gateway did not become ready ({status:?}, {found:?}):\n{log}");
        }
    }
}

#[derive(Debug, Default)]
struct Found {
    public: Option<SocketAddr>,
    admin: Option<SocketAddr>,
}

impl Found {
    fn note(&mut self, line: &str) {
        let address = |prefix: &str| line.strip_prefix(prefix).and_then(|rest| rest.parse().ok());
        self.public = self.public.or(address("listening on http://"));
        self.admin = self.admin.or(address("admin on http://"));
    }

    fn both(&self) -> Option<Addresses> {
        Some((self.public?, self.admin?))
    }
}

/// Drains stdout for as long as the process lives, so that it never blocks on a full pipe.
fn read_lines(stdout: ChildStdout, setup: &Setup, name: &str) -> mpsc::Receiver<String> {
    let copy = setup.directory().file(&format!("{name}.out"));
    let (sender, receiver) = mpsc::sync_channel(LINES_AHEAD);
    std::thread::spawn(move || {
        let mut copy = File::options().create(true).append(true).open(copy).ok();
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            if let Some(copy) = &mut copy {
                use std::io::Write as _;
                let _ = writeln!(copy, "{line}");
            }
            let _ = sender.send(line);
        }
    });
    receiver
}
