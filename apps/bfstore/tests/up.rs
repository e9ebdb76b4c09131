//! `bfstore up` starts everything, nothing outlives it, and it does not go on without a service that has ended.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The outside world and six services.
const PROCESSES: usize = 7;
const DEADLINE: Duration = Duration::from_secs(20);

#[test]
fn no_process_outlives_one_that_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let mut up = up(folder.path());
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

#[test]
fn it_ends_with_an_error_that_names_the_service_which_has_ended_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    let mut up = up(folder.path());
    let loyalty = children_of(up.id()).into_iter().find(|child| is_service(*child, "loyalty")).unwrap();
    Command::new("kill").arg(loyalty.to_string()).status().unwrap();

    let until = Instant::now() + DEADLINE;
    let ended = loop {
        match up.try_wait().unwrap() {
            Some(ended) => break ended,
            None if Instant::now() < until => sleep(Duration::from_millis(20)),
            None => {
                up.kill().unwrap();
                panic!("it goes on without loyalty");
            }
        }
    };
    let mut said = String::new();
    up.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(ended.code(), Some(1), "{said}");
    assert!(said.contains("loyalty has ended by itself"), "{said}");
}

/// Everything, started in this folder.
fn up(folder: &std::path::Path) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bfstore"));
    command.arg("up").arg("--folder").arg(folder).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut up = command.spawn().unwrap();
    let mut said = BufReader::new(up.stdout.take().unwrap()).lines().map(Result::unwrap);
    let shop = said.next().unwrap();
    assert!(shop.starts_with("shop "), "{shop}");
    assert!(said.any(|line| line.starts_with("Ctrl-C")));
    up
}

fn is_service(process: u32, name: &str) -> bool {
    let line = std::fs::read_to_string(format!("/proc/{process}/cmdline")).unwrap_or_default();
    let words: Vec<&str> = line.split('\0').collect();
    words.windows(2).any(|words| words == ["service", name])
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
