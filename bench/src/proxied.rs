//! The gateway that is measured: the release binary, in front of an upstream, over a new store.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use crate::process::{Process, Resident};

/// As an operator would write it; only the quota of live keys is out of the way, since all orders come from one caller.
const SETTINGS: &str = r#"
[limits]
live_keys_per_scope = 1000000000

[[operation]]
name = "CreateOrder"
match = { method = "POST", path = "/orders" }
boundary = "one order for each key"
scope = ["credential"]
"#;

/// What it warns of when its store is new, as it always is here.
const NEW_STORE: &str = "a new, empty store was made";

/// A running gateway.
pub(crate) struct Gateway {
    pub(crate) address: SocketAddr,
    process: Process,
}

impl Gateway {
    /// Starts the binary in front of an upstream, with its store in `dir`.
    pub(crate) fn start(onefold: &Path, upstream: SocketAddr, dir: &Path) -> Result<Gateway> {
        let store = format!("sqlite:{}", dir.join("onefold.db").display());
        Gateway::start_on(&store, "", onefold, upstream, dir)
    }

    /// Starts the binary on this store, with further settings; its own files lie in `dir`.
    pub(crate) fn start_on(
        store: &str,
        more: &str,
        onefold: &Path,
        upstream: SocketAddr,
        dir: &Path,
    ) -> Result<Gateway> {
        let settings = dir.join("onefold.toml");
        std::fs::write(&settings, format!("{more}{SETTINGS}"))?;
        let mut command = Command::new(onefold);
        command
            .args(["serve", "--log", "warn", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"])
            .arg("--upstream")
            .arg(format!("http://{upstream}"))
            .args(["--store", store])
            .arg("--config")
            .arg(&settings);
        let mut process = Process::start("onefold", &mut command, dir)?;
        Ok(Gateway { address: process.announced()?, process })
    }

    /// Its resident memory.
    pub(crate) fn resident(&self) -> Result<Resident> {
        self.process.resident_mib()
    }

    /// The processor time that it has used; `None` where the system does not tell.
    pub(crate) fn cpu(&self) -> Option<Duration> {
        self.process.cpu()
    }

    /// What it said last on standard error.
    pub(crate) fn said(&self) -> String {
        self.process.said()
    }

    /// Fails when it has ended.
    pub(crate) fn check_running(&mut self) -> Result<()> {
        self.process.check()
    }

    /// Fails when it has ended or has warned of anything.
    pub(crate) fn check(&mut self) -> Result<()> {
        self.check_running()?;
        let said = self.process.said();
        let warned: Vec<&str> = said.lines().filter(|line| !line.contains(NEW_STORE)).collect();
        anyhow::ensure!(warned.is_empty(), "the gateway warned: {}", warned.join("\n"));
        Ok(())
    }
}
