//! A process that is frozen (SIGSTOP) in the middle of an attempt and wakes when its lease is over: while another one
//! has the operation, or after that one's end. What it says then is evidence, and changes nothing.
//!
//! It is frozen where none of its transactions is open: one that is holds the database, or the key, until it wakes.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use onefold::Onefold;
use onefold_core::EventKind;
use onefold_testkit::TestDirectory;
use onefold_testkit::process::Process;
use onefold_testkit::wait;
use tokio::process::Child;

use crate::base::{Base, call};
use crate::ground::{FOLDER, Ground, Role};
use crate::scenario::{Act, LEASE, PAUSE, Scenario, recover};

/// Names the point at whose first passage a child freezes itself.
const FREEZE_AT: &str = "ONEFOLD_TEST_FREEZE_AT";
/// The file that lets it go on.
const THAWED: &str = "thawed";

static WAS_FROZEN: AtomicBool = AtomicBool::new(false);

/// A place at which this process may be told to freeze.
pub fn at(point: &str) {
    let told = std::env::var(FREEZE_AT).is_ok_and(|place| place == point);
    if !told || WAS_FROZEN.swap(true, Ordering::Relaxed) {
        return;
    }
    Process::of(std::process::id()).freeze();
    // This thread may run on for a moment; it is to see nothing but the thaw.
    let thawed = thawed(Path::new(&std::env::var(FOLDER).unwrap()), std::process::id());
    while !thawed.exists() {
        std::thread::sleep(PAUSE);
    }
}

fn thawed(folder: &Path, process: u32) -> PathBuf {
    folder.join(format!("{THAWED}-{process}"))
}

/// When the frozen process wakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wakes {
    /// When another one has the operation and is in the middle of it.
    DuringTheNext,
    /// When the operation is settled.
    Afterwards,
}

const CASES: [(&str, &str, Wakes); 8] = [
    ("reserved", "provider.asked.before", Wakes::DuringTheNext),
    ("reserved", "provider.asked.before", Wakes::Afterwards),
    ("reserved", "provider.asked.after", Wakes::Afterwards),
    ("resumable", "provider.asked.before", Wakes::DuringTheNext),
    ("resumable", "provider.asked.after", Wakes::DuringTheNext),
    ("resumable", "business.step.after", Wakes::Afterwards),
    ("relayed", "relay.settle.before", Wakes::DuringTheNext),
    ("relayed", "relay.settle.before", Wakes::Afterwards),
];

/// Holds every case.
pub async fn hold<B: Base>() {
    let directory = TestDirectory::create();
    let Some(empty) = Ground::<B>::new(directory.file("empty")).await else { return };
    for (n, (scenario, place, wakes)) in CASES.into_iter().enumerate() {
        let folder = directory.file(&n.to_string());
        std::fs::create_dir(&folder).unwrap();
        case::<B>(Scenario::named(scenario), place, wakes, &empty, &folder).await;
    }
}

async fn case<B: Base>(scenario: &Scenario, place: &str, wakes: Wakes, empty: &Ground<B>, folder: &Path) {
    let label = format!("{}, {}, {place}, {wakes:?}", B::NAME, scenario.name);
    let before = Ground::<B>::of(scenario, empty, folder.join("before")).await;
    let undisturbed = before.copy(folder.join("undisturbed")).await;
    let onefold = undisturbed.base.open().await;
    let value = recover(scenario, LEASE, &undisturbed.base, &onefold, &undisturbed.provider()).await.value;
    drop(onefold);
    let end = undisturbed.state_by_key().await;

    let ground = before.copy(folder.join("frozen")).await;
    let first = ground.start(scenario, Role::Deed, LEASE, (FREEZE_AT, place));
    until_frozen(&first, &label).await;
    let onefold = ground.base.open().await;
    if wakes == Wakes::DuringTheNext {
        let second = ground.start(scenario, Role::Client, LEASE, (FREEZE_AT, place));
        until_frozen(&second, &label).await;
        thaw(first, &ground, &label).await;
        thaw(second, &ground, &label).await;
    } else {
        recover(scenario, LEASE, &ground.base, &onefold, &ground.provider()).await;
        thaw(first, &ground, &label).await;
    }
    let recovered = recover(scenario, LEASE, &ground.base, &onefold, &ground.provider()).await;
    assert_eq!(recovered.settled, 0, "{label}: it is settled");
    assert!(recovered.value.is_none() || recovered.value == value, "{label}: {:?}", recovered.value);
    let found = ground.state_by_key().await;
    assert!(found == end, "{label}: another state (- wanted, + found):\n{}", end.differences(&found));
    let (attempt, late) = told::<B>(&onefold).await;
    match scenario.deed {
        // Its success is a suspected second effect, and is shown to people.
        Act::Reserved(_) => {
            let attempts = if place == "provider.asked.before" { 2 } else { 1 };
            assert_eq!((attempt, late), (attempts, 1), "{label}");
        }
        // It stops at the first step that it has lost.
        Act::Resumable(_) => assert_eq!((attempt, late), (2, 0), "{label}"),
        _ => assert_eq!(late, 0, "{label}"),
    }
}

/// The attempt of the record, and the late successes in its history.
async fn told<B: Base>(onefold: &Onefold<B::Store>) -> (u32, usize) {
    let shown = onefold.engine().show(call(LEASE).id(onefold)).await.unwrap().expect("the record");
    let late = shown.events.iter().filter(|event| event.kind == EventKind::LateSuccess).count();
    (shown.record.attempt, late)
}

async fn until_frozen(child: &Child, label: &str) {
    let stat = format!("/proc/{}/stat", child.id().expect("it runs"));
    // The state stands behind the name, which is in parentheses.
    let state = || std::fs::read_to_string(&stat).unwrap_or_default();
    let is_frozen = || state().rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('T'));
    wait::until(&format!("{label}: it is frozen"), is_frozen).await;
}

async fn thaw<B: Base>(mut child: Child, ground: &Ground<B>, label: &str) {
    let id = child.id().expect("it runs");
    std::fs::write(thawed(&ground.folder, id), []).unwrap();
    Process::of(id).thaw();
    let ended = wait::within(wait::DEADLINE, "the frozen process ends", child.wait()).await.unwrap();
    assert!(ended.success(), "{label}: {ended}");
}
