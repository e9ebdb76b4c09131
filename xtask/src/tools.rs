//! Crates whose build needs more than Rust and a C compiler. Where that is missing they are left out, and it is said.

use std::path::Path;

/// Names the C++ compiler to take.
const CXX: &str = "CXX";
/// The crate that builds librdkafka along.
const KAFKA: &str = "onefold-broker-kafka";

/// What the build of librdkafka needs: one of each row.
const FOR_KAFKA: &[&[&str]] = &[&["g++", "clang++", "c++"], &["make"], &["bash"]];

/// `--workspace`, without what cannot be built here.
pub fn workspace() -> Vec<String> {
    let mut arguments = vec!["--workspace".to_owned()];
    if let Some(why) = left_out() {
        println!("SKIPPED: {why}");
        arguments.extend(["--exclude".to_owned(), KAFKA.to_owned()]);
    }
    arguments
}

/// What the tests of the workspace have beside its default features: bfstore's events over Kafka, where that can be built.
pub fn features_of_tests() -> Option<&'static str> {
    left_out().is_none().then_some("--features=bfstore/kafka")
}

/// What cannot be built here, and why.
pub fn left_out() -> Option<String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<_> = std::env::split_paths(&path).collect();
    let is_there = |tool: &str| folders.iter().any(|folder| folder.join(tool).is_file());
    let of_environment = std::env::var(CXX).is_ok_and(|tool| Path::new(&tool).is_file() || is_there(&tool));
    missing(FOR_KAFKA, |tool| is_there(tool) || (of_environment && FOR_KAFKA[0].contains(&tool)))
        .map(|tool| format!("{KAFKA}: no {tool} is installed, which librdkafka needs"))
}

/// The first tool of the first row of which none is there.
fn missing<'a>(rows: &[&[&'a str]], is_there: impl Fn(&str) -> bool) -> Option<&'a str> {
    rows.iter().find(|row| !row.iter().any(|tool| is_there(tool))).map(|row| row[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_tool_of_each_row_is_enough_and_none_of_a_row_is_said() {
        assert_eq!(missing(FOR_KAFKA, |tool| ["c++", "make", "bash"].contains(&tool)), None);
        assert_eq!(missing(FOR_KAFKA, |tool| ["make", "bash"].contains(&tool)), Some("g++"));
        assert_eq!(missing(FOR_KAFKA, |tool| tool == "clang++"), Some("make"));
    }
}
