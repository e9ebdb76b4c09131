//! `sweep`: new operations through one of four gateways that share a store in which a million records have expired in
//! the same second, while all four sweep them and while none does.
//!
//! The two take turns over one fill: a pair is measured one right after the other, each time with new processes, and
//! the ratio is taken of each pair. A window in which the sweep came to its end is no measurement of it.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use onefold_testkit::expired::{self, Then};
use onefold_testkit::sql;
use tokio::runtime::Runtime;

use crate::args::{Settings, Sweep};
use crate::figure::Figure;
use crate::load::{self, Keys, Sample};
use crate::postgres::DATABASE;
use crate::proxied::Gateway;
use crate::report::Report;
use crate::upstream::{Service, Upstream};

/// Gateways that share the store. One of them has the foreground as well.
const GATEWAYS: usize = 4;
const SWEEPING: &str = "[store]\nsweep_every = \"1s\"\n";
/// Longer than any run.
const STILL: &str = "[store]\nsweep_every = \"7d\"\n";
/// How long the first swept record may be waited for.
const BEGINS_WITHIN: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(50);

const HEADER: [&str; 9] = [
    "store",
    "connections",
    "still, a second",
    "sweeping, a second",
    "ratio",
    "still, p99 ms",
    "sweeping, p99 ms",
    "p99 ratio",
    "swept a second",
];

/// Measures and prints.
pub(crate) fn run(settings: &Settings, sweep: &Sweep) -> Result<Report> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut report = Report::new("sweep", 1, &HEADER);
    report.about(settings.told());
    report.about(format!(
        "{} records expired in one second; {GATEWAYS} gateways on one store; the upstream does nothing",
        sweep.rows
    ));
    let dir = tempfile::tempdir_in(settings.dir()?).context("make a folder")?;
    let file = format!("sqlite:{}", dir.path().join("onefold.db").display());
    let mut measured = measure_on("sqlite", &file, dir.path(), &runtime, settings, sweep)?;
    match &sweep.server {
        None => report.skip("PostgreSQL: no server was named (--server, ONEFOLD_POSTGRES_URL)"),
        Some(server) => {
            let drop = format!("DROP DATABASE IF EXISTS {DATABASE} WITH (FORCE)");
            runtime.block_on(sql::execute(server, &drop));
            runtime.block_on(sql::execute(server, &format!("CREATE DATABASE {DATABASE}")));
            let url = format!("{}/{DATABASE}", server.trim_end_matches('/'));
            measured.extend(measure_on("postgres", &url, dir.path(), &runtime, settings, sweep)?);
            runtime.block_on(sql::execute(server, &drop));
        }
    }
    for measured in &measured {
        measured.report(&mut report);
    }
    report.print(settings.output);
    Ok(report)
}

fn measure_on(
    store: &'static str,
    url: &str,
    dir: &Path,
    runtime: &Runtime,
    settings: &Settings,
    sweep: &Sweep,
) -> Result<Vec<Measured>> {
    let upstream = Upstream::start(Service::Nothing, settings.onefold()?, dir)?;
    let place = Place { url, upstream: &upstream, dir, runtime, settings };
    place.fill(sweep.rows)?;
    let mut measured: Vec<_> = settings.connections.iter().map(|of| Measured::new(store, *of)).collect();
    for repeat in 1..=settings.repeats {
        eprintln!("sweep: {store}, repeat {repeat} of {}", settings.repeats);
        for measured in &mut measured {
            measured.still.push(place.still(measured.connections)?);
            let (sample, swept) = place.sweeping(measured.connections)?;
            measured.sweeping.push(sample);
            measured.swept.push(swept);
        }
    }
    Ok(measured)
}

/// Where one store is measured.
struct Place<'a> {
    url: &'a str,
    upstream: &'a Upstream,
    dir: &'a Path,
    runtime: &'a Runtime,
    settings: &'a Settings,
}

impl Place<'_> {
    /// Fills the store with copies of a record that a gateway wrote.
    fn fill(&self, rows: u32) -> Result<()> {
        let first = self.gateways(1, STILL)?;
        load::place_new(first[0].address, 1, 1, self.settings.keys_kind)?;
        drop(first);
        eprintln!("sweep: {rows} records are made");
        self.runtime.block_on(expired::make(self.url, rows, Then::Buried));
        if !self.url.starts_with("sqlite:") {
            // What the fill left to be done is not the sweep's.
            for tidy_up in ["VACUUM ANALYZE onefold.operations", "CHECKPOINT"] {
                self.runtime.block_on(sql::execute(self.url, tidy_up));
            }
        }
        Ok(())
    }

    fn gateways(&self, number: usize, settings: &str) -> Result<Vec<Gateway>> {
        let start = |nth| {
            let own = self.dir.join(format!("gateway-{nth}"));
            std::fs::create_dir_all(&own)?;
            Gateway::start_on(self.url, settings, self.settings.onefold()?, self.upstream.address, &own)
        };
        (0..number).map(start).collect()
    }

    fn load(&self, gateways: &mut [Gateway], connections: u32) -> Result<Sample> {
        let new = Keys::New(self.settings.keys_kind);
        let measured = load::measure(gateways[0].address, connections, &new, self.settings);
        let sample = measured.with_context(|| format!("the gateway said: {}", gateways[0].said()))?;
        gateways.iter_mut().try_for_each(Gateway::check_running)?;
        Ok(sample)
    }

    /// The foreground while nobody sweeps.
    fn still(&self, connections: u32) -> Result<Sample> {
        let mut gateways = self.gateways(GATEWAYS, STILL)?;
        let before = self.due();
        let sample = self.load(&mut gateways, connections)?;
        ensure!(self.due() == before, "records were swept by nobody");
        Ok(sample)
    }

    /// The foreground while all gateways sweep, and how many records they sweep in a second beside it.
    fn sweeping(&self, connections: u32) -> Result<(Sample, f64)> {
        let before = self.due();
        let mut gateways = self.gateways(GATEWAYS, SWEEPING)?;
        let started = Instant::now();
        while self.due() == before {
            ensure!(started.elapsed() < BEGINS_WITHIN, "nothing was swept within {BEGINS_WITHIN:?}");
            std::thread::sleep(PAUSE);
        }
        let (from, begun) = (self.due(), Instant::now());
        let sample = self.load(&mut gateways, connections)?;
        let (left, lasted) = (self.due(), begun.elapsed());
        ensure!(left > 0, "everything was swept before the measurement was over: more --rows, please");
        Ok((sample, from.saturating_sub(left) as f64 / lasted.as_secs_f64()))
    }

    fn due(&self) -> u64 {
        self.runtime.block_on(expired::due(self.url))
    }
}

/// The samples of one store under one number of connections.
struct Measured {
    store: &'static str,
    connections: u32,
    still: Vec<Sample>,
    sweeping: Vec<Sample>,
    swept: Vec<f64>,
}

impl Measured {
    fn new(store: &'static str, connections: u32) -> Measured {
        Measured { store, connections, still: Vec::new(), sweeping: Vec::new(), swept: Vec::new() }
    }

    fn report(&self, report: &mut Report) {
        let named = |of: &str| format!("{}/{}/{of}", self.store, self.connections);
        let figure = |of: &str, samples: &[Sample], value: fn(&Sample) -> f64| {
            Figure::of(named(of), &samples.iter().map(value).collect::<Vec<_>>())
        };
        let ratio = |of: &str, value: fn(&Sample) -> f64| {
            let pairs = self.sweeping.iter().zip(&self.still);
            Figure::of(named(of), &pairs.map(|(one, other)| value(one) / value(other)).collect::<Vec<_>>())
        };
        let figures = [
            figure("still/per_s", &self.still, |sample| sample.per_s),
            figure("sweeping/per_s", &self.sweeping, |sample| sample.per_s),
            ratio("ratio", |sample| sample.per_s),
            figure("still/p99_ms", &self.still, |sample| sample.p99_ms),
            figure("sweeping/p99_ms", &self.sweeping, |sample| sample.p99_ms),
            ratio("p99_ratio", |sample| sample.p99_ms),
            Figure::of(named("swept_per_s"), &self.swept),
        ];
        let mut cells = vec![self.store.to_owned(), self.connections.to_string()];
        cells.extend(figures.iter().map(Figure::shown));
        report.row(cells, figures);
    }
}
