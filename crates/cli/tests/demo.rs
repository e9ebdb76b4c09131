//! `onefold demo` from outside: its counts, its exit code, and what is left of it afterwards: nothing that was not
//! asked for.

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;

use serde_json::{Value, json};

/// The demo with a folder of its own for temporary files, and with an environment that would lead it astray.
fn demo(temporary: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_onefold"));
    command.arg("demo").args(args).current_dir(temporary).env("TMPDIR", temporary);
    command.env("ONEFOLD_STORE", "sqlite:elsewhere.db").env("ONEFOLD_CONFIG", "elsewhere.toml");
    command.stdin(Stdio::null());
    command
}

fn left_in(temporary: &Path) -> usize {
    std::fs::read_dir(temporary).unwrap().count()
}

#[test]
fn every_count_of_the_story_is_right_and_nothing_is_left() {
    let temporary = tempfile::tempdir().unwrap();
    let Output { status, stdout, stderr } =
        demo(temporary.path(), &["--output", "json", "--seed", "7"]).output().unwrap();
    let stderr = String::from_utf8_lossy(&stderr);
    assert!(status.success(), "{status}\n{stderr}");
    let table: Value = serde_json::from_slice(&stdout).unwrap();
    let counts: Vec<Value> = table
        .as_array()
        .unwrap()
        .iter()
        .map(|row| json!([row["chapter"], row["orders_created"], row["operations"], row["right"]]))
        .collect();
    assert_eq!(
        counts,
        [
            json!(["answer lost", 1, {"succeeded": 1}, true]),
            json!(["50 duplicates", 1, {"succeeded": 1}, true]),
            json!(["same key, other body", 1, {"succeeded": 1}, true]),
            json!(["caller hangs up", 1, {"succeeded": 1}, true]),
            json!(["gateway killed", 1, {"succeeded": 1}, true]),
            json!(["order service dies", 1, {"succeeded": 1}, true]),
            json!(["two keys, same body", 2, {"succeeded": 2}, true]),
            json!(["All together", 8, {"succeeded": 8}, true]),
        ]
    );
    assert_eq!(table[1]["callers_got"]["201"], 1);
    assert_eq!(table[1]["callers_got"]["201 replayed"], 49);
    assert!(table[1]["attempts_sent"].as_u64() >= Some(50), "{}", table[1]);
    assert!(stderr.contains("--seed 7") && !stderr.contains('\x1b'), "{stderr}");
    assert_eq!(left_in(temporary.path()), 0);
}

/// A demo that was kept, and where its processes listen.
struct Kept {
    process: Child,
    addresses: Vec<SocketAddr>,
}

impl Kept {
    fn start(temporary: &Path) -> Kept {
        let mut process = demo(temporary, &["--keep"]).stdout(Stdio::piped()).spawn().unwrap();
        let mut addresses = Vec::new();
        let mut lines = BufReader::new(process.stdout.as_mut().unwrap()).lines().map(Result::unwrap);
        // The last line before it waits.
        for line in lines.by_ref().take_while(|line| !line.contains("onefold operations list --store")) {
            let named = line.trim().split_once("  http://").map(|(_, rest)| rest.split(' ').next().unwrap());
            addresses.extend(named.map(|address| address.parse::<SocketAddr>().unwrap()));
        }
        assert_eq!(addresses.len(), 3, "gateway, admin, order service");
        Kept { process, addresses }
    }

    fn answering(&self) -> usize {
        self.addresses.iter().filter(|address| TcpStream::connect(address).is_ok()).count()
    }

    fn wait_until_nobody_answers(&self) {
        for _ in 0..100 {
            if self.answering() == 0 {
                return;
            }
            sleep(Duration::from_millis(100));
        }
        panic!("a process of the demo has outlived it: {:?}", self.addresses);
    }
}

#[test]
fn a_kept_demo_runs_until_it_is_interrupted_and_leaves_its_files() {
    let temporary = tempfile::tempdir().unwrap();
    let mut kept = Kept::start(temporary.path());
    assert_eq!(kept.answering(), 3);
    let id = kept.process.id().to_string();
    assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    assert!(kept.process.wait().unwrap().success());
    kept.wait_until_nobody_answers();
    assert_eq!(left_in(temporary.path()), 1);
}

#[test]
fn no_process_outlives_a_demo_that_is_killed() {
    let temporary = tempfile::tempdir().unwrap();
    let mut kept = Kept::start(temporary.path());
    kept.process.kill().unwrap();
    kept.process.wait().unwrap();
    kept.wait_until_nobody_answers();
}
