//! The matrix: each scenario is watched once, undisturbed; then, for each passage of a crash point that was seen, a
//! process does the same and dies there, the client goes on, and the whole state is compared with the undisturbed
//! one.
//!
//! Every point is met in every scenario that passes it, at its first and at its last passage. With `ONEFOLD_CRASH_ALL`
//! (`cargo xtask crash`) all passages in between are met too, and the client dies as well: from each state that a first
//! death has left, at each passage of its way.

use std::collections::HashMap;
use std::future::Future;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::sync::Arc;

use onefold::Onefold;
use onefold_core::EventKind;
use onefold_testkit::directory::TestDirectory;
use parking_lot::Mutex;
use tokio::task::JoinSet;

use crate::base::{Base, call};
use crate::ground::{AT, Ground, Passage, Role, State};
use crate::scenario::{Act, LEASE, Recovered, Scenario, recover};

const ALL: &str = "ONEFOLD_CRASH_ALL";

/// Cases at one time: most of them wait for the end of a lease.
const CASES_AT_ONCE: usize = 8;

fn all() -> bool {
    std::env::var_os(ALL).is_some()
}

/// A scenario that was watched.
struct Watched<B> {
    scenario: &'static Scenario,
    ground: Ground<B>,
    folder: PathBuf,
    passages: Vec<Passage>,
    value: Option<i64>,
    end: State,
    /// Where `all`: what first deaths have left, each state once.
    left: Mutex<Vec<Left<B>>>,
}

/// What a first death has left, and at which passage it was.
struct Left<B> {
    at: String,
    state: State,
    ground: Arc<Ground<B>>,
}

impl<B: Base> Watched<B> {
    async fn of(scenario: &'static Scenario, empty: &Ground<B>, folder: PathBuf) -> Watched<B> {
        std::fs::create_dir(&folder).unwrap();
        let ground = Ground::<B>::of(scenario, empty, folder.join("before")).await;
        let undisturbed = ground.copy(folder.join("undisturbed")).await;
        let passages = undisturbed.watched(scenario, Role::Deed).await;
        let onefold = undisturbed.base.open().await;
        let recovered = recover(scenario, LEASE, &undisturbed.base, &onefold, &undisturbed.provider()).await;
        let end = undisturbed.state(scenario).await;
        let (value, left) = (recovered.value, Mutex::default());
        Watched { scenario, ground, folder, passages, value, end, left }
    }

    /// Where processes die.
    fn chosen(&self) -> Vec<Passage> {
        let mut passages = self.passages.clone();
        if self.scenario.renews() {
            // How often it is renewed after that is chance.
            let renewed = passages.iter().position(|(name, _)| name == B::RENEWED).expect("a renewal");
            passages.truncate(renewed + 1);
        }
        let last: HashMap<String, usize> = passages.iter().cloned().collect();
        passages.retain(|(name, count)| all() || *count == 1 || *count == last[name]);
        passages
    }

    /// A process dies there, and the client goes on. An error says what is not as it should be.
    async fn one_death(&self, (name, count): &Passage) -> Result<(), String> {
        let place = format!("{name}:{count}");
        let ground = self.ground.copy(self.folder.join(&place)).await;
        let status = ground.child(self.scenario, Role::Deed, LEASE, (AT, &place)).await;
        if status.signal() != Some(9) {
            return Err(format!("the process was to die there: {status}"));
        }
        if all() {
            self.remember(&ground, &place).await;
        }
        let onefold = ground.base.open().await;
        let recovered = recover(self.scenario, LEASE, &ground.base, &onefold, &ground.provider()).await;
        drop(onefold);
        let settled = if matches!(self.scenario.deed, Act::Resolve | Act::ResolveAccompanied) {
            1
        } else {
            recovered.settled
        };
        self.judge(&ground, &recovered, Some(settled)).await
    }

    async fn remember(&self, ground: &Ground<B>, place: &str) {
        let state = ground.state(self.scenario).await;
        if self.left.lock().iter().any(|left| left.state == state) {
            return;
        }
        let copy = Arc::new(ground.copy(self.folder.join(format!("{place}-left"))).await);
        let mut left = self.left.lock();
        if left.iter().all(|left| left.state != state) {
            left.push(Left { at: place.to_owned(), state, ground: copy });
        }
    }

    /// The client dies as well, and another one goes on. What it passes while it waits is chance, so it need not come
    /// to a later passage.
    async fn two_deaths(&self, left: &Ground<B>, at: &str, (name, count): &Passage) -> Result<(), String> {
        let place = format!("{name}:{count}");
        let ground = left.copy(self.folder.join(format!("{at}, {place}"))).await;
        let status = ground.child(self.scenario, Role::Client, LEASE, (AT, &place)).await;
        if status.signal() != Some(9) && !(status.success() && *count > 1) {
            return Err(format!("the client was to die there: {status}"));
        }
        let onefold = ground.base.open().await;
        let recovered = recover(self.scenario, LEASE, &ground.base, &onefold, &ground.provider()).await;
        drop(onefold);
        self.judge(&ground, &recovered, None).await
    }

    /// Whether all is as it would have been; `settled`: how often a person has settled it, where that is known.
    async fn judge(
        &self,
        ground: &Ground<B>,
        recovered: &Recovered,
        settled: Option<usize>,
    ) -> Result<(), String> {
        let value = recovered.value;
        if value.is_some() && value != self.value && self.value.is_some() {
            return Err(format!("the client has {value:?} instead of {:?}", self.value));
        }
        // Of another process, so that nothing in memory answers.
        let onefold = ground.base.open().await;
        let again = recover(self.scenario, LEASE, &ground.base, &onefold, &ground.provider()).await;
        if (again.value, again.settled) != (value, 0) {
            return Err(format!("another call gets {:?} instead of {value:?}", again.value));
        }
        let end = ground.state(self.scenario).await;
        if end != self.end {
            let differences = self.end.differences(&end);
            return Err(format!("another state than undisturbed (- wanted, + found):\n{differences}"));
        }
        let history = history::<B>(&onefold).await;
        let (resolved, others): (Vec<_>, Vec<_>) =
            history.into_iter().partition(|kind| *kind == EventKind::Resolved);
        let has_value = !matches!(self.scenario.again, Act::Message(_));
        let wrong = settled.is_some_and(|settled| settled != resolved.len())
            || (has_value && value.is_none() && resolved.is_empty())
            || others.iter().any(|kind| *kind != EventKind::Unknown);
        if wrong {
            return Err(format!(
                "a person settled it {settled:?} times; its history: {resolved:?}, {others:?}"
            ));
        }
        Ok(())
    }
}

/// What the record's history says beside its transitions. A scenario of messages may have no record.
async fn history<B: Base>(onefold: &Onefold<B::Store>) -> Vec<EventKind> {
    let shown = onefold.engine().show(call(LEASE).id(onefold)).await.unwrap();
    shown.into_iter().flat_map(|shown| shown.events).map(|event| event.kind).collect()
}

/// Watches each scenario and says which points are passed; `None` when it is skipped.
pub async fn passed<B: Base>(
    scenarios: impl Iterator<Item = &'static Scenario>,
) -> Option<Vec<(&'static str, Vec<Passage>)>> {
    let directory = TestDirectory::create();
    let empty = Ground::<B>::new(directory.file("empty")).await?;
    let mut passed = Vec::new();
    for (n, scenario) in scenarios.enumerate() {
        let watched = Watched::<B>::of(scenario, &empty, directory.file(&n.to_string())).await;
        passed.push((scenario.name, watched.passages));
    }
    Some(passed)
}

/// Holds every case of these scenarios.
pub async fn hold<B: Base>(scenarios: &'static [Scenario]) {
    let directory = TestDirectory::create();
    let Some(empty) = Ground::<B>::new(directory.file("empty")).await else { return };
    let mut cases = Cases::default();
    for (n, scenario) in scenarios.iter().enumerate() {
        let watched = Watched::<B>::of(scenario, &empty, directory.file(&n.to_string())).await;
        let (watched, begun) = (Arc::new(watched), cases.begun);
        for passage in watched.chosen() {
            let watched = watched.clone();
            let label = format!("{}, {}, {}:{}", B::NAME, scenario.name, passage.0, passage.1);
            cases.add(label, async move { watched.one_death(&passage).await }).await;
        }
        cases.wait().await;
        let (once, left) = (cases.begun - begun, std::mem::take(&mut *watched.left.lock()));
        let states = left.len();
        for (n, Left { at, ground, .. }) in left.into_iter().enumerate() {
            let undisturbed = ground.copy(directory.file(&format!("{}-{n}", scenario.name))).await;
            for passage in undisturbed.watched(scenario, Role::Client).await {
                let (watched, left, at) = (watched.clone(), ground.clone(), at.clone());
                let label = format!("{}, {}, {at}, then {}:{}", B::NAME, scenario.name, passage.0, passage.1);
                cases.add(label, async move { watched.two_deaths(&left, &at, &passage).await }).await;
            }
        }
        cases.wait().await;
        let (passages, twice) = (watched.passages.len(), cases.begun - begun - once);
        print!("{:9} {:42} {passages:3} passages, {once:3} deaths", B::NAME, scenario.name);
        println!("; {states:2} states left, {twice:3} second deaths");
    }
    let Cases { begun, failures, .. } = cases;
    assert!(failures.is_empty(), "{} of {begun} cases:\n{}", failures.len(), failures.join("\n"));
}

/// Cases that run, a few at a time, and what became of them.
#[derive(Default)]
struct Cases {
    begun: usize,
    running: JoinSet<Option<String>>,
    failures: Vec<String>,
}

impl Cases {
    async fn add(&mut self, label: String, case: impl Future<Output = Result<(), String>> + Send + 'static) {
        if self.running.len() >= CASES_AT_ONCE {
            self.next().await;
        }
        self.begun += 1;
        self.running.spawn(async move {
            // In a task of its own, so that a panic has a label.
            let done = tokio::spawn(case).await.unwrap_or_else(|panic| Err(panic.to_string()));
            done.err().map(|why| format!("{label}: {why}"))
        });
    }

    async fn next(&mut self) -> bool {
        let Some(done) = self.running.join_next().await else { return false };
        self.failures.extend(done.expect("a case is caught"));
        true
    }

    async fn wait(&mut self) {
        while self.next().await {}
    }
}
