//! Benchmarks of Onefold: figures with a goal beside each, not tests.
//!
//! `cargo xtask bench NAME` builds the release binary and runs one of them. Every process that a benchmark starts is
//! ended by it, also when it fails; its files lie in a folder of their own and are removed. A goal that was not met
//! is printed and changes no exit code: 0 says that everything was measured, 1 that something could not be run.
//! What a figure means, and what it does not, stands in `docs/benchmarks.md`.

mod args;
mod figure;
mod filled;
mod gateway;
mod histogram;
mod keys;
mod library;
mod library_calls;
mod library_sqlx;
mod load;
mod memory;
mod messages;
mod messages_calls;
mod messages_relay;
mod nginx;
mod postgres;
mod process;
mod proxied;
mod raw_log;
mod report;
mod store;
mod store_pairs;
mod sweep;
mod upstream;
mod wire;

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;

use crate::args::{Args, Bench};
use crate::report::Report;

fn main() -> ExitCode {
    let Args { settings, bench } = Args::parse();
    let measured: Result<Vec<Report>> = match &bench {
        Bench::Nothing => upstream::serve_nothing().map(|()| Vec::new()),
        Bench::Gateway => gateway::run(&settings).map(|report| vec![report]),
        Bench::Store => store::run(&settings).map(|report| vec![report]),
        Bench::Library(library) => library::run(&settings, library).map(|report| vec![report]),
        Bench::Postgres(postgres) => postgres::run(&settings, postgres).map(|report| vec![report]),
        Bench::Messages(messages) => messages::run(&settings, messages).map(|report| vec![report]),
        Bench::Sweep(sweep) => sweep::run(&settings, sweep).map(|report| vec![report]),
        Bench::Memory(memory) => memory::run(&settings, memory.keys).map(|report| vec![report]),
        Bench::All(memory) => all(&settings, memory.keys),
    };
    match measured {
        Ok(reports) => report::close(&reports, settings.output),
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn all(settings: &args::Settings, keys: u64) -> Result<Vec<Report>> {
    Ok(vec![gateway::run(settings)?, store::run(settings)?, memory::run(settings, keys)?])
}
