//! The developer's verbs: `cargo xtask <verb>`.
//!
//! One file for each verb. A verb runs all of its stages even when one fails, says at the end which failed, and
//! then exits with 1; a verb or an argument that does not exist is 2. Nothing here is needed to build or to use
//! the workspace, and no crate may depend on it.

use std::process::ExitCode;

mod audit;
mod bench;
mod cargo;
mod check;
mod ci;
mod crash;
mod docs;
mod kill;
mod links;
mod readme;
mod repository;
mod servers;
mod skips;
mod stages;
mod test;
mod tidy;
mod tools;

const USAGE: &str = "\
usage: cargo xtask <verb>

  check                formatting, clippy and tidy: the quick look before a commit
  test                 every test of the workspace, the documentation's examples, tidy; then what was skipped and why
  bench NAME [ARGS…]   one benchmark (gateway, store, postgres, library, messages, sweep, memory, all) on release builds; ARGS go to the benchmark
  kill [--rounds N]    kill and restart the release binary N times (default 200)
  crash                the library's processes die at every crash point, each time it is passed; both stores
  docs                 build the documentation without a warning; follow every relative link of every page
  tidy                 the rules of this repository that no compiler knows
  audit                licences, sources and bans of all dependencies, by audit.toml
  ci                   all of it, and the README's two commands: what .ci/run runs
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let Some((verb, rest)) = args.split_first() else {
        eprint!("{USAGE}");
        return ExitCode::from(2);
    };
    let done = match (verb.as_str(), rest) {
        ("help" | "--help" | "-h", _) => {
            print!("{USAGE}");
            Ok(())
        }
        ("bench", [_, ..]) => bench::run(rest),
        ("kill", _) => match kill::rounds(rest) {
            Ok(rounds) => kill::run(rounds),
            Err(error) => return usage(&error.to_string()),
        },
        ("check", []) => check::run(),
        ("test", []) => test::run(),
        ("crash", []) => crash::run(),
        ("docs", []) => docs::run(),
        ("tidy", []) => tidy::run(),
        ("audit", []) => audit::run(),
        ("ci", []) => ci::run(),
        _ => return usage(&format!("`{}` is not a verb with these arguments", args.join(" "))),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask {verb}: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn usage(problem: &str) -> ExitCode {
    eprintln!("xtask: {problem}\n");
    eprint!("{USAGE}");
    ExitCode::from(2)
}
