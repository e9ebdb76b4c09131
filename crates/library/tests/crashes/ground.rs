//! The ground of a case: a database, the books of the provider, and the processes that are started on them.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::process::{Child, Command};

use crate::base::{Base, at};
use crate::scenario::{Act, LEASE, LONG_LEASE, Provider, Scenario, perform, recover};

pub const AT: &str = "ONEFOLD_CRASH_AT";
const TRACE: &str = "ONEFOLD_CRASH_TRACE";

const STORE: &str = "ONEFOLD_TEST_STORE";
const ADDRESS: &str = "ONEFOLD_TEST_ADDRESS";
pub const FOLDER: &str = "ONEFOLD_TEST_FOLDER";
const SCENARIO: &str = "ONEFOLD_TEST_SCENARIO";
const ROLE: &str = "ONEFOLD_TEST_ROLE";
const LEASE_MS: &str = "ONEFOLD_TEST_LEASE_MS";

/// A passage of a crash point: its name, and which one it is, from 1.
pub type Passage = (String, usize);

/// What a child does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The deed of the scenario, once.
    Deed,
    /// What the client does afterwards.
    Client,
}

/// What a child was told to do; false where this process is none.
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
    if said(ROLE).unwrap() == format!("{:?}", Role::Client) {
        recover(scenario, lease, &base, &onefold, &provider).await;
    } else {
        // An answer that is no result is an answer too.
        let _ = perform(scenario.deed, lease, &base, &onefold, &provider).await;
    }
    at("caller.answer.after");
    true
}

/// A database and the books of the provider.
pub struct Ground<B> {
    pub base: B,
    pub folder: PathBuf,
}

impl<B: Base> Ground<B> {
    /// An empty one.
    pub async fn new(folder: PathBuf) -> Option<Ground<B>> {
        std::fs::create_dir(&folder).unwrap();
        Some(Ground { base: B::create(&folder).await?, folder })
    }

    /// As it is before the deed.
    pub async fn of(scenario: &Scenario, empty: &Ground<B>, folder: PathBuf) -> Ground<B> {
        let ground = empty.copy(folder).await;
        if let Some(before) = scenario.before {
            let onefold = ground.base.open().await;
            let _ = perform(before, LEASE, &ground.base, &onefold, &ground.provider()).await;
        }
        ground
    }

    pub async fn copy(&self, folder: PathBuf) -> Ground<B> {
        std::fs::create_dir(&folder).unwrap();
        let books = self.folder.join("provider");
        if books.exists() {
            std::fs::copy(books, folder.join("provider")).unwrap();
        }
        Ground { base: self.base.copy(&folder).await, folder }
    }

    pub fn provider(&self) -> Provider {
        Provider::of(&self.folder)
    }

    /// Starts a child, waits for its end, and says how that was.
    pub async fn child(
        &self,
        scenario: &Scenario,
        role: Role,
        lease: Duration,
        told: (&str, impl AsRef<std::ffi::OsStr>),
    ) -> ExitStatus {
        self.start(scenario, role, lease, told).wait().await.unwrap()
    }

    /// Starts a child; it is killed when it is dropped.
    pub fn start(
        &self,
        scenario: &Scenario,
        role: Role,
        lease: Duration,
        told: (&str, impl AsRef<std::ffi::OsStr>),
    ) -> Child {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "child", "--nocapture"]).env(told.0, told.1);
        child.env(STORE, B::NAME).env(ADDRESS, self.base.address()).env(FOLDER, &self.folder);
        child.env(SCENARIO, scenario.name).env(ROLE, format!("{role:?}"));
        child.env(LEASE_MS, lease.as_millis().to_string());
        child.stdout(Stdio::null()).kill_on_drop(true).spawn().unwrap()
    }

    /// What a child passes that is left undisturbed.
    pub async fn watched(&self, scenario: &Scenario, role: Role) -> Vec<Passage> {
        let trace = self.folder.join("trace");
        // No heart is to beat meanwhile, unless that is what it is about.
        let lease = if scenario.renews() { LEASE } else { LONG_LEASE };
        let status = self.child(scenario, role, lease, (TRACE, &trace)).await;
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

    /// What everybody has.
    pub async fn state(&self, scenario: &Scenario) -> State {
        let mut asked = self.provider().requests();
        asked.sort();
        if matches!(scenario.deed, Act::Resumable(_) | Act::Message(_)) {
            asked.dedup();
        }
        self.state_with(asked).await
    }

    /// The same, where a frozen process may have asked the provider once more, under the same key.
    pub async fn state_by_key(&self) -> State {
        let mut asked = self.provider().requests();
        asked.sort();
        asked.dedup();
        self.state_with(asked).await
    }

    async fn state_with(&self, asked: Vec<String>) -> State {
        State { content: self.base.content().await, asked }
    }
}

/// What everybody has.
#[derive(Debug, PartialEq, Eq)]
pub struct State {
    content: Vec<String>,
    /// What the provider was asked for. A workflow may ask for a step again under its key, and a relay send a message
    /// again under its id, which is no second effect.
    asked: Vec<String>,
}

impl State {
    /// What of this one is not in the other, and the other way round.
    pub fn differences(&self, other: &State) -> String {
        let rows = |state: &State| [state.content.clone(), state.asked.clone()].concat();
        let (wanted, found) = (rows(self), rows(other));
        let only = |sign: &str, these: &[String], those: &[String]| -> String {
            let only = these.iter().filter(|row| {
                let count = |rows: &[String]| rows.iter().filter(|other| other == row).count();
                count(these) != count(those)
            });
            only.map(|row| format!("  {sign} {row}\n")).collect()
        };
        only("-", &wanted, &found) + &only("+", &found, &wanted)
    }
}
