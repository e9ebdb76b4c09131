//! Commands that this tool starts: cargo, and git for the list of files.
//!
//! A child gets the environment that the developer had, not the one that `cargo run` made for this tool: build
//! scripts watch variables such as `CARGO_MANIFEST_DIR`, and would otherwise build again each time a verb and a
//! plain `cargo build` take turns. Children inherit standard output and error, and have no standard input.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

/// Where tests find the binary `onefold`.
pub const BIN_VARIABLE: &str = "ONEFOLD_BIN";

/// What the variables that tell a process where to die begin with.
const CRASH_VARIABLES: &str = "ONEFOLD_CRASH_";
/// A variable that `onefold` reads.
const NAMED_BY_EVERY_BINARY: &str = "ONEFOLD_STORE";

/// A cargo profile of which this tool makes the binary.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// What tests run.
    Debug,
    /// What is measured, and killed in earnest.
    Release,
}

/// The folder of the workspace.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in a folder of the workspace")
}

/// A command at the root of the workspace.
pub fn command(program: &str) -> Command {
    let mut command = Command::new(program);
    command.current_dir(root()).stdin(Stdio::null());
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(is_set_by_cargo_run) {
            command.env_remove(&name);
        }
    }
    command
}

/// `cargo` with these arguments.
pub fn cargo<S: AsRef<std::ffi::OsStr>>(args: impl IntoIterator<Item = S>) -> Command {
    let mut command = command("cargo");
    command.args(args);
    command
}

fn is_set_by_cargo_run(name: &str) -> bool {
    name.starts_with("CARGO_PKG_")
        || name.starts_with("CARGO_MANIFEST_")
        || matches!(
            name,
            "CARGO" | "CARGO_BIN_NAME" | "CARGO_CRATE_NAME" | "CARGO_PRIMARY_PACKAGE" | "OUT_DIR"
        )
}

/// Runs a command to its end, after showing it.
pub fn run(command: &mut Command) -> Result<()> {
    eprintln!("$ {}", shown(command));
    let status = command.status().with_context(|| format!("cannot start `{}`", shown(command)))?;
    if !status.success() {
        bail!("`{}` failed ({status})", shown(command));
    }
    Ok(())
}

/// Runs a command to its end and returns what it printed.
pub fn output(command: &mut Command) -> Result<Vec<u8>> {
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot start `{}`", shown(command)))?;
    if !output.status.success() {
        bail!("`{}` failed ({})", shown(command), output.status);
    }
    Ok(output.stdout)
}

fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}

/// Whether `cargo nextest` is installed.
pub fn has_nextest() -> bool {
    cargo(["nextest", "--version"]).output().is_ok_and(|output| output.status.success())
}

/// `cargo metadata` of the committed lock file.
pub fn metadata() -> Result<Value> {
    let printed = output(&mut cargo(["metadata", "--format-version", "1", "--locked"]))?;
    serde_json::from_slice(&printed).context("cargo metadata printed no JSON")
}

/// Builds the binary `onefold` and returns its path.
pub fn build_onefold(profile: Profile) -> Result<PathBuf> {
    let mut build =
        cargo(["build", "--package", "onefold-cli", "--message-format", "json-render-diagnostics"]);
    if profile == Profile::Release {
        build.arg("--release");
    }
    eprintln!("$ {}", shown(&build));
    let printed = output(&mut build)?;
    let path =
        executable(&String::from_utf8_lossy(&printed)).context("the build made no binary `onefold`")?;
    check_names(&std::fs::read(&path)?)?;
    Ok(path)
}

/// That a binary has no crash points (`onefold_store::crash`): their feature is for tests alone.
fn check_names(binary: &[u8]) -> Result<()> {
    let names = |name: &str| binary.utf8_chunks().any(|chunk| chunk.valid().contains(name));
    ensure!(names(NAMED_BY_EVERY_BINARY), "the search for names in the binary finds none");
    ensure!(!names(CRASH_VARIABLES), "the binary has crash points: a feature for tests has got into it");
    Ok(())
}

/// The path of `onefold` in cargo's messages, one JSON object a line.
fn executable(messages: &str) -> Option<PathBuf> {
    messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()).find_map(|message| {
        let is_onefold = message["target"]["name"] == "onefold" && message["reason"] == "compiler-artifact";
        message["executable"].as_str().filter(|_| is_onefold).map(PathBuf::from)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executable_is_the_binary_and_not_a_library_of_that_name() {
        let messages = concat!(
            r#"{"reason":"compiler-artifact","target":{"name":"onefold"},"executable":null}"#,
            "\n",
            r#"{"reason":"compiler-artifact","target":{"name":"build-script"},"executable":"/t/build"}"#,
            "\n",
            r#"{"reason":"compiler-artifact","target":{"name":"onefold"},"executable":"/t/debug/onefold"}"#,
            "\n",
            r#"{"reason":"build-finished","success":true}"#,
        );
        assert_eq!(executable(messages), Some(PathBuf::from("/t/debug/onefold")));
    }

    #[test]
    fn a_binary_with_crash_points_is_refused_and_so_is_one_in_which_nothing_is_found() {
        assert!(check_names(b"\x00\xffONEFOLD_STORE\xff").is_ok());
        assert!(check_names(b"ONEFOLD_STORE\xffaONEFOLD_CRASH_AT\xff").is_err());
        assert!(check_names(b"\xff\xff").is_err());
    }

    #[test]
    fn children_lose_what_cargo_run_set_and_keep_what_the_developer_set() {
        assert!(is_set_by_cargo_run("CARGO_PKG_NAME"));
        assert!(is_set_by_cargo_run("CARGO_MANIFEST_DIR"));
        assert!(!is_set_by_cargo_run("CARGO_TARGET_DIR"));
        assert!(!is_set_by_cargo_run("CARGO_BUILD_JOBS"));
    }

    #[test]
    fn a_command_that_fails_is_an_error_that_names_it() {
        let error = run(cargo(["no-such-verb-of-cargo"]).stderr(Stdio::null())).unwrap_err();
        assert!(error.to_string().contains("cargo no-such-verb-of-cargo"), "{error}");
    }
}
