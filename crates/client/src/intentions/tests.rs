//! The journal: found again, cut anywhere, damaged, locked, written anew.

use std::fs;
use std::path::PathBuf;

use super::*;

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(tempfile::tempdir().unwrap())
    }

    fn journal(&self) -> PathBuf {
        self.0.path().join("payouts.journal")
    }

    fn open(&self) -> Intentions {
        Intentions::open(self.journal()).unwrap()
    }
}

#[test]
fn an_intention_is_found_again_with_its_key_until_it_is_finished() {
    let folder = Folder::new();
    let first = folder.open().begin("payout-1").unwrap();
    assert!(!first.found);
    let intentions = folder.open();
    let again = intentions.begin("payout-1").unwrap();
    assert!(again.found && again.key == first.key);
    assert_ne!(intentions.begin("payout-2").unwrap().key, first.key);
    intentions.finish("payout-1").unwrap();
    drop(intentions);
    let new = folder.open().begin("payout-1").unwrap();
    assert!(!new.found && new.key != first.key);
}

#[test]
fn a_journal_that_is_cut_at_any_byte_opens_with_what_was_acknowledged_before() {
    let folder = Folder::new();
    let mut lengths = Vec::new();
    let intentions = folder.open();
    for n in 0..3 {
        let intention = intentions.begin(&format!("payout-{n}")).unwrap();
        lengths.push((fs::metadata(folder.journal()).unwrap().len(), intention.key));
    }
    drop(intentions);
    let whole = fs::read(folder.journal()).unwrap();
    for length in 0..=whole.len() {
        fs::write(folder.journal(), &whole[..length]).unwrap();
        let intentions = folder.open();
        let open: Vec<_> = intentions.open_intentions().into_iter().map(|one| one.key).collect();
        let acknowledged: Vec<_> =
            lengths.iter().filter(|(end, _)| *end <= length as u64).map(|(_, key)| key.clone()).collect();
        assert_eq!(open.len(), acknowledged.len(), "cut at {length}");
        assert!(acknowledged.iter().all(|key| open.contains(key)), "cut at {length}");
        intentions.begin("after").unwrap();
        drop(intentions);
        assert!(folder.open().begin("after").unwrap().found, "cut at {length}");
    }
}

#[test]
fn a_damaged_record_stops_the_opening() {
    let folder = Folder::new();
    let intentions = folder.open();
    intentions.begin("payout-1").unwrap();
    let first = fs::read(folder.journal()).unwrap().len();
    intentions.begin("payout-2").unwrap();
    drop(intentions);
    let whole = fs::read(folder.journal()).unwrap();
    for (at, record) in [(30, 0), (first + 30, first)] {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        fs::write(folder.journal(), &bytes).unwrap();
        let damaged = Intentions::open(folder.journal()).err();
        assert!(matches!(damaged, Some(IntentionError::Damaged { at, .. }) if at == record), "{damaged:?}");
    }
    // A block that never reached the disk, at the end.
    let mut bytes = whole.clone();
    bytes[first + 5..first + 40].fill(0);
    fs::write(folder.journal(), &bytes).unwrap();
    assert_eq!(folder.open().open_intentions().len(), 1);
}

#[test]
fn a_journal_belongs_to_one_at_a_time() {
    let folder = Folder::new();
    let first = folder.open();
    let second = Intentions::open(folder.journal());
    assert!(matches!(second, Err(IntentionError::InUse(_))));
    drop(first);
    folder.open();
}

#[test]
fn finished_intentions_leave_the_file() {
    let folder = Folder::new();
    let intentions = folder.open();
    let kept = intentions.begin("kept").unwrap().key;
    for n in 0..50 {
        intentions.begin(&format!("payout-{n}")).unwrap();
        intentions.finish(&format!("payout-{n}")).unwrap();
    }
    drop(intentions);
    let intentions = folder.open();
    assert_eq!(fs::read_to_string(folder.journal()).unwrap().lines().count(), 1);
    intentions.begin("new").unwrap();
    drop(intentions);
    let intentions = folder.open();
    assert_eq!(intentions.begin("kept").unwrap().key, kept);
    assert!(intentions.begin("new").unwrap().found);
}

#[test]
fn concurrent_beginners_of_one_intention_get_one_key() {
    let folder = Folder::new();
    let intentions = folder.open();
    let keys: Vec<_> = std::thread::scope(|scope| {
        let begin = |_| scope.spawn(|| intentions.begin("payout-1").unwrap().key);
        let all: Vec<_> = (0..16).map(begin).collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert!(keys.iter().all(|key| *key == keys[0]));
}

#[test]
fn a_business_key_is_kept_and_another_one_is_refused() {
    let folder = Folder::new();
    let key = OperationKey::business("checkout-7f82").unwrap();
    folder.open().begin_with("checkout-7f82", &key).unwrap();
    let intentions = folder.open();
    assert_eq!(intentions.begin("checkout-7f82").unwrap().key, key);
    let other = intentions.begin_with("checkout-7f82", &OperationKey::generate());
    assert!(matches!(other, Err(IntentionError::OtherKey)));
    assert!(matches!(intentions.begin(""), Err(IntentionError::Name)));
    assert!(matches!(intentions.begin(&"n".repeat(1025)), Err(IntentionError::Name)));
}

#[test]
fn after_a_failed_write_nothing_more_is_begun_until_it_is_opened_again() {
    let folder = Folder::new();
    let intentions = folder.open();
    let first = intentions.begin("payout-1").unwrap();
    intentions.0.break_disk();
    assert!(matches!(intentions.begin("payout-2"), Err(IntentionError::Io { .. })));
    assert!(matches!(intentions.begin("payout-3"), Err(IntentionError::Poisoned)));
    assert!(matches!(intentions.finish("payout-1"), Err(IntentionError::Poisoned)));
    assert_eq!(intentions.open_intentions().len(), 1);
    drop(intentions);
    assert_eq!(folder.open().begin("payout-1").unwrap().key, first.key);
}

#[cfg(unix)]
#[test]
fn only_its_owner_can_read_it() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new();
    folder.open().begin("payout-1").unwrap();
    assert_eq!(fs::metadata(folder.journal()).unwrap().permissions().mode() & 0o077, 0);
}
