//! The real binary `onefold`: where it lies, and running it to its end.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;

/// How long a command that should end may run.
pub const COMMAND_DEADLINE: Duration = Duration::from_secs(30);

/// The binary's path: `ONEFOLD_BIN`, else beside the test's own directory in the build's target directory.
///
/// # Panics
/// When nothing is there.
#[must_use]
pub fn path() -> PathBuf {
    let path = match std::env::var_os("ONEFOLD_BIN") {
        Some(path) => PathBuf::from(path),
        None => {
            let own = std::env::current_exe().expect("the test's own path");
            let profile = own.ancestors().nth(2).expect("target/<profile>/deps/<test>");
            profile.join("onefold")
        }
    };
    let is_there = path.is_file();
    assert!(is_there, "no binary at {}; build it first: cargo build -p onefold-cli", path.display());
    path
}

/// How a command ended.
#[derive(Clone, Debug)]
pub struct Ended {
    /// Exit code; `None` after a signal.
    pub code: Option<i32>,
    /// What it wrote to stdout.
    pub stdout: String,
    /// What it wrote to stderr.
    pub stderr: String,
}

impl Ended {
    /// The stdout as JSON.
    ///
    /// # Panics
    /// When it is none.
    #[must_use]
    pub fn json(&self) -> Value {
        match serde_json::from_str(&self.stdout) {
            Ok(value) => value,
            Err(error) => panic!("stdout is no JSON ({error}): {self:?}"),
        }
    }

    /// Panics with the whole output when the exit code is another one.
    pub fn assert_code(&self, code: i32) {
        assert_eq!(self.code, Some(code), "exit code; {self:?}");
    }
}

/// A command of the binary, with the environment's own settings of the product taken out.
#[must_use]
pub fn command(directory: &Path) -> std::process::Command {
    prepared(std::process::Command::new(path()), directory)
}

/// As [`command`], under this limit of open files, which the binary cannot raise.
#[must_use]
pub fn command_with_open_files(directory: &Path, limit: u64) -> std::process::Command {
    let mut shell = std::process::Command::new("sh");
    shell.arg("-c").arg(format!("ulimit -n {limit} && exec \"$0\" \"$@\"")).arg(path());
    prepared(shell, directory)
}

fn prepared(mut command: std::process::Command, directory: &Path) -> std::process::Command {
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("ONEFOLD_") {
            command.env_remove(name);
        }
    }
    command.current_dir(directory).stdin(Stdio::null()).env("NO_COLOR", "1");
    command
}

/// Runs `onefold ARGS…` in `directory` to its end.
///
/// # Panics
/// When it does not end within [`COMMAND_DEADLINE`].
pub async fn onefold(directory: &Path, args: &[&str]) -> Ended {
    let mut command = command(directory);
    command.args(args);
    run(command).await
}

/// Runs a prepared command to its end.
///
/// # Panics
/// When it cannot be started, or does not end within [`COMMAND_DEADLINE`].
pub async fn run(command: std::process::Command) -> Ended {
    let shown = format!("{command:?}");
    let mut command = tokio::process::Command::from(command);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let output = tokio::time::timeout(COMMAND_DEADLINE, command.output()).await;
    let Ok(output) = output else { panic!("still running after {COMMAND_DEADLINE:?}: {shown}") };
    let output = output.expect("the binary can be started");
    Ended {
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}
