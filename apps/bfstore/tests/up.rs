//! `bfstore up` starts everything, and nothing outlives it.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The outside world and six services.
const PROCESSES: usize = 7;
const DEADLINE: Duration = Duration::from_secs(20);

#[test]
fn no_process_outlives_one_that_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_bfstore"));
    command.arg("up").arg("--folder").arg(folder.path()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut up = command.spawn().unwrap();
    let mut said = BufReader::new(up.stdout.take().unwrap()).lines().map(Result::unwrap);
    let shop = said.next().unwrap();
    assert!(shop.starts_with("shop "), "{shop}");
    assert!(said.any(|line| line.starts_with("Ctrl-C")));
    let children = children_of(up.id());

    up.kill().unwrap();
    up.wait().unwrap();
    assert_eq!(children.len(), PROCESSES);
    let until = Instant::now() + DEADLINE;
    while children.iter().any(|process| lives(*process)) {
        assert!(Instant::now() < until, "{children:?} outlive their parent");
        sleep(Duration::from_millis(20));
    }
}

/// State and parent of a process; `None` where there is none.
fn stat(process: u32) -> Option<(char, u32)> {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name stands in parentheses and may hold anything.
    let mut behind = text.rsplit_once(')')?.1.split_whitespace();
    Some((behind.next()?.chars().next()?, behind.next()?.parse().ok()?))
}

fn children_of(parent: u32) -> Vec<u32> {
    let all = std::fs::read_dir("/proc").unwrap();
    let all = all.filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
    all.filter(|process| stat(*process).is_some_and(|(_, of)| of == parent)).collect()
}

fn lives(process: u32) -> bool {
    stat(process).is_some_and(|(state, _)| state != 'Z')
}
