//! The command line of the benchmarks.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand, ValueEnum};

/// Benchmarks of Onefold.
#[derive(Parser)]
#[command(name = "bench", about)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) settings: Settings,
    #[command(subcommand)]
    pub(crate) bench: Bench,
}

#[derive(Subcommand)]
pub(crate) enum Bench {
    /// New operations and replays through the gateway, beside a plain nginx in front of the same upstream
    Gateway,
    /// Claim and settle in the SQLite store, beside a raw log of equal bytes
    Store,
    /// Claim and settle in the PostgreSQL store, beside a plain insert of equal bytes, with the log that each writes
    Postgres(Postgres),
    /// Transactions of a service in atomic mode, beside the same transactions without idempotency
    Library(Postgres),
    /// Messages: written with the business, handled once, relayed
    Messages(Messages),
    /// New operations through a gateway while a million records that expired at once are swept, beside the same without
    /// a sweep
    Sweep(Sweep),
    /// Resident memory of the gateway while distinct keys go through it
    Memory(Memory),
    /// All of them
    All(Memory),
    /// An upstream that does nothing, until standard input ends
    #[command(hide = true)]
    Nothing,
}

#[derive(clap::Args)]
pub(crate) struct Memory {
    /// Distinct keys
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(10..))]
    pub(crate) keys: u64,
}

#[derive(clap::Args)]
pub(crate) struct Messages {
    /// A PostgreSQL server in which a database is made, and dropped again [default: SQLite alone]
    #[arg(long, env = "ONEFOLD_POSTGRES_URL", value_name = "URL")]
    pub(crate) server: Option<String>,
    /// A NATS server with JetStream, in which a stream is made and deleted again [default: no relay to NATS]
    #[arg(long, env = "ONEFOLD_NATS_URL", value_name = "URL")]
    pub(crate) nats: Option<String>,
    /// Messages that wait where the relay is measured
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(100..))]
    pub(crate) messages: u32,
    /// Seconds that a reader's transaction stays open
    #[arg(long, default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) pinned: u64,
}

#[derive(clap::Args)]
pub(crate) struct Postgres {
    /// A server in which a database is made, and dropped again
    #[arg(long, env = "ONEFOLD_POSTGRES_URL", value_name = "URL")]
    pub(crate) server: String,
    /// Records that stand in the table before
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000_000))]
    pub(crate) rows: u32,
    /// Leave the database with these records on the server, for the next run with as many
    #[arg(long)]
    pub(crate) keep: bool,
}

#[derive(clap::Args)]
pub(crate) struct Sweep {
    /// A PostgreSQL server in which a database is made, and dropped again
    #[arg(long, env = "ONEFOLD_POSTGRES_URL", value_name = "URL")]
    pub(crate) server: Option<String>,
    /// Records that have expired when the measurements begin
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1000..))]
    pub(crate) rows: u32,
}

/// What every benchmark takes.
#[derive(clap::Args)]
pub(crate) struct Settings {
    /// A table, or one JSON object for each figure
    #[arg(long, global = true, value_enum, default_value_t = Output::Text)]
    pub(crate) output: Output,
    /// Connections (for the store: tasks) at a time
    #[arg(long, global = true, value_delimiter = ',', default_value = "1,16,64",
          value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) connections: Vec<u32>,
    /// How often everything is measured; the median is printed, with the lowest and the highest
    #[arg(long, global = true, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) repeats: u32,
    /// Seconds of one measurement
    #[arg(long, global = true, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// Seconds under load before each measurement
    #[arg(long, global = true, default_value_t = 1, value_parser = clap::value_parser!(u64).range(0..=600))]
    warmup: u64,
    /// Keys of new operations: random UUIDs, or ones that carry their time
    #[arg(long, global = true, value_enum, default_value_t = KeysKind::V4)]
    pub(crate) keys_kind: KeysKind,
    /// Where databases and logs are written [default: bench in cargo's target folder]
    #[arg(long, global = true)]
    dir: Option<PathBuf>,
    /// The release binary `onefold`
    #[arg(long, global = true, env = "ONEFOLD_BIN", value_name = "PATH")]
    onefold: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    Text,
    Json,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum KeysKind {
    /// Random
    V4,
    /// In the order of time
    V7,
}

impl KeysKind {
    /// What a table says of them.
    pub(crate) fn told(self) -> &'static str {
        match self {
            KeysKind::V4 => "keys are random UUIDs (version 4)",
            KeysKind::V7 => "keys are UUIDs that carry their time (version 7)",
        }
    }
}

impl Settings {
    /// How long one measurement is.
    pub(crate) fn window(&self) -> Duration {
        Duration::from_secs(self.seconds)
    }

    /// How long the load runs before it.
    pub(crate) fn warmup(&self) -> Duration {
        Duration::from_secs(self.warmup)
    }

    /// The binary to be measured.
    pub(crate) fn onefold(&self) -> Result<&PathBuf> {
        let why =
            "which binary? Run `cargo xtask bench NAME`, or set ONEFOLD_BIN to a release build of onefold";
        self.onefold.as_ref().context(why)
    }

    /// The folder in which a benchmark makes one of its own.
    pub(crate) fn dir(&self) -> Result<PathBuf> {
        let dir = match &self.dir {
            Some(dir) => std::path::absolute(dir)?,
            None => {
                let own = std::env::current_exe()?;
                own.ancestors().nth(2).context("this program lies in no folder of cargo")?.join("bench")
            }
        };
        std::fs::create_dir_all(&dir).with_context(|| format!("{} cannot be made", dir.display()))?;
        Ok(dir)
    }

    /// What a table says about how it was measured.
    pub(crate) fn told(&self) -> String {
        format!(
            "median (lowest to highest) of {} repeats of {} s each, after {} s of warm-up; {}",
            self.repeats,
            self.seconds,
            self.warmup,
            self.keys_kind.told()
        )
    }
}
