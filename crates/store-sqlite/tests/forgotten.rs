//! What a tombstone has forgotten is in no byte of the files.

mod asking;

use std::path::Path;
use std::sync::Arc;

use asking::{RETENTION, claim, settle};
use onefold_core::{Counters, Scope, StoreTime};
use onefold_store::clock::ManualClock;
use onefold_store::{Claim, OperationStore};
use onefold_store_sqlite::{Options, SqliteStore};

/// A key as callers make them from addresses, of a caller who is a scope of his own.
fn of_a_person(number: u32) -> Claim {
    let name = format!("person-{number:05}@example.org");
    Claim { scope: Scope::new([("subject", format!("subject-of-{name}"))]), ..claim(&name) }
}

fn people_in(directory: &Path) -> Vec<u32> {
    let mut seen = Vec::new();
    for file in std::fs::read_dir(directory).unwrap() {
        let bytes = std::fs::read(file.unwrap().path()).unwrap();
        for (at, window) in bytes.windows(7).enumerate() {
            if window == b"person-" && bytes[at + 12..].starts_with(b"@example.org") {
                seen.push(std::str::from_utf8(&bytes[at + 7..at + 12]).unwrap().parse().unwrap());
            }
        }
    }
    seen.sort_unstable();
    seen.dedup();
    seen
}

#[tokio::test]
async fn keys_and_scopes_of_tombstones_are_in_no_file_once_the_store_was_closed() {
    const PEOPLE: u32 = 600;
    let directory = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::at(StoreTime(1_000_000)));
    let options = Options { clock: clock.clone(), ..Options::default() };
    let store = SqliteStore::open(directory.path().join("onefold.db"), options).unwrap();
    // Two of three end, out of order, and some are met again: rows are made, grow and go all over the pages.
    for number in 0..PEOPLE {
        store.claim(of_a_person(number)).await.unwrap();
        let earlier = number.wrapping_sub(number * 7 % 40);
        for number in [earlier, number] {
            if number < PEOPLE && number % 3 != 0 {
                store.advance(settle(of_a_person(number).id, 1, b"done")).await.unwrap();
            }
        }
        let met = Counters { duplicates: u64::from(number) * 1000, ..Counters::default() };
        store.count(vec![(of_a_person(earlier).id, met)]).await.unwrap();
    }
    clock.pass(RETENTION);
    let buried = store.sweep(10_000).await.unwrap().tombstones;
    assert_eq!(buried, 400);
    drop(store);
    let runs: Vec<u32> = (0..PEOPLE).filter(|number| number % 3 == 0).collect();
    assert_eq!(people_in(directory.path()), runs, "those that run are still known, the others are not");
}
