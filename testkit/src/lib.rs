//! Starters and peers for tests: a counting upstream, a raw client, the real binary, a store of each kind.
//!
//! Everything here speaks to the product from outside, over sockets and processes, and knows none of its
//! crates. Nothing here sleeps for a fixed time where a condition can be waited for ([`wait`]), and every
//! wait has a deadline, so that a hanging product fails a test in place of hanging it.

pub mod answer;
pub mod binary;
pub mod browser;
pub mod client;
pub mod directory;
pub mod expired;
pub mod gate;
pub mod gateway;
pub mod h2_client;
pub mod kafka;
pub mod logged;
pub mod metrics;
pub mod nats;
pub mod outage;
pub mod pgbouncer;
pub mod postgres;
pub mod process;
pub mod rabbitmq;
pub mod raw_upstream;
pub mod recordings;
pub mod reply;
pub mod request;
pub mod second_process;
pub mod setup;
pub mod skipped;
pub mod smtp;
pub mod sql;
pub mod store;
pub mod supplier;
pub mod upstream;
pub mod wait;
pub mod wire;

mod reply_body;
mod servers;
mod upstream_service;

pub use answer::Answer;
pub use binary::{Ended, onefold};
pub use browser::Browser;
pub use client::Connection;
pub use directory::TestDirectory;
pub use gate::Gate;
pub use gateway::Gateway;
pub use h2_client::H2Connection;
pub use kafka::KafkaServer;
pub use nats::NatsServer;
pub use outage::FragileStore;
pub use rabbitmq::RabbitServer;
pub use raw_upstream::{RawUpstream, Step};
pub use reply::{Missing, Reply};
pub use request::Request;
pub use second_process::SecondProcess;
pub use setup::Setup;
pub use smtp::{SmtpServer, TakenMail};
pub use store::Store;
pub use supplier::Supplier;
pub use upstream::{ReservedAddress, Seen, Upstream};
