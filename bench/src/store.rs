//! `store`: claim and settle in the SQLite store of this process, beside a raw log of equal bytes.
//!
//! The two take turns on one disk, each with new files in each repeat, and the ratio is taken of each pair.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use anyhow::{Context, Result};
use onefold_store_sqlite::{Options, SqliteStore};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use crate::args::Settings;
use crate::figure::{Figure, Goal};
use crate::keys::KeyMaker;
use crate::raw_log::RawLog;
use crate::report::Report;
use crate::store_pairs::Pair;

/// Tasks at which the goal is set.
const GOAL_TASKS: u32 = 64;
/// What the store is to reach, as a share of the raw log.
const RATIO_MIN: f64 = 0.35;

const HEADER: [&str; 7] = [
    "tasks",
    "store, operations a second",
    "jobs a commit",
    "raw log, operations a second",
    "ratio",
    "goal",
    "met",
];

/// Measures and prints.
pub(crate) fn run(settings: &Settings) -> Result<Report> {
    let dir = settings.dir()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let mut report = Report::new("store", 1, &HEADER);
    let (claim, settle) = Pair::new(&mut KeyMaker::new(settings.keys_kind))?.bytes();
    report.about(settings.told());
    report.about(format!(
        "an operation is a claim ({claim} bytes of columns), committed, then a result ({settle} bytes), committed"
    ));
    report.about("the raw log appends as many bytes to a preallocated file and syncs once for all that wait");
    let mut measured: Vec<_> = settings.connections.iter().map(|tasks| Measured::new(*tasks)).collect();
    for repeat in 1..=settings.repeats {
        eprintln!("store: repeat {repeat} of {}", settings.repeats);
        let dir = tempfile::tempdir_in(&dir).context("make a folder")?;
        for measured in &mut measured {
            measured.measure(&runtime, dir.path(), settings)?;
        }
    }
    for measured in &measured {
        measured.report(&mut report);
    }
    report.print(settings.output);
    Ok(report)
}

/// The samples of one number of tasks.
struct Measured {
    tasks: u32,
    store: Vec<f64>,
    jobs_a_commit: Vec<f64>,
    raw: Vec<f64>,
}

impl Measured {
    fn new(tasks: u32) -> Measured {
        Measured { tasks, store: Vec::new(), jobs_a_commit: Vec::new(), raw: Vec::new() }
    }

    fn measure(&mut self, runtime: &Runtime, dir: &Path, settings: &Settings) -> Result<()> {
        let log = Arc::new(RawLog::create(&dir.join(format!("{}.log", self.tasks)))?);
        self.raw.push(rate(runtime, self.tasks, settings, move |pair| {
            let log = log.clone();
            async move { pair.log(&log).await }
        })?);
        let path = dir.join(format!("{}.db", self.tasks));
        let store = Arc::new(SqliteStore::open(path, Options::default())?);
        let own = store.clone();
        self.store.push(rate(runtime, self.tasks, settings, move |pair| {
            let store = own.clone();
            async move { pair.perform(&*store).await }
        })?);
        let stats = store.stats();
        self.jobs_a_commit.push(stats.jobs as f64 / stats.commits.max(1) as f64);
        Ok(())
    }

    fn report(&self, report: &mut Report) {
        let ratios: Vec<f64> = self.store.iter().zip(&self.raw).map(|(store, raw)| store / raw).collect();
        let figure = |of: &str, repeats: &[f64]| Figure::of(format!("{}/{of}", self.tasks), repeats);
        let goal = (self.tasks == GOAL_TASKS).then_some(Goal::AtLeast(RATIO_MIN));
        let figures = [
            figure("store/per_s", &self.store),
            figure("store/jobs_a_commit", &self.jobs_a_commit),
            figure("raw/per_s", &self.raw),
            figure("ratio", &ratios).with(goal),
        ];
        let mut cells = vec![self.tasks.to_string()];
        cells.extend(figures.iter().map(Figure::shown));
        cells.push(figures[3].goal());
        cells.push(figures[3].met_in_words().to_owned());
        report.row(cells, figures);
    }
}

/// Operations a second of so many tasks, each of which begins the next as soon as one has ended.
pub(crate) fn rate<F>(
    runtime: &Runtime,
    tasks: u32,
    settings: &Settings,
    perform: impl Fn(Pair) -> F + Clone + Send + 'static,
) -> Result<f64>
where
    F: Future<Output = Result<()>> + Send,
{
    let window = settings.window();
    let from = Instant::now() + settings.warmup();
    let until = from + window;
    let done = Arc::new(AtomicU64::new(0));
    runtime.block_on(async {
        let mut running = JoinSet::new();
        for _ in 0..tasks {
            let (perform, done) = (perform.clone(), done.clone());
            let mut maker = KeyMaker::new(settings.keys_kind);
            running.spawn(async move {
                while Instant::now() < until {
                    perform(Pair::new(&mut maker)?).await?;
                    let ended = Instant::now();
                    if ended >= from && ended < until {
                        done.fetch_add(1, Ordering::Relaxed);
                    }
                }
                anyhow::Ok(())
            });
        }
        while let Some(ended) = running.join_next().await {
            ended??;
        }
        anyhow::Ok(())
    })?;
    Ok(done.load(Ordering::Relaxed) as f64 / window.as_secs_f64())
}
