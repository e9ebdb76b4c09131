//! A row of stages that are all run, whatever became of the ones before.
//!
//! Each stage is announced, timed and judged; `finish` prints the whole row and fails when one of them failed.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// The stages run so far.
#[derive(Default)]
pub struct Stages {
    done: Vec<Stage>,
}

struct Stage {
    name: &'static str,
    took: Duration,
    failed: bool,
}

impl Stages {
    /// Runs one stage. Its error is printed now and counted at the end.
    pub fn run(&mut self, name: &'static str, stage: impl FnOnce() -> Result<()>) {
        println!("\n== {name}");
        let start = Instant::now();
        let result = stage();
        let took = start.elapsed();
        match &result {
            Ok(()) => println!("== {name}: passed in {}", seconds(took)),
            Err(error) => println!("== {name}: FAILED after {}: {error:#}", seconds(took)),
        }
        self.done.push(Stage { name, took, failed: result.is_err() });
    }

    /// Prints each stage with its time.
    pub fn print_times(&self) {
        println!();
        for Stage { name, took, failed } in &self.done {
            let verdict = if *failed { "FAILED" } else { "passed" };
            println!("{:>9}  {verdict}  {name}", seconds(*took));
        }
    }

    /// How many passed and failed, as one line.
    pub fn count(&self) -> String {
        let failed = self.failed().len();
        format!("{} passed, {failed} failed, 0 skipped", self.done.len() - failed)
    }

    /// An error that names the stages that failed.
    pub fn finish(self) -> Result<()> {
        let failed = self.failed();
        if !failed.is_empty() {
            bail!("failed: {}", failed.join(", "));
        }
        Ok(())
    }

    fn failed(&self) -> Vec<&'static str> {
        self.done.iter().filter(|stage| stage.failed).map(|stage| stage.name).collect()
    }
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_after_a_failed_one_are_run_and_the_failed_one_is_named() {
        let mut stages = Stages::default();
        let mut last_ran = false;
        stages.run("first", || Ok(()));
        stages.run("second", || bail!("broken"));
        stages.run("third", || {
            last_ran = true;
            Ok(())
        });
        assert!(last_ran);
        assert_eq!(stages.count(), "2 passed, 1 failed, 0 skipped");
        assert_eq!(stages.finish().unwrap_err().to_string(), "failed: second");
    }

    #[test]
    fn stages_that_all_pass_are_no_error() {
        let mut stages = Stages::default();
        stages.run("only", || Ok(()));
        stages.finish().unwrap();
    }
}
