//! `bfstore`: starts the whole checkout, or plays its story. `service` and `outside` are the processes that these start.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use bfstore::ground::{Databases, Events, Ground};
use bfstore::ledgers::Ledgers;
use bfstore::matrix::{Matrix, Outcome};
use bfstore::service::Settings;
use bfstore::stage::{Set, Stage};
use bfstore::{SECRETS_VARIABLE, check, contracts, outside, safeguard, services, story, unprotected};
use clap::{Parser, Subcommand};
use tracing_subscriber::EnvFilter;

/// What the clients of brokers say of themselves is for whoever asks for it.
const LOG: &str = "info,async_nats=warn,lapin=off,librdkafka=warn";

#[derive(Parser)]
#[command(about = "A whole checkout as real services, on loopback")]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Start everything, and print what to open
    Up {
        /// Where the files and logs are; a temporary folder otherwise
        #[arg(long)]
        folder: Option<PathBuf>,
        #[command(flatten)]
        on: On,
    },
    /// Play the chapters, and compare every effect with what should have come of them
    Story {
        /// Only these
        #[arg(long)]
        chapter: Vec<u8>,
        #[command(flatten)]
        on: On,
    },
    /// Repeat everything by every source of repetition while the services are killed, and count the effects
    Matrix {
        /// How many
        #[arg(long, default_value_t = 1000)]
        checkouts: usize,
        /// Deals the sources and the kills; printed, to play the same again
        #[arg(long)]
        seed: Option<u64>,
        /// Where the files and logs are; a temporary folder otherwise
        #[arg(long)]
        folder: Option<PathBuf>,
        #[command(flatten)]
        on: On,
    },
    /// Take one protection away at a time, and show the duplicate that it prevents
    Unprotected {
        /// `sqlite`, or the URL of a PostgreSQL server
        #[arg(long, default_value = "sqlite")]
        database: Databases,
    },
    /// Compare marks with effects, and name each mark whose effect is not there; exit code 1 if there is one
    Check {
        /// Where the files are
        #[arg(long, default_value = ".")]
        folder: PathBuf,
        /// `sqlite`, or the URL of the PostgreSQL server
        #[arg(long, default_value = "sqlite")]
        database: Databases,
    },
    /// Print what each operation promises
    Contracts,
    /// One of the services
    #[command(hide = true)]
    Service {
        name: String,
        #[arg(long)]
        database: String,
        #[arg(long)]
        events: Events,
        #[arg(long)]
        place: String,
        #[arg(long)]
        listen: SocketAddr,
        /// NAME=URL
        #[arg(long, value_parser = peer)]
        peer: Vec<(String, String)>,
        /// Started by the rig, which may take protections away
        #[arg(long)]
        rig: bool,
        /// Seconds for which finished operations and handled messages are known; otherwise as their contracts say
        #[arg(long)]
        retention: Option<u64>,
        /// The build of the handlers of messages
        #[arg(long, default_value = env!("CARGO_PKG_VERSION"))]
        build: String,
    },
    /// The payment provider and the mail server
    #[command(hide = true)]
    Outside {
        #[arg(long)]
        listen: SocketAddr,
    },
}

/// What the services stand on.
#[derive(clap::Args)]
struct On {
    /// `sqlite`, or the URL of a PostgreSQL server on which each service gets a database of its own
    #[arg(long, default_value = "sqlite")]
    database: Databases,
    /// What carries events: `webhooks`, or the URL of NATS (`nats://…`), RabbitMQ (`amqp://…`) or, where it was built along,
    /// Kafka (`kafka://HOST:PORT`)
    #[arg(long, default_value = "webhooks")]
    events: Events,
}

impl On {
    fn ground(self) -> Ground {
        Ground { databases: self.database, events: self.events, ..Ground::default() }
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    let filter = EnvFilter::try_from_env("BFSTORE_LOG").unwrap_or_else(|_| EnvFilter::new(LOG));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(false).init();
    match run(Args::parse().command).await {
        Ok(code) => code,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Up { folder, on } => up(folder, on.ground()).await?,
        Command::Story { chapter, on } => {
            return story::tell(&std::env::current_exe()?, &on.ground(), &chapter).await;
        }
        Command::Matrix { checkouts, seed, folder, on } => {
            let seed = seed.unwrap_or_else(rand::random);
            let ground = on.ground().renamed();
            return matrix(Matrix { ground, checkouts, seed }, folder).await;
        }
        Command::Unprotected { database } => {
            let ground = Ground { databases: database, ..Ground::default() };
            return unprotected::show(&std::env::current_exe()?, &ground).await;
        }
        Command::Check { folder, database } => {
            let ground = Ground { databases: database, ..Ground::default() };
            return check::tell(&Ledgers::at(&ground, &folder).await?).await;
        }
        Command::Contracts => print!("{}", contracts::printed()),
        Command::Service { name, database, events, place, listen, peer, retention, build, rig } => {
            safeguard::take_away(rig)?;
            let secrets = std::env::var(SECRETS_VARIABLE).context("there are no secrets")?;
            let secrets: BTreeMap<String, String> = serde_json::from_str(&secrets)?;
            let (peers, retention) = (peer.into_iter().collect(), retention.map(Duration::from_secs));
            let settings =
                Settings { name, database, events, place, listen, peers, secrets, retention, build };
            services::run(&settings).await?;
        }
        Command::Outside { listen } => outside::run(listen).await?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn matrix(matrix: Matrix, folder: Option<PathBuf>) -> anyhow::Result<ExitCode> {
    println!("seed {}", matrix.seed);
    let temporary = tempfile::tempdir()?;
    let folder = folder.unwrap_or_else(|| temporary.path().to_owned());
    std::fs::create_dir_all(&folder)?;
    let folder = folder.canonicalize()?;
    let outcome: Outcome = matrix.run(&std::env::current_exe()?, &folder).await?;
    print!("{outcome}");
    Ok(if outcome.faults.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn up(folder: Option<PathBuf>, ground: Ground) -> anyhow::Result<()> {
    let temporary = tempfile::tempdir()?;
    let folder = folder.unwrap_or_else(|| temporary.path().to_owned());
    std::fs::create_dir_all(&folder)?;
    let folder = folder.canonicalize()?;
    let set = Set { ground, ..Set::default() };
    let stage = Stage::start(&std::env::current_exe()?, &folder, set).await?;
    println!("shop       {}/", stage.url("storefront"));
    println!("outside    {}/happened", stage.url("outside"));
    println!("files      {}", folder.display());
    for name in services::NAMES {
        println!("{name:<14} {}", stage.ground().database(name, &folder)?);
    }
    println!("Ctrl-C ends everything.");
    tokio::select! {
        ended = ended() => ended?,
        fallen = stage.fallen() => return Err(fallen),
    }
    stage.end().await;
    Ok(())
}

/// Ctrl-C, or SIGTERM.
async fn ended() -> anyhow::Result<()> {
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    tokio::select! {
        interrupted = tokio::signal::ctrl_c() => Ok(interrupted?),
        _ = terminate.recv() => Ok(()),
    }
}

fn peer(text: &str) -> Result<(String, String), String> {
    let (name, url) = text.split_once('=').ok_or("NAME=URL")?;
    Ok((name.to_owned(), url.to_owned()))
}
