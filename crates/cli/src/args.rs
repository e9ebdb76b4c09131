//! The command line.

mod messages;

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};

pub(crate) use messages::{
    Grant, Inbox, InboxList, InboxRedrive, InboxRerun, Outbox, OutboxList, OutboxRedrive, Permits, RedriveAs,
};

/// Many attempts, one effect.
#[derive(Parser)]
#[command(name = "onefold", version, propagate_version = true)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What every command takes.
#[derive(clap::Args)]
pub(crate) struct Common {
    /// The store: sqlite:PATH or postgres://USER:PASSWORD@HOST:PORT/DATABASE
    #[arg(long, global = true, env = "ONEFOLD_STORE", hide_env_values = true, value_name = "URL")]
    pub(crate) store: Option<String>,
    /// The settings
    #[arg(long, global = true, env = "ONEFOLD_CONFIG", value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// How data is printed
    #[arg(long, global = true, value_enum, default_value_t = Output::Text)]
    pub(crate) output: Output,
    /// What is logged to stderr
    #[arg(long, global = true, value_enum, default_value_t = LogLevel::Info)]
    pub(crate) log: LogLevel,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    Text,
    Json,
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// See it work: retries, duplicates and killed processes against a real order service, and the orders counted
    ///
    /// Starts an order service and the gateway as processes of their own, on free ports of this host, with databases
    /// and settings in a temporary directory; --store and --config do not matter. Exit code 1 when one count is wrong.
    Demo(Demo),
    /// The order service of `demo`
    #[command(hide = true)]
    DemoOrders(DemoOrders),
    /// The gateway of `demo`
    #[command(hide = true)]
    DemoGateway(Serve),
    /// Send a request until it is settled: one key, bounded retries, waits, replays
    ///
    /// Makes a key unless one is given, says it on stderr before anything is sent, and sends every attempt with it.
    /// The final answer's body goes to stdout, what happens on the way to stderr. Exit codes: 0 done (or replayed), 1
    /// rejected, 65 the key was used for another request, 69 unavailable and nothing happened, 75 busy or still
    /// running, 76 it may have happened: come back with the same key.
    Call(Call),
    /// Protect an HTTP service: a reverse proxy that lets a retried request have one effect
    Serve(Serve),
    /// Send the messages of the outbox to the destinations of the settings, until SIGTERM or SIGINT
    ///
    /// Any number of relays may run over one store.
    Relay(Relay),
    /// Look at operations, and settle those whose outcome is unknown
    #[command(subcommand)]
    Operations(Operations),
    /// Look at messages on their way out, and act on those that wait for a person
    #[command(subcommand)]
    Outbox(Outbox),
    /// Look at messages that came in, and let those that were given up be handled again
    #[command(subcommand)]
    Inbox(Inbox),
    /// Permit messages to be handled again, each of them once
    #[command(subcommand)]
    Permits(Permits),
    /// Look after the store
    #[command(subcommand)]
    Store(StoreCommand),
}

#[derive(clap::Args)]
pub(crate) struct Demo {
    /// Leave everything running until Ctrl-C, with the addresses and commands to try; the files stay
    #[arg(long)]
    pub(crate) keep: bool,
    /// Where the random pauses start [default: another one each time]
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
}

#[derive(clap::Args)]
pub(crate) struct DemoOrders {
    /// Its database
    #[arg(long, value_name = "FILE")]
    pub(crate) db: PathBuf,
    /// Where it listens
    #[arg(long, value_name = "ADDR")]
    pub(crate) listen: SocketAddr,
}

#[derive(clap::Args)]
pub(crate) struct Relay {
    /// Where health and metrics are shown; port 0 is any free one [default: nowhere]
    #[arg(long, value_name = "ADDR")]
    pub(crate) listen: Option<SocketAddr>,
}

#[derive(clap::Args)]
pub(crate) struct Serve {
    /// The service to protect, such as http://127.0.0.1:3000
    #[arg(long, value_name = "URL")]
    pub(crate) upstream: Option<String>,
    /// Where callers connect [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDR")]
    pub(crate) listen: Option<String>,
    /// Where operators and monitoring connect [default: 127.0.0.1:7070]
    #[arg(long, value_name = "ADDR")]
    pub(crate) admin_listen: Option<String>,
    /// Let requests without credentials share one scope although others can connect
    #[arg(long)]
    pub(crate) allow_anonymous: bool,
    /// Refuse what is otherwise only warned of
    #[arg(long)]
    pub(crate) strict: bool,
}

#[derive(clap::Args)]
pub(crate) struct Call {
    /// Such as POST
    pub(crate) method: String,
    /// Where to, with http:// or https://
    pub(crate) url: String,
    /// The operation's key: one of the business, or that of an earlier call [default: a new one, for methods that
    /// change something]
    #[arg(long)]
    pub(crate) key: Option<String>,
    /// The body; @FILE reads it from a file, @- from stdin
    #[arg(long, value_name = "STRING|@FILE")]
    pub(crate) data: Option<String>,
    /// A header line, such as 'Authorization: Bearer …'; may be repeated
    #[arg(long, value_name = "NAME: VALUE")]
    pub(crate) header: Vec<String>,
    /// How long everything may take: attempts, pauses and waits
    #[arg(long, value_name = "DURATION", default_value = "60s")]
    pub(crate) deadline: String,
    /// Attempts in all
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) attempts: u32,
    /// What the other side expects: onefold, draft, stripe, adyen, square, paypal, github, grpc, or @FILE with a
    /// profile in TOML
    #[arg(long, value_name = "NAME|@FILE", default_value = "onefold")]
    pub(crate) profile: String,
}

#[derive(Subcommand)]
pub(crate) enum StoreCommand {
    /// Bring the store to this release's schema
    Migrate,
    /// Look whether the store can be used, and whether what it acknowledges would survive; exit code 69 if not
    Check,
    /// Count records and the bytes they take
    Stats,
    /// Sweep now what has expired, and mark lost outcomes
    Sweep,
}

#[derive(Subcommand)]
pub(crate) enum Operations {
    /// List operations, oldest first
    List(List),
    /// Show one operation with its history
    Show {
        /// Its id: 64 hexadecimal digits
        id: String,
    },
    /// Settle an operation whose outcome is unknown
    Resolve(Resolve),
    /// Take an operation from its attempt: it becomes outcome_unknown, never free
    Release {
        /// Its id: 64 hexadecimal digits
        id: String,
        /// Why; kept with the record
        #[arg(long)]
        reason: String,
        /// Also when the attempt is alive
        #[arg(long)]
        force: bool,
    },
}

#[derive(clap::Args)]
pub(crate) struct List {
    /// In this state: received, processing, succeeded, rejected, failed, outcome_unknown
    #[arg(long)]
    pub(crate) state: Option<String>,
    /// Of this operation
    #[arg(long, allow_hyphen_values = true)]
    pub(crate) operation: Option<String>,
    /// Of this scope; may be repeated, in the order of the contract
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) scope: Vec<String>,
    /// Under this key
    #[arg(long, allow_hyphen_values = true)]
    pub(crate) key: Option<String>,
    /// With this resource id
    #[arg(long, allow_hyphen_values = true)]
    pub(crate) resource: Option<String>,
    /// Made at least this long ago: 30s, 5m, 7d
    #[arg(long, value_name = "DURATION")]
    pub(crate) older_than: Option<String>,
    /// Where the page before ended
    #[arg(long)]
    pub(crate) cursor: Option<i64>,
    /// At most this many
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) limit: u32,
}

#[derive(clap::Args)]
pub(crate) struct Resolve {
    /// Its id: 64 hexadecimal digits
    pub(crate) id: String,
    /// What happened: succeeded (it did) or failed (it did not; the key is free)
    #[arg(long = "as", value_enum)]
    pub(crate) resolved_as: ResolveAs,
    /// Why; kept with the record
    #[arg(long)]
    pub(crate) reason: String,
    /// What shows it; kept with the record
    #[arg(long)]
    pub(crate) evidence: String,
    /// What it brought forth, such as order:5001
    #[arg(long, value_name = "TYPE:ID")]
    pub(crate) resource: Option<String>,
    /// The status that duplicates get from now on
    #[arg(long, value_parser = clap::value_parser!(u16).range(200..=599))]
    pub(crate) status: Option<u16>,
    /// The body that duplicates get from now on
    #[arg(long, value_name = "STRING|@FILE", requires = "status")]
    pub(crate) body: Option<String>,
    /// The type of that body
    #[arg(long, default_value = "application/json", requires = "body")]
    pub(crate) content_type: String,
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum ResolveAs {
    Succeeded,
    Failed,
}
