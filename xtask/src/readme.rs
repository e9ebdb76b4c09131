//! The README's commands.
//!
//! A newcomer has two: see it work, and run every test. CI makes sure that they stand there, and runs them.

use anyhow::{Context, Result, bail};

use crate::cargo;

/// Shows the mission in one command.
pub const DEMO: &str = "cargo run --release -- demo";
/// Runs every test.
pub const TEST: &str = "cargo xtask test";

/// The README's commands are the two above.
pub fn check() -> Result<()> {
    check_text(&std::fs::read_to_string(cargo::root().join("README.md")).context("README.md")?)
}

/// The first two cargo commands in fenced code are the two above.
fn check_text(readme: &str) -> Result<()> {
    let found: Vec<&str> = fenced(readme).filter(|line| line.starts_with("cargo ")).take(2).collect();
    if found != [DEMO, TEST] {
        bail!("README.md must open with the commands `{DEMO}` and `{TEST}`; it has {found:?}");
    }
    Ok(())
}

/// The lines in fenced code, without a prompt.
fn fenced(markdown: &str) -> impl Iterator<Item = &str> {
    let mut inside = false;
    markdown.lines().map(str::trim).filter_map(move |line| {
        if line.starts_with("```") {
            inside = !inside;
            return None;
        }
        inside.then(|| line.strip_prefix("$ ").unwrap_or(line))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_two_commands_are_found_in_fenced_code_only() {
        let readme = "`cargo install` not yet\ncargo build\n```sh\n$ cargo run --release -- demo\n```\ntext\n```\ncargo xtask test\n```\n";
        check_text(readme).unwrap();
    }

    #[test]
    fn a_readme_with_other_commands_is_refused() {
        let error = check_text("```\ncargo run -- demo\n```\n").unwrap_err().to_string();
        assert!(error.contains("cargo run --release -- demo") && error.contains("[\"cargo run -- demo\"]"));
    }
}
