//! Generated keys do not collide: 32 threads, 4 processes, one frozen clock.
//!
//! A tenth of the full count in the ordinary run; all 10 million, as docs/keys.md says, by
//! `ONEFOLD_KEYS=10000000 cargo test --release -p onefold-client --test keys`.

use std::process::{Child, Command};
use std::time::Duration;

use onefold_client::OperationKey;

const PROCESSES: usize = 4;
const THREADS: usize = 32;
const KEYS_MIN: usize = 1_000_000;
/// Where a child writes its keys, and how many.
const OUT: &str = "ONEFOLD_TEST_KEYS_OUT";
const COUNT: &str = "ONEFOLD_KEYS";
/// The millisecond at which every clock stands.
const FROZEN: Duration = Duration::from_millis(1_700_000_000_000);

fn count() -> usize {
    std::env::var(COUNT).map_or(KEYS_MIN, |count| count.parse().expect("a number of keys"))
}

/// What a child does. Without a place to write to, it is no child.
#[test]
fn child_generates_keys() {
    let Some(out) = std::env::var_os(OUT) else { return };
    let each = count() / PROCESSES / THREADS;
    let keys: Vec<u8> = std::thread::scope(|scope| {
        let thread =
            |_| scope.spawn(move || (0..each).flat_map(|_| key().to_be_bytes()).collect::<Vec<u8>>());
        let threads: Vec<_> = (0..THREADS).map(thread).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    std::fs::write(out, keys).unwrap();
}

fn key() -> u128 {
    let key = OperationKey::generate_at(FROZEN);
    u128::from_str_radix(&key.as_str().replace('-', ""), 16).unwrap()
}

#[test]
fn keys_of_one_frozen_millisecond_do_not_collide() {
    let folder = tempfile::tempdir().unwrap();
    let files: Vec<_> = (0..PROCESSES).map(|n| folder.path().join(n.to_string())).collect();
    let child = |file| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "child_generates_keys"]).env(OUT, file).env(COUNT, count().to_string());
        command.stdout(std::process::Stdio::null()).spawn().unwrap()
    };
    let children: Vec<Child> = files.iter().map(child).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let mut keys: Vec<u128> = Vec::with_capacity(count());
    for file in files {
        let bytes = std::fs::read(file).unwrap();
        keys.extend(bytes.chunks_exact(16).map(|key| u128::from_be_bytes(key.try_into().unwrap())));
    }
    assert_eq!(keys.len(), count() / PROCESSES / THREADS * PROCESSES * THREADS);
    keys.sort_unstable();
    assert!(keys.windows(2).all(|two| two[0] != two[1]), "two keys are equal");
    assert!(keys.iter().all(|key| key >> 80 == FROZEN.as_millis()), "the clock was not frozen");
}
