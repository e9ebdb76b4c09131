//! The second process: what it is told, what it does, and the handle that kills or freezes it.

use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

use onefold::{BoxError, Call, CallError, Done, Verdict};
use onefold_testkit::process::Process;
use onefold_testkit::{TestDirectory, wait};
use tokio::task::JoinSet;

use crate::service::{Notes, Service, call, call_of, operation};

const STORE: &str = "ONEFOLD_TEST_STORE";
const FOLDER: &str = "ONEFOLD_TEST_FOLDER";
const TASK: &str = "ONEFOLD_TEST_TASK";
const KEY: &str = "ONEFOLD_TEST_KEY";

/// What a child notes when it stands where it is to be killed, frozen or let go on.
pub const REACHED: &str = "reached";
/// What lets a child go on.
pub const GO: &str = "go";

/// What a child does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// Places one order.
    Place,
    /// Stands between the business statement and the commit.
    StandBeforeTheCommit,
    /// Has placed its order and is about to tell its caller.
    StandAfterTheCommit,
    /// Has asked another system, in reserved mode, and stands before it reports.
    StandAfterTheEffect,
    /// Stands in the second of three steps, whose effect it has had.
    StandInAStep,
    /// Five tasks in reserved mode under one key.
    FiveReserved,
    /// Ten tasks for each of twenty keys in atomic mode.
    RaceForTwentyKeys,
}

const TASKS: [Task; 7] = [
    Task::Place,
    Task::StandBeforeTheCommit,
    Task::StandAfterTheCommit,
    Task::StandAfterTheEffect,
    Task::StandInAStep,
    Task::FiveReserved,
    Task::RaceForTwentyKeys,
];

/// A store's URL and the folder of notes: what two processes share.
pub struct Shared {
    pub url: String,
    pub notes: Notes,
    folder: TestDirectory,
}

impl Shared {
    pub fn new(url: &str) -> Shared {
        let folder = TestDirectory::create();
        Shared { url: url.to_owned(), notes: Notes::in_folder(folder.path()), folder }
    }

    /// Starts a child; it is killed when the handle is dropped.
    pub fn start(&self, task: Task, key: &str) -> Other {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child", "--nocapture"])
            .env(STORE, &self.url)
            .env(FOLDER, self.folder.path())
            .env(TASK, format!("{task:?}"))
            .env(KEY, key)
            .spawn();
        Other(child.unwrap())
    }

    /// Starts a child and waits until it stands where it was told to.
    pub async fn start_and_stand(&self, task: Task, key: &str) -> Other {
        let other = self.start(task, key);
        wait::until("the child stands there", || !self.notes.noted(REACHED).is_empty()).await;
        other
    }

    /// A child was killed where it stood.
    pub async fn killed(&self, task: Task, key: &str) {
        self.start_and_stand(task, key).await.kill();
    }
}

/// Another process of the service.
pub struct Other(Child);

impl Other {
    /// SIGKILL: nothing of it is unwound, closed or told.
    pub fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    pub fn freeze(&self) {
        Process::of(self.0.id()).freeze();
    }

    pub fn thaw(&self) {
        Process::of(self.0.id()).thaw();
    }

    /// Waits for its end without standing in the way of the test's own tasks.
    pub async fn ended(mut self) -> ExitStatus {
        wait::some(wait::DEADLINE, "the child ends", async || self.0.try_wait().unwrap()).await
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Does what the environment says; nothing in an ordinary run of tests.
pub fn run() {
    let Ok(told) = std::env::var(TASK) else { return };
    let task = TASKS.into_iter().find(|task| format!("{task:?}") == told).expect("a task of a child");
    let [url, folder, key] = [STORE, FOLDER, KEY].map(|name| std::env::var(name).unwrap());
    let notes = Notes::in_folder(folder.as_ref());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let service = Service::open(&url).await;
        match task {
            Task::Place => {
                let done = service.place(call(&key)).await.unwrap();
                notes.note("placed", &format!("{} {}", done.value(), done.replayed()));
            }
            Task::StandBeforeTheCommit => {
                let noting = notes.clone();
                service.place_and(call(&key), move || stand_for_good(&noting)).await.unwrap();
            }
            Task::StandAfterTheCommit => {
                service.place(call(&key)).await.unwrap();
                stand_for_good(&notes);
            }
            Task::StandAfterTheEffect => {
                let told = charge(&service, call(&key), notes.clone(), true).await;
                notes.note("told", &told_in_words(&told));
            }
            Task::StandInAStep => {
                let told = workflow(&service, &key, notes.clone(), true).await;
                notes.note("told", &told_in_words(&told));
            }
            Task::FiveReserved => five_reserved(&service, &key, &notes).await,
            Task::RaceForTwentyKeys => race_for_twenty_keys(&service, &key, &notes).await,
        }
    });
}

fn stand_for_good(notes: &Notes) {
    notes.note(REACHED, "");
    loop {
        std::thread::park();
    }
}

fn told_in_words(told: &Result<Done<i64>, CallError>) -> String {
    match told {
        Ok(done) => format!("{} {:?}", done.value(), done.recorded()),
        Err(error) => format!("error: {error}"),
    }
}

async fn stand_until_told(notes: &Notes) {
    notes.note(REACHED, "");
    wait::until("it may go on", || !notes.noted(GO).is_empty()).await;
}

/// Asks another system for one charge.
pub async fn charge(
    service: &Service,
    call: Call,
    notes: Notes,
    stands: bool,
) -> Result<Done<i64>, CallError> {
    let work = move |attempt: onefold::Performing| async move {
        notes.note("effects", &attempt.downstream_key("charge"));
        if stands {
            stand_until_told(&notes).await;
        }
        Ok(Verdict::succeeded(i64::from(attempt.attempt())))
    };
    service.reserved(call, work).await
}

/// Three steps; the other system gets each under its downstream key.
pub async fn workflow(
    service: &Service,
    key: &str,
    notes: Notes,
    stands: bool,
) -> Result<Done<i64>, CallError> {
    let work = move |steps: onefold::Steps| async move {
        for name in ["reserve", "charge", "ship"] {
            let notes = notes.clone();
            let asked = move |key: String| async move {
                notes.note("effects", &format!("{name} {key}"));
                if stands && name == "charge" {
                    stand_until_told(&notes).await;
                }
                Ok::<_, BoxError>(())
            };
            steps.run(name, asked).await?;
        }
        Ok(Verdict::succeeded(i64::from(steps.attempt().attempt())))
    };
    service.resumable(call_of(&operation(), key), work).await
}

/// Each of the five appends what it was told; the body appends that it ran.
pub async fn five_reserved(service: &Service, key: &str, notes: &Notes) {
    let mut tasks = JoinSet::new();
    for _ in 0..5 {
        let (service, notes, call) = (service.clone(), notes.clone(), call(key));
        tasks.spawn(async move {
            let working = notes.clone();
            let body = move |_| async move {
                working.note("effects", "ran");
                wait::pass_time(Duration::from_millis(500), "all ten are to meet the running body").await;
                Ok(Verdict::succeeded(7))
            };
            match service.reserved(call, body).await {
                Ok(done) => notes.note("answers", &done.value().to_string()),
                Err(CallError::InProgress { .. }) => notes.note("answers", "busy"),
                Err(other) => panic!("{other}"),
            }
        });
    }
    tasks.join_all().await;
}

/// Every caller notes the key and the number that it got.
pub async fn race_for_twenty_keys(service: &Service, prefix: &str, notes: &Notes) {
    let mut callers = JoinSet::new();
    for caller in 0..200 {
        let (service, notes, key) = (service.clone(), notes.clone(), format!("{prefix}-{}", caller / 10));
        callers.spawn(async move {
            let done = service.place(call(&key)).await.unwrap();
            notes.note("answers", &format!("{key} {} {}", done.value(), done.replayed()));
        });
    }
    callers.join_all().await;
}
