//! B34 and its kind: a process dies at every point of every mode, another one makes the same call again.

use std::os::unix::process::ExitStatusExt;

use onefold::CallError;

use crate::world::{World, perform};

/// A world in which a process has died at this point, and what the next call gets.
async fn died_at(point: &str) -> (World, Result<(i64, bool), CallError>) {
    let world = World::new();
    let status = world.child(&format!("crash:{point}")).wait().unwrap();
    assert_eq!(status.signal(), Some(6), "{point}: the child was to die there");
    let again = perform(&world, point, false).await.map(|done| (*done.value(), done.replayed()));
    (world, again)
}

/// Whatever the way there, the end is the same: one more call replays, and one record stands.
async fn settled(world: &World, point: &str, value: i64) {
    let done = perform(world, point, false).await.unwrap();
    assert_eq!((*done.value(), done.replayed()), (value, true), "{point}");
    let count = |table: &str| {
        let sql = format!("SELECT count(*) FROM {table}");
        world.connection().query_row(&sql, [], |row| row.get::<_, i64>(0)).unwrap()
    };
    assert_eq!((count("onefold_operations"), count("onefold_outcomes"), count("onefold_leases")), (1, 1, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn b34_atomic_one_row_wherever_the_process_dies() {
    for (point, replayed) in
        [("atomic/before the row", false), ("atomic/after the row", false), ("atomic/after the answer", true)]
    {
        let (world, again) = died_at(point).await;
        assert_eq!(again.unwrap(), (1, replayed), "{point}");
        assert_eq!(world.orders(), 1, "{point}");
        settled(&world, point, 1).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn b34_in_a_transaction_of_the_callers_own_one_row_wherever_the_process_dies() {
    for (point, replayed) in [
        ("borrowed/before the claim", false),
        ("borrowed/after the claim", false),
        ("borrowed/after the row", false),
        ("borrowed/after the end", false),
        ("borrowed/after the answer", true),
    ] {
        let (world, again) = died_at(point).await;
        assert_eq!(again.unwrap(), (1, replayed), "{point}");
        assert_eq!(world.orders(), 1, "{point}");
        settled(&world, point, 1).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn b36_reserved_is_unknown_and_never_repeated_once_the_claim_stands() {
    for (point, effects) in [("reserved/before the effect", 0), ("reserved/after the effect", 1)] {
        let (world, again) = died_at(point).await;
        let error = again.unwrap_err();
        assert!(matches!(error, CallError::OutcomeUnknown { .. }), "{point}: {error}");
        assert!(!error.new_key_is_safe());
        let once_more = perform(&world, point, false).await;
        assert!(matches!(once_more, Err(CallError::OutcomeUnknown { .. })), "{point}");
        assert_eq!(world.noted("effects").len(), effects, "{point}");
    }
    let (world, again) = died_at("reserved/after the answer").await;
    assert_eq!(again.unwrap(), (1, true));
    assert_eq!(world.noted("effects").len(), 1);
    settled(&world, "reserved/", 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b98_resumable_repeats_the_open_step_alone_and_under_the_same_key() {
    for (point, steps) in [
        ("resumable/before reserve", &["reserve", "ship"][..]),
        ("resumable/in reserve", &["reserve", "reserve", "ship"]),
        ("resumable/after reserve", &["reserve", "ship"]),
        ("resumable/before ship", &["reserve", "ship"]),
        ("resumable/in ship", &["reserve", "ship", "ship"]),
        ("resumable/after ship", &["reserve", "ship"]),
        ("resumable/after the answer", &["reserve", "ship"]),
    ] {
        let (world, again) = died_at(point).await;
        assert_eq!(again.unwrap(), (1, point.ends_with("answer")), "{point}");
        let noted = world.noted("effects");
        let asked: Vec<_> = noted.iter().map(|line| line.split_once(' ').unwrap()).collect();
        assert_eq!(asked.iter().map(|(step, _)| *step).collect::<Vec<_>>(), steps, "{point}");
        for (step, key) in &asked {
            assert!(asked.iter().all(|(other, own)| (other == step) == (own == key)), "{point}: {asked:?}");
        }
        settled(&world, point, 1).await;
    }
}
