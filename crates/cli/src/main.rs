//! The command `onefold`: thin, wires the rest.
//!
//! Data goes to stdout, everything else to stderr. A command that fails says what, where and what to do, and ends
//! with one of the exit codes of [`exit`].

mod args;
mod call;
mod demo;
mod end_signals;
mod exit;
mod inspect;
mod log;
mod messages;
mod operations;
mod out;
mod relay;
mod serve;
mod store;

use std::process::ExitCode;

use clap::Parser;

use crate::args::{Args, Command, StoreCommand};
use crate::exit::Failure;

/// Every request makes hundreds of small allocations on one thread and frees some of them on another.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let args = Args::parse();
    log::start(args.common.log);
    // What cannot be raised stays as it is; a refused connection says so later.
    let _ = rlimit::increase_nofile_limit(u64::MAX);
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return Failure::failed(format!("the runtime could not be started: {error}")).tell(),
    };
    let done = runtime.block_on(async {
        match args.command {
            Command::Demo(demo) => demo::run(&args.common, &demo).await,
            Command::DemoOrders(orders) => demo::orders(&orders).await,
            Command::DemoGateway(serve) => demo::gateway(&args.common, &serve).await,
            Command::Call(call) => call::run(&args.common, call).await,
            Command::Serve(serve) => serve::run(&args.common, &serve).await,
            Command::Relay(wanted) => relay::run(&args.common, wanted.listen).await,
            Command::Operations(command) => operations::run(&args.common, command).await,
            Command::Outbox(command) => messages::outbox(&args.common, command).await,
            Command::Inbox(command) => messages::inbox(&args.common, command).await,
            Command::Permits(command) => messages::permits(&args.common, command).await,
            Command::Store(StoreCommand::Migrate) => store::migrate(&args.common).await,
            Command::Store(StoreCommand::Check) => inspect::check(&args.common).await,
            Command::Store(StoreCommand::Stats) => inspect::stats(&args.common).await,
            Command::Store(StoreCommand::Sweep) => inspect::sweep(&args.common).await,
        }
    });
    match done {
        Ok(code) => code,
        Err(failure) => failure.tell(),
    }
}
