//! Saying that a test cannot run here.
//!
//! One line on standard error, and the same in the file that `ONEFOLD_SKIPS` names, which `cargo xtask test` lists.

use std::io::Write;

/// Says what is skipped and why; the test then returns.
///
/// # Panics
/// When the file that `ONEFOLD_SKIPS` names cannot be written.
pub fn skipped(what: &str, why: &str) {
    let line = format!("SKIPPED: {what}: {why}\n");
    eprint!("{line}");
    if let Some(file) = std::env::var_os("ONEFOLD_SKIPS") {
        let mut file =
            std::fs::OpenOptions::new().append(true).create(true).open(file).expect("the list of skips");
        file.write_all(line.as_bytes()).expect("the list of skips can be written");
    }
}
