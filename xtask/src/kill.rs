//! `kill [--rounds N]`: the black-box test `kill_rounds` against the release binary, with its output shown.
//!
//! The same test runs with fewer rounds in `test`; here it runs until something breaks or the rounds are done.

use anyhow::{Context, Result, bail};

use crate::cargo::{self, BIN_VARIABLE, Profile};

/// How many rounds the test runs.
const ROUNDS_VARIABLE: &str = "ONEFOLD_KILL_ROUNDS";
/// Enough for a kill to meet every step of an operation: one takes minutes, not hours.
const ROUNDS_DEFAULT: u32 = 200;

/// Reads `--rounds N`.
pub fn rounds(args: &[String]) -> Result<u32> {
    match args {
        [] => Ok(ROUNDS_DEFAULT),
        [flag, number] if flag == "--rounds" => {
            let rounds = number.parse().with_context(|| format!("`{number}` is not a number of rounds"))?;
            if rounds == 0 {
                bail!("no round at all kills nothing");
            }
            Ok(rounds)
        }
        _ => bail!("`kill` takes --rounds N and nothing else"),
    }
}

/// Runs the verb.
pub fn run(rounds: u32) -> Result<()> {
    let binary = cargo::build_onefold(Profile::Release)?;
    let mut test = if cargo::has_nextest() {
        cargo::cargo([
            "nextest",
            "run",
            "--package",
            "onefold-e2e",
            "--test",
            "kill",
            "--profile",
            "kill",
            "--no-capture",
            "kill_rounds",
        ])
    } else {
        cargo::cargo([
            "test",
            "--package",
            "onefold-e2e",
            "--test",
            "kill",
            "--",
            "--nocapture",
            "kill_rounds",
        ])
    };
    cargo::run(test.env(BIN_VARIABLE, binary).env(ROUNDS_VARIABLE, rounds.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(args: &[&str]) -> Result<u32> {
        rounds(&args.iter().map(|arg| (*arg).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn rounds_have_a_default_and_can_be_given() {
        assert_eq!(read(&[]).unwrap(), ROUNDS_DEFAULT);
        assert_eq!(read(&["--rounds", "3"]).unwrap(), 3);
    }

    #[test]
    fn rounds_that_mean_nothing_are_refused() {
        for wrong in [&["--rounds"][..], &["--rounds", "0"], &["--rounds", "many"], &["3"]] {
            assert!(read(wrong).is_err(), "{wrong:?}");
        }
    }
}
