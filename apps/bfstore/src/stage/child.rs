//! A process of the stage: this program again, with one of its commands.
//!
//! It is in a process group of its own, so that Ctrl-C reaches the stage alone, which then ends it. Its standard input
//! is a pipe that closes when the stage ends, whatever ends it (see [`crate::parent`]); dropping it kills it.

use std::fs::OpenOptions;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, anyhow};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::fallen::Fallen;
use crate::SECRETS_VARIABLE;
use crate::safeguard::{Safeguard, WITHOUT_VARIABLE};

/// A process that has not said where it listens by now will not.
const START_MAX: Duration = Duration::from_secs(30);
/// A process whose pipe is closed ends at once; after this it is killed.
const END_MAX: Duration = Duration::from_secs(2);
/// A process that comes back to an address may find it taken for a moment.
const STARTS_MAX: u32 = 5;
const PAUSE_BETWEEN_STARTS: Duration = Duration::from_millis(200);

/// What is started.
pub(super) struct Part {
    pub(super) binary: PathBuf,
    pub(super) name: String,
    pub(super) args: Vec<String>,
    pub(super) secrets: String,
    /// The protection that is taken away from it.
    pub(super) without: Option<Safeguard>,
    pub(super) log: PathBuf,
    /// Where it is told that it has ended by itself.
    pub(super) fallen: Fallen,
}

/// A process that runs.
pub(super) struct Child {
    // Dropped first: what ends then does not end by itself. It reads on, since who prints into a closed pipe fails.
    watching: JoinSet<()>,
    process: tokio::process::Child,
}

impl Part {
    /// Starts it and reads the `N` addresses that it announces.
    pub(super) async fn start<const N: usize>(&self) -> anyhow::Result<(Child, [SocketAddr; N])> {
        let mut starts = 1;
        loop {
            match self.start_once().await {
                Err(_) if starts < STARTS_MAX => starts += 1,
                done => return done,
            }
            sleep(PAUSE_BETWEEN_STARTS).await;
        }
    }

    async fn start_once<const N: usize>(&self) -> anyhow::Result<(Child, [SocketAddr; N])> {
        let log = OpenOptions::new().create(true).append(true).open(&self.log)?;
        let mut command = Command::new(&self.binary);
        command.args(&self.args).env(SECRETS_VARIABLE, &self.secrets).kill_on_drop(true).process_group(0);
        command.envs(self.without.map(|without| (WITHOUT_VARIABLE, without.name())));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log);
        let mut process = command.spawn().with_context(|| format!("{} cannot be started", self.name))?;
        let stdout = process.stdout.take().context("stdout is piped")?;
        let mut announced = BufReader::new(stdout).lines();
        let mut addresses = [SocketAddr::from(([0, 0, 0, 0], 0)); N];
        for address in &mut addresses {
            let line = timeout(START_MAX, announced.next_line()).await;
            let line = line.with_context(|| format!("{} does not say where it listens", self.name))??;
            *address = line.as_deref().and_then(announced_address).ok_or_else(|| self.said())?;
        }
        let (name, log, fallen) = (self.name.clone(), self.log.clone(), self.fallen.clone());
        let mut watching = JoinSet::new();
        watching.spawn(async move {
            // The pipe is closed by its end.
            while let Ok(Some(_)) = announced.next_line().await {}
            fallen.tell(format!("{name} has ended by itself; it said: {}", last_line(&log)));
        });
        Ok((Child { watching, process }, addresses))
    }

    /// What it had to say instead of an address.
    fn said(&self) -> anyhow::Error {
        anyhow!("{} did not start; it said: {}", self.name, last_line(&self.log))
    }
}

fn last_line(log: &Path) -> String {
    let log = std::fs::read_to_string(log).unwrap_or_default();
    log.lines().next_back().unwrap_or("nothing").to_owned()
}

impl Child {
    /// SIGKILL.
    pub(super) async fn kill(mut self) -> anyhow::Result<()> {
        self.watching.abort_all();
        Ok(self.process.kill().await?)
    }

    /// Lets it end by closing its pipe, and makes sure that it did.
    pub(super) async fn end(mut self) {
        self.watching.abort_all();
        drop(self.process.stdin.take());
        if timeout(END_MAX, self.process.wait()).await.is_err() {
            let _ = self.process.kill().await;
        }
    }
}

/// `listening on http://127.0.0.1:4711`
fn announced_address(line: &str) -> Option<SocketAddr> {
    line.rsplit_once("://")?.1.parse().ok()
}
