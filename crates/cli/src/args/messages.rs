//! The command line of messages.

use clap::{Subcommand, ValueEnum};

#[derive(Subcommand)]
pub(crate) enum Outbox {
    /// List outgoing messages, oldest first
    List(OutboxList),
    /// Show one message with its content and what people did to it
    Show {
        /// Its id
        id: String,
    },
    /// Act on messages that are dead or outcome_unknown: send them again, say that they arrived, or take them out
    Redrive(OutboxRedrive),
}

#[derive(clap::Args)]
pub(crate) struct OutboxList {
    /// For this destination
    #[arg(long)]
    pub(crate) destination: Option<String>,
    /// In this state: waiting, sending, delivered, dead, outcome_unknown, discarded
    #[arg(long)]
    pub(crate) state: Option<String>,
    /// Under this ordering key
    #[arg(long, allow_hyphen_values = true)]
    pub(crate) ordering_key: Option<String>,
    /// Made at least this long ago: 30s, 5m, 7d
    #[arg(long, value_name = "DURATION")]
    pub(crate) older_than: Option<String>,
    #[command(flatten)]
    pub(crate) page: Page,
}

#[derive(clap::Args)]
pub(crate) struct OutboxRedrive {
    /// The messages
    #[arg(value_name = "ID", required_unless_present = "destination", conflicts_with = "destination")]
    pub(crate) ids: Vec<String>,
    /// All of this destination
    #[arg(long)]
    pub(crate) destination: Option<String>,
    /// Those of the destination in this state: dead, outcome_unknown
    #[arg(long, requires = "destination", default_value = "dead")]
    pub(crate) state: String,
    /// Those of the destination under this ordering key
    #[arg(long, requires = "destination", allow_hyphen_values = true)]
    pub(crate) ordering_key: Option<String>,
    /// The attempt after which you saw it: sent again since, it is passed over
    #[arg(long, value_name = "N", conflicts_with = "destination")]
    pub(crate) attempt: Option<u32>,
    /// What is done. A message that is outcome_unknown may have arrived: look there before it is sent again
    #[arg(long = "as", value_enum)]
    pub(crate) redrive_as: RedriveAs,
    /// Why; kept with the message
    #[arg(long)]
    pub(crate) reason: String,
    /// At most this many become due in a second
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) per_second: u32,
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum RedriveAs {
    /// Sent again, under the same id
    SendAgain,
    /// It arrived; it is not sent again
    Delivered,
    /// Taken out: it is never sent
    Discarded,
}

#[derive(Subcommand)]
pub(crate) enum Inbox {
    /// List messages that came in, oldest first
    List(InboxList),
    /// Show one message in all its rounds, with what people did to it
    Show {
        /// Its id here: 64 hexadecimal digits
        id: String,
    },
    /// Let parked messages be handled again
    Redrive(InboxRedrive),
    /// Have what a permit is for handled again from the bodies that are kept, each message once
    Rerun(InboxRerun),
}

#[derive(clap::Args)]
pub(crate) struct InboxRedrive {
    /// Their ids here: 64 hexadecimal digits
    #[arg(
        value_name = "ID",
        required_unless_present_any = ["consumer", "source"],
        conflicts_with_all = ["consumer", "source"]
    )]
    pub(crate) ids: Vec<String>,
    /// All of this consumer whose handler failed
    #[arg(long)]
    pub(crate) consumer: Option<String>,
    /// All from this source whose handler failed
    #[arg(long)]
    pub(crate) source: Option<String>,
    /// Why; kept with the message
    #[arg(long)]
    pub(crate) reason: String,
    /// At most this many become due in a second
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) per_second: u32,
}

#[derive(clap::Args)]
pub(crate) struct InboxRerun {
    /// The number of the permit
    #[arg(long, value_name = "N")]
    pub(crate) permit: u32,
    /// Why; kept with the message
    #[arg(long)]
    pub(crate) reason: String,
    /// At most this many become due in a second
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) per_second: u32,
}

#[derive(clap::Args)]
pub(crate) struct InboxList {
    /// Of this consumer
    #[arg(long)]
    pub(crate) consumer: Option<String>,
    /// From this source
    #[arg(long)]
    pub(crate) source: Option<String>,
    /// In this state: failing, processed, rejected, superseded, parked
    #[arg(long)]
    pub(crate) state: Option<String>,
    /// Handled by this build
    #[arg(long)]
    pub(crate) handler: Option<String>,
    /// Under this id of the sender's
    #[arg(long, allow_hyphen_values = true)]
    pub(crate) message: Option<String>,
    /// Only those under whose id something else came
    #[arg(long)]
    pub(crate) conflicts: bool,
    #[command(flatten)]
    pub(crate) page: Page,
}

#[derive(clap::Args)]
pub(crate) struct Page {
    /// Where the page before ended
    #[arg(long)]
    pub(crate) cursor: Option<i64>,
    /// At most this many
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) limit: u32,
}

#[derive(Subcommand)]
pub(crate) enum Permits {
    /// Permit a consumer to handle messages again, each of them once
    Grant(Grant),
    /// List permits
    List {
        /// For this consumer
        #[arg(long)]
        consumer: Option<String>,
    },
    /// End a permit; what it let through stays
    Revoke {
        /// Its number
        number: u32,
        /// Why; kept with the permit
        #[arg(long)]
        reason: String,
    },
}

#[derive(clap::Args)]
pub(crate) struct Grant {
    /// For this consumer
    #[arg(long)]
    pub(crate) consumer: String,
    /// Only messages of this source
    #[arg(long)]
    pub(crate) source: Option<String>,
    /// Only messages that this build handled last
    #[arg(long, value_name = "BUILD")]
    pub(crate) damaged: Option<String>,
    /// Only by this build [default: any other than the damaged one]
    #[arg(long, value_name = "BUILD")]
    pub(crate) handler: Option<String>,
    /// Only this message, by the sender's id
    #[arg(long, allow_hyphen_values = true)]
    pub(crate) message: Option<String>,
    /// Why; kept with the permit
    #[arg(long)]
    pub(crate) reason: String,
}
