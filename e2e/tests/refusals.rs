//! What `serve` refuses to start with, and what it says then.

use std::path::Path;

use onefold_e2e::{ROUTE, setup};
use onefold_testkit::{Ended, Setup, onefold};

const UPSTREAM: &str = "http://127.0.0.1:9";

fn plain(lines: &str) -> Setup {
    Setup::new(UPSTREAM).operation("CreateOrder", "POST", ROUTE, lines)
}

/// Refused as configuration, with all these words, without a panic.
fn assert_refused(ended: &Ended, words: &[&str]) {
    ended.assert_code(2);
    for word in words {
        assert!(ended.stderr.contains(word), "says {word:?}: {}", ended.stderr);
    }
    assert!(!ended.stderr.contains("panicked"), "{}", ended.stderr);
    assert!(ended.stdout.is_empty(), "data goes to stdout, everything else to stderr: {}", ended.stdout);
}

/// The number of the line that contains `text`.
fn line_of(setup: &Setup, text: &str) -> String {
    let nth = setup.text().lines().position(|line| line.contains(text)).expect("the line is there");
    (nth + 1).to_string()
}

#[tokio::test]
async fn unknown_setting_is_named_with_file_and_line() {
    let setup = plain("lesae = \"30s\"");
    let line = line_of(&setup, "lesae");
    assert_refused(&setup.run().await, &["refused.toml", &line, "lesae"]);
}

#[tokio::test]
async fn unknown_section_is_refused() {
    assert_refused(&plain("").section("[sever]\nlisten = \"x\"").run().await, &["sever"]);
}

#[tokio::test]
async fn wrong_value_is_named_with_what_is_allowed() {
    let setup = plain("on_stale = \"retry\"");
    let line = line_of(&setup, "on_stale");
    let words = ["refused.toml", &line, "on_stale", "unknown", "resume"];
    assert_refused(&setup.run().await, &words);
}

#[tokio::test]
async fn wrong_duration_is_named() {
    let setup = plain("lease = \"half an hour\"");
    let line = line_of(&setup, "lease");
    assert_refused(&setup.run().await, &["refused.toml", &line, "lease"]);
}

#[tokio::test]
async fn broken_toml_is_named_with_its_line() {
    let setup = plain("lease = \"30s");
    let line = line_of(&setup, "lease");
    assert_refused(&setup.run().await, &["refused.toml", &line]);
}

#[tokio::test]
async fn operation_without_a_boundary_is_refused() {
    let section =
        "[[operation]]\nname = \"A\"\nmatch = { method = \"POST\", path = \"/a\" }\nscope = [\"shared\"]";
    assert_refused(&Setup::new(UPSTREAM).section(section).run().await, &["boundary"]);
}

#[tokio::test]
async fn two_operations_of_one_name_are_refused() {
    let setup = plain("").operation("CreateOrder", "POST", "/other", "");
    assert_refused(&setup.run().await, &["CreateOrder"]);
}

#[tokio::test]
async fn resume_without_a_downstream_key_is_refused() {
    let setup = plain("on_stale = \"resume\"\nforward_key = \"none\"");
    assert_refused(&setup.run().await, &["resume", "forward_key"]);
}

#[tokio::test]
async fn open_admin_listener_beyond_loopback_is_refused() {
    let setup = plain("").addresses("127.0.0.1:0", "0.0.0.0:0");
    assert_refused(&setup.run().await, &["admin_listen", "loopback"]);
}

#[tokio::test]
async fn missing_upstream_is_refused() {
    let setup = Setup::new(UPSTREAM);
    let config = setup.directory().file("onefold.toml");
    std::fs::write(&config, "[server]\nlisten = \"127.0.0.1:0\"\n").unwrap();
    let config = config.to_str().unwrap();
    let ended = onefold(setup.directory().path(), &["serve", "--config", config]).await;
    assert_refused(&ended, &["upstream"]);
}

#[tokio::test]
async fn missing_file_and_unknown_flag_are_refused() {
    let setup = Setup::new(UPSTREAM);
    let directory = setup.directory().path();
    let missing = onefold(directory, &["serve", "--config", "nowhere.toml"]).await;
    assert_refused(&missing, &["nowhere.toml"]);
    assert_refused(&onefold(directory, &["serve", "--no-such-flag"]).await, &["--no-such-flag"]);
}

/// Refused as unavailable, naming the store.
fn assert_unavailable(ended: &Ended, store: &Path) {
    ended.assert_code(69);
    let name = store.file_name().and_then(|name| name.to_str()).expect("a name");
    assert!(ended.stderr.contains(name), "names the store: {}", ended.stderr);
    assert!(!ended.stderr.contains("panicked"), "{}", ended.stderr);
}

#[tokio::test]
async fn text_file_is_not_taken_for_a_store() {
    let setup = plain("");
    let text =
        "Dear diary, this is not a database, and it is longer than a header of one would be.\n".repeat(50);
    std::fs::write(setup.store_path(), &text).unwrap();
    assert_unavailable(&setup.run().await, &setup.store_path());
    assert_eq!(std::fs::read_to_string(setup.store_path()).unwrap(), text, "left as it was");
}

#[tokio::test]
async fn database_of_another_program_is_not_taken_for_a_store() {
    let setup = plain("");
    let other = rusqlite::Connection::open(setup.store_path()).unwrap();
    other.execute_batch("CREATE TABLE recipes (name TEXT); INSERT INTO recipes VALUES ('soup')").unwrap();
    drop(other);
    assert_unavailable(&setup.run().await, &setup.store_path());
    let other = rusqlite::Connection::open(setup.store_path()).unwrap();
    let tables: Vec<String> = other
        .prepare("SELECT name FROM sqlite_schema WHERE type = 'table'")
        .unwrap()
        .query_map((), |row| row.get(0))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    assert_eq!(tables, ["recipes"], "nothing was added");
}

#[tokio::test]
async fn store_that_cannot_be_written_is_refused() {
    let setup = plain("");
    std::fs::create_dir(setup.store_path()).unwrap();
    assert_unavailable(&setup.run().await, &setup.store_path());
}

#[tokio::test]
async fn store_that_is_read_only_is_refused() {
    let upstream = onefold_testkit::Upstream::start().await;
    let mut gateway = setup(&upstream, "").start().await;
    gateway.process().terminate();
    gateway.ended(std::time::Duration::from_secs(10)).await;
    let path = gateway.setup().store_path();
    let mut permissions = std::fs::metadata(&path).unwrap().permissions();
    permissions.set_readonly(true);
    std::fs::set_permissions(&path, permissions).unwrap();
    if std::fs::OpenOptions::new().append(true).open(&path).is_ok() {
        eprintln!("SKIPPED: this user may write read-only files (root)");
        return;
    }
    assert_unavailable(&gateway.setup().run().await, &path);
}

#[tokio::test]
async fn store_that_is_not_migrated_names_the_command_where_serve_may_not() {
    let setup = plain("").store("migrate = false");
    let ended = setup.run().await;
    ended.assert_code(69);
    assert!(ended.stderr.contains("onefold store migrate"), "{}", ended.stderr);
}
