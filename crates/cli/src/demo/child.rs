//! A process of the demo: this binary again, with one of its commands.
//!
//! It is in a process group of its own, so that Ctrl-C reaches the demo alone, which then ends it. Its standard input
//! is a pipe that closes when the demo ends, whatever ends it (see [`super::parent`]); dropping it kills it.

use std::fs::OpenOptions;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{ChildStdout, Command};
use tokio::time::{sleep, timeout};

use crate::exit::Failure;

/// A process that has not said where it listens by now will not.
const START_MAX: Duration = Duration::from_secs(20);
/// A process whose pipe is closed ends at once; after this it is killed.
const END_MAX: Duration = Duration::from_secs(2);
/// A process that comes back to an address may find it taken for a moment.
const STARTS_MAX: u32 = 5;
const PAUSE_BETWEEN_STARTS: Duration = Duration::from_millis(200);

/// What is started.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    /// Its name in messages.
    pub(crate) name: &'static str,
    /// The command and its arguments.
    pub(crate) args: Vec<String>,
    /// Where it works.
    pub(crate) directory: PathBuf,
    /// Where its log goes, in that directory.
    pub(crate) log: &'static str,
}

/// A process that runs, and where it listens.
pub(crate) struct Child {
    process: tokio::process::Child,
    /// Kept open: who prints into a closed pipe fails.
    _announced: Lines<BufReader<ChildStdout>>,
}

/// This binary, without the settings that the user's environment holds for it.
pub(crate) fn onefold(directory: &Path) -> Result<Command, Failure> {
    let binary = std::env::current_exe()
        .map_err(|error| Failure::failed(format!("this program does not find itself: {error}")))?;
    let mut command = Command::new(binary);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("ONEFOLD_") {
            command.env_remove(name);
        }
    }
    command.current_dir(directory).kill_on_drop(true);
    Ok(command)
}

impl Part {
    /// Starts it and reads the `N` addresses that it announces.
    pub(crate) async fn start<const N: usize>(&self) -> Result<(Child, [SocketAddr; N]), Failure> {
        let mut starts = 1;
        loop {
            match self.start_once().await {
                Err(_) if starts < STARTS_MAX => starts += 1,
                done => return done,
            }
            sleep(PAUSE_BETWEEN_STARTS).await;
        }
    }

    async fn start_once<const N: usize>(&self) -> Result<(Child, [SocketAddr; N]), Failure> {
        let failed = |error: io::Error| Failure::failed(format!("{} did not start: {error}", self.name));
        let log = self.directory.join(self.log);
        let log = OpenOptions::new().create(true).append(true).open(log).map_err(failed)?;
        let mut command = onefold(&self.directory)?;
        command.args(&self.args).process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log);
        let mut process = command.spawn().map_err(failed)?;
        let stdout = process.stdout.take().expect("stdout is piped");
        let mut announced = BufReader::new(stdout).lines();
        let mut addresses = [SocketAddr::from(([0, 0, 0, 0], 0)); N];
        for address in &mut addresses {
            let line = timeout(START_MAX, announced.next_line()).await;
            let line = line.map_err(|_| failed(io::ErrorKind::TimedOut.into()))?.map_err(failed)?;
            *address = line.as_deref().and_then(announced_address).ok_or_else(|| self.said())?;
        }
        Ok((Child { process, _announced: announced }, addresses))
    }

    /// What it had to say instead of an address.
    fn said(&self) -> Failure {
        let log = std::fs::read_to_string(self.directory.join(self.log)).unwrap_or_default();
        let last = log.lines().next_back().unwrap_or("nothing");
        Failure::failed(format!("{} did not start; it said: {last}", self.name))
    }
}

impl Child {
    /// SIGKILL: it ends in the middle of whatever it does.
    pub(crate) async fn kill(mut self) -> Result<(), Failure> {
        self.process
            .kill()
            .await
            .map_err(|error| Failure::failed(format!("a process could not be killed: {error}")))
    }

    /// Lets it end by closing its pipe, and makes sure that it did.
    pub(crate) async fn end(mut self) {
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
