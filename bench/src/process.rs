//! A process that a benchmark has started: ended with it, and its words kept where it fails.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// How long a process may take to end before it is killed: longer than the gateway's grace.
const END_MAX: Duration = Duration::from_secs(15);
/// What processor time is counted in, on Linux.
const TICK_MS: u64 = 10;
/// How much of what a failed process said is shown.
const SHOWN_BYTES: usize = 2000;

/// A running process. Dropped, it is asked to end and waited for.
pub(crate) struct Process {
    name: &'static str,
    child: Child,
    log: PathBuf,
    /// Kept open: our own servers end when it closes, also when this process is killed.
    _stdin: Option<ChildStdin>,
}

impl Process {
    /// Starts it; what it says on standard error goes to a file in `dir`.
    pub(crate) fn start(name: &'static str, command: &mut Command, dir: &Path) -> Result<Process> {
        let log = dir.join(format!("{name}.log"));
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(&log)?)
            .spawn()
            .with_context(|| format!("{name} cannot be started ({})", command.get_program().display()))?;
        let stdin = child.stdin.take();
        Ok(Process { name, child, log, _stdin: stdin })
    }

    /// The address after `http://` in the first line that it prints.
    pub(crate) fn announced(&mut self) -> Result<SocketAddr> {
        let stdout = self.child.stdout.take().context("the first line was read before")?;
        let mut line = String::new();
        let mut reader = BufReader::new(stdout);
        reader.read_line(&mut line)?;
        let address = line.split("http://").nth(1).and_then(|rest| rest.trim().parse().ok());
        let Some(address) = address else {
            bail!("{} did not say where it listens: {}", self.name, self.said());
        };
        // Whatever else it prints is read, so that it never waits for us.
        std::thread::spawn(move || std::io::copy(&mut reader, &mut std::io::sink()));
        Ok(address)
    }

    /// Fails when it has ended.
    pub(crate) fn check(&mut self) -> Result<()> {
        if let Some(status) = self.child.try_wait()? {
            bail!("{} has ended ({status}): {}", self.name, self.said());
        }
        Ok(())
    }

    /// What it said last on standard error.
    pub(crate) fn said(&self) -> String {
        let mut bytes = Vec::new();
        let read = File::open(&self.log).and_then(|mut log| log.read_to_end(&mut bytes));
        let from = bytes.len().saturating_sub(SHOWN_BYTES);
        match read {
            Ok(_) => String::from_utf8_lossy(&bytes[from..]).into_owned(),
            Err(error) => format!("(its log cannot be read: {error})"),
        }
    }

    /// Resident memory now and at its highest, in MiB.
    pub(crate) fn resident_mib(&self) -> Result<Resident> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))
            .context("resident memory is read from /proc")?;
        let field = |name: &str| {
            let value = status.lines().find_map(|line| line.strip_prefix(name))?;
            value.trim().trim_end_matches(" kB").parse::<f64>().ok()
        };
        let (now, highest) =
            field("VmRSS:").zip(field("VmHWM:")).context("/proc shows no resident memory")?;
        Ok(Resident { now: now / 1024.0, highest: highest / 1024.0 })
    }

    /// The processor time that it has used; `None` where the system does not tell.
    pub(crate) fn cpu(&self) -> Option<Duration> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).ok()?;
        // Behind the name, which may hold anything: the state is field 3, user and system time are 14 and 15.
        let fields: Vec<&str> = stat.rsplit(')').next()?.split_whitespace().collect();
        let ticks = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
        Some(Duration::from_millis((ticks(14)? + ticks(15)?) * TICK_MS))
    }

    fn end(&mut self) -> Result<()> {
        if self.child.try_wait()?.is_some() {
            return Ok(());
        }
        kill(Pid::from_raw(i32::try_from(self.child.id())?), Signal::SIGTERM)?;
        let until = Instant::now() + END_MAX;
        while self.child.try_wait()?.is_none() {
            if Instant::now() >= until {
                self.child.kill()?;
                self.child.wait()?;
                bail!("it did not end within {} s and was killed", END_MAX.as_secs());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            eprintln!("bench: {}: {error}", self.name);
        }
    }
}

/// Resident memory in MiB.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Resident {
    pub(crate) now: f64,
    pub(crate) highest: f64,
}
