//! The matrix: each scenario is watched once, undisturbed; then, for each passage of a crash point that was seen, a process
//! does the same and dies there, the client goes on, and the whole state is compared with the undisturbed one.
//!
//! Every point is met in every scenario that passes it, at its first and at its last passage. All passages in between
//! are met too with `ONEFOLD_CRASH_ALL` (`cargo xtask crash`).

use std::collections::HashMap;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use onefold::Onefold;
use onefold_core::EventKind;
use onefold_testkit::directory::TestDirectory;
use tokio::process::Command;
use tokio::task::JoinSet;

use crate::base::{Base, call};
use crate::scenario::{Act, LEASE, LONG_LEASE, Provider, Recovered, Scenario, perform, recover};

const AT: &str = "ONEFOLD_CRASH_AT";
const TRACE: &str = "ONEFOLD_CRASH_TRACE";
const ALL: &str = "ONEFOLD_CRASH_ALL";

const STORE: &str = "ONEFOLD_TEST_STORE";
const ADDRESS: &str = "ONEFOLD_TEST_ADDRESS";
const FOLDER: &str = "ONEFOLD_TEST_FOLDER";
const SCENARIO: &str = "ONEFOLD_TEST_SCENARIO";
const LEASE_MS: &str = "ONEFOLD_TEST_LEASE_MS";

/// Cases at one time: most of them wait for the end of a lease.
const CASES_AT_ONCE: usize = 8;

/// A passage of a crash point: its name and the how-manyeth it is.
type Passage = (String, usize);

/// What a child does: the deed, and nothing after it.
pub async fn child<B: Base>() -> bool {
    let said = |name: &str| std::env::var(name).ok();
    let (Some(store), Some(address)) = (said(STORE), said(ADDRESS)) else { return false };
    if store != B::NAME {
        return false;
    }
    let scenario = Scenario::named(&said(SCENARIO).unwrap());
    let lease = Duration::from_millis(said(LEASE_MS).unwrap().parse().unwrap());
    let provider = Provider::of(Path::new(&said(FOLDER).unwrap()));
    let base = B::at(&address);
    let onefold = base.open().await;
    // An answer that is no result is an answer too.
    let _ = perform(scenario.deed, lease, &base, &onefold, &provider).await;
    crate::base::at("caller.answer.after");
    true
}

/// A database as it is before the deed, and the books of the provider.
struct Ground<B> {
    base: B,
    folder: PathBuf,
}

impl<B: Base> Ground<B> {
    /// An empty one.
    async fn new(folder: PathBuf) -> Option<Ground<B>> {
        std::fs::create_dir(&folder).unwrap();
        Some(Ground { base: B::create(&folder).await?, folder })
    }

    async fn of(scenario: &Scenario, empty: &Ground<B>, folder: PathBuf) -> Ground<B> {
        let ground = empty.copy(folder).await;
        if let Some(before) = scenario.before {
            let onefold = ground.base.open().await;
            let _ = perform(before, LEASE, &ground.base, &onefold, &ground.provider()).await;
        }
        ground
    }

    async fn copy(&self, folder: PathBuf) -> Ground<B> {
        std::fs::create_dir(&folder).unwrap();
        let books = self.folder.join("provider");
        if books.exists() {
            std::fs::copy(books, folder.join("provider")).unwrap();
        }
        Ground { base: self.base.copy(&folder).await, folder }
    }

    fn provider(&self) -> Provider {
        Provider::of(&self.folder)
    }

    async fn child(
        &self,
        scenario: &Scenario,
        lease: Duration,
        told: (&str, impl AsRef<std::ffi::OsStr>),
    ) -> ExitStatus {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "child", "--nocapture"]).env(told.0, told.1);
        child.env(STORE, B::NAME).env(ADDRESS, self.base.address()).env(FOLDER, &self.folder);
        child.env(SCENARIO, scenario.name).env(LEASE_MS, lease.as_millis().to_string());
        child.stdout(std::process::Stdio::null()).kill_on_drop(true).status().await.unwrap()
    }

    /// Does the deed in a child that writes down which points it passes.
    async fn watched(&self, scenario: &Scenario) -> Vec<Passage> {
        let trace = self.folder.join("trace");
        let lease = if scenario.renews() { LEASE } else { LONG_LEASE };
        let status = self.child(scenario, lease, (TRACE, &trace)).await;
        assert!(status.success(), "{}, undisturbed: {status}", scenario.name);
        let mut counts: HashMap<&str, usize> = HashMap::new();
        let trace = std::fs::read_to_string(trace).unwrap();
        let passed = trace.lines().map(|name| {
            let count = counts.entry(name).or_default();
            *count += 1;
            (name.to_owned(), *count)
        });
        passed.collect()
    }
}

/// What everybody has at the end.
#[derive(Debug, PartialEq, Eq)]
struct End {
    content: Vec<String>,
    /// What the provider was asked for. A workflow may ask for a step again under its key, which is no second effect.
    asked: Vec<String>,
}

async fn end<B: Base>(scenario: &Scenario, ground: &Ground<B>) -> End {
    let mut asked = ground.provider().requests();
    asked.sort();
    if matches!(scenario.deed, Act::Resumable(_)) {
        asked.dedup();
    }
    End { content: ground.base.content().await, asked }
}

/// A scenario that was watched.
struct Watched<B> {
    scenario: &'static Scenario,
    ground: Ground<B>,
    folder: PathBuf,
    passages: Vec<Passage>,
    value: Option<i64>,
    end: End,
}

impl<B: Base> Watched<B> {
    async fn of(scenario: &'static Scenario, empty: &Ground<B>, folder: PathBuf) -> Watched<B> {
        std::fs::create_dir(&folder).unwrap();
        let ground = Ground::<B>::of(scenario, empty, folder.join("before")).await;
        let undisturbed = ground.copy(folder.join("undisturbed")).await;
        let passages = undisturbed.watched(scenario).await;
        let onefold = undisturbed.base.open().await;
        let recovered = recover(scenario, &undisturbed.base, &onefold, &undisturbed.provider()).await;
        let value = recovered.value;
        let end = end(scenario, &undisturbed).await;
        Watched { scenario, ground, folder, passages, value, end }
    }

    /// Where processes die.
    fn chosen(&self) -> Vec<Passage> {
        let mut passages = self.passages.clone();
        if self.scenario.renews() {
            // How often it is renewed after that is chance.
            let renewed = passages.iter().position(|(name, _)| name == B::RENEWED).expect("a renewal");
            passages.truncate(renewed + 1);
        }
        let mut last: HashMap<&str, usize> = HashMap::new();
        for (name, count) in &passages {
            last.insert(name, *count);
        }
        let all = std::env::var_os(ALL).is_some();
        let is_chosen = |(name, count): &&Passage| all || *count == 1 || *count == last[name.as_str()];
        passages.iter().filter(is_chosen).cloned().collect()
    }

    /// A process dies there, and the client goes on. An error says what is not as it should be.
    async fn case(&self, (name, count): &Passage) -> Result<(), String> {
        let ground = self.ground.copy(self.folder.join(format!("{name}-{count}"))).await;
        let status = ground.child(self.scenario, LEASE, (AT, format!("{name}:{count}"))).await;
        if status.signal() != Some(9) {
            return Err(format!("the process was to die there: {status}"));
        }
        let provider = ground.provider();
        let onefold = ground.base.open().await;
        let recovered = recover(self.scenario, &ground.base, &onefold, &provider).await;
        drop(onefold);
        let Recovered { value, settled } = recovered;
        if value.is_some() && value != self.value && self.value.is_some() {
            return Err(format!("the client has {value:?} instead of {:?}", self.value));
        }
        if value.is_none() && settled == 0 && self.value.is_some() {
            return Err("the client has no value, and nobody has settled it".into());
        }
        // Of another process, so that nothing in memory answers.
        let onefold = ground.base.open().await;
        let again = recover(self.scenario, &ground.base, &onefold, &provider).await;
        if (again.value, again.settled) != (value, 0) {
            return Err(format!("another call gets {:?} instead of {value:?}", again.value));
        }
        let end = end(self.scenario, &ground).await;
        if end != self.end {
            return Err(differences(&self.end, &end));
        }
        let settled = if self.scenario.deed == Act::Resolve { 1 } else { settled };
        let history = history::<B>(&onefold).await;
        let (resolved, others): (Vec<_>, Vec<_>) =
            history.into_iter().partition(|kind| *kind == EventKind::Resolved);
        if resolved.len() != settled || others.iter().any(|kind| *kind != EventKind::Unknown) {
            return Err(format!(
                "a person settled it {settled} times; its history: {resolved:?}, {others:?}"
            ));
        }
        Ok(())
    }
}

/// What the record's history says beside its transitions.
async fn history<B: Base>(onefold: &Onefold<B::Store>) -> Vec<EventKind> {
    let shown = onefold.engine().show(call(LEASE).id(onefold)).await.unwrap().expect("the record");
    shown.events.into_iter().map(|event| event.kind).collect()
}

fn differences(wanted: &End, found: &End) -> String {
    let rows = |end: &End| [end.content.clone(), end.asked.clone()].concat();
    let (wanted, found) = (rows(wanted), rows(found));
    let mut text = String::from("another state than undisturbed (- wanted, + found):\n");
    let only = |sign: &str, these: &[String], those: &[String]| -> String {
        let only = these.iter().filter(|row| {
            let count = |rows: &[String]| rows.iter().filter(|other| other == row).count();
            count(these) != count(those)
        });
        only.map(|row| format!("  {sign} {row}\n")).collect()
    };
    text += &only("-", &wanted, &found);
    text += &only("+", &found, &wanted);
    text
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
    let (mut failures, mut cases) = (Vec::new(), 0);
    for (n, scenario) in scenarios.iter().enumerate() {
        let watched = Watched::<B>::of(scenario, &empty, directory.file(&n.to_string())).await;
        let (watched, mut running) = (Arc::new(watched), JoinSet::new());
        let chosen = watched.chosen();
        let (died, all) = (chosen.len(), watched.passages.len());
        println!("{:9} {:40} {all:3} passages, {died:3} deaths", B::NAME, scenario.name);
        cases += died;
        for passage in chosen {
            if running.len() >= CASES_AT_ONCE {
                failures.extend(running.join_next().await.and_then(told));
            }
            let watched = watched.clone();
            running.spawn(async move {
                let label = format!("{}, {}, {}:{}", B::NAME, watched.scenario.name, passage.0, passage.1);
                // In a task of its own, so that a panic has a label.
                let case = tokio::spawn(async move { watched.case(&passage).await });
                case.await.unwrap_or_else(|panic| Err(panic.to_string())).map_err(|why| (label, why))
            });
        }
        while let Some(done) = running.join_next().await {
            failures.extend(told(done));
        }
    }
    let failed = failures.len();
    assert!(failed == 0, "{failed} of {cases} cases:\n{}", failures.join("\n"));
}

fn told(done: Result<Result<(), (String, String)>, tokio::task::JoinError>) -> Option<String> {
    let (label, why) = done.expect("a case is caught").err()?;
    Some(format!("{label}: {why}"))
}
