//! `gateway`: new operations and replays through the gateway, beside a plain nginx in front of the same service.
//!
//! For each number of connections nginx and the gateway are measured one right after the other, and the ratio is
//! taken of each such pair, so that it holds when the machine drifts. Each side has an upstream of its own, with
//! files of its own. A replay is compared with the new order that nginx would have let through in its place.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};

use crate::args::{KeysKind, Settings};
use crate::figure::{Figure, Goal};
use crate::keys::{KeyMaker, KeyText};
use crate::load::{self, Keys, Sample};
use crate::nginx::{self, Nginx};
use crate::proxied::Gateway;
use crate::report::Report;
use crate::upstream::{Service, Upstream};

/// Connections at which the goals are set.
const GOAL_CONNECTIONS: u32 = 64;
/// Finished operations among which replays choose.
const REPLAYED_KEYS: usize = 2000;
/// What the gateway is to reach, as a share of what nginx does with new orders.
const GOALS: [(Service, f64, f64); 2] = [(Service::Orders, 0.8, 2.0), (Service::Nothing, 0.3, 1.0)];

const HEADER: [&str; 10] = [
    "upstream",
    "connections",
    "what",
    "a second",
    "p50 ms",
    "p99 ms",
    "CPU µs each",
    "ratio to nginx",
    "goal",
    "met",
];

/// Measures and prints.
pub(crate) fn run(settings: &Settings) -> Result<Report> {
    let onefold = settings.onefold()?;
    let dir = settings.dir()?;
    let mut report = Report::new("gateway", 3, &HEADER);
    report.about(settings.told());
    report.about("upstream orders: one durable insert for each order; nothing: a server that only answers");
    report.about(format!(
        "replays: of {REPLAYED_KEYS} finished operations at random, beside nginx's new orders"
    ));
    let nginx = match nginx::find(&dir) {
        Ok(nginx) => Some(nginx),
        Err(error) => {
            report.skip(format!("nginx, and every ratio to it: {error:#}"));
            None
        }
    };
    let place = Place { onefold, nginx, dir: &dir };
    let mut measured: Vec<Measured> = GOALS
        .iter()
        .flat_map(|(service, ..)| settings.connections.iter().map(|n| Measured::new(*service, *n)))
        .collect();
    for repeat in 1..=settings.repeats {
        eprintln!("gateway: repeat {repeat} of {}", settings.repeats);
        for (service, ..) in GOALS {
            place.measure(service, &mut measured, settings)?;
        }
    }
    for measured in &measured {
        measured.report(&mut report);
    }
    report.print(settings.output);
    Ok(report)
}

/// What is needed to set up a pair.
struct Place<'a> {
    onefold: &'a Path,
    nginx: Option<PathBuf>,
    dir: &'a Path,
}

impl Place<'_> {
    /// One repeat for one service, with new processes and new files.
    fn measure(&self, service: Service, measured: &mut [Measured], settings: &Settings) -> Result<()> {
        let new_dir = || tempfile::tempdir_in(self.dir).context("make a folder");
        let (ours, theirs) = (new_dir()?, new_dir()?);
        let behind_nginx = Upstream::start(service, self.onefold, theirs.path())?;
        let nginx = match &self.nginx {
            Some(binary) => Some(Nginx::start(binary, behind_nginx.address, theirs.path())?),
            None => None,
        };
        let behind_gateway = Upstream::start(service, self.onefold, ours.path())?;
        let mut gateway = Gateway::start(self.onefold, behind_gateway.address, ours.path())?;
        let used = used_keys(settings.keys_kind);
        load::place_each(gateway.address, GOAL_CONNECTIONS, &used)?;
        let new = Keys::New(settings.keys_kind);
        for measured in measured.iter_mut().filter(|measured| measured.service == service) {
            let connections = measured.connections;
            if let Some(nginx) = &nginx {
                let sample = load::measure(nginx.address, connections, &new, settings)?;
                measured.nginx.push(Measure { sample, cpu_us: None });
            }
            measured.new.push(through(&gateway, connections, &new, settings)?);
            let replays = Keys::Used(used.clone());
            measured.replay.push(through(&gateway, connections, &replays, settings)?);
            gateway.check()?;
        }
        Ok(())
    }
}

/// One measurement through the gateway.
fn through(gateway: &Gateway, connections: u32, keys: &Keys, settings: &Settings) -> Result<Measure> {
    let before = gateway.cpu();
    let sample = load::measure(gateway.address, connections, keys, settings)?;
    let used = gateway.cpu().zip(before).map(|(after, before)| after.saturating_sub(before));
    let cpu_us = used.map(|used| used.as_secs_f64() * 1e6 / sample.answers as f64);
    Ok(Measure { sample, cpu_us })
}

/// What one measurement found, and the gateway's processor time for each answer.
#[derive(Clone, Copy)]
struct Measure {
    sample: Sample,
    cpu_us: Option<f64>,
}

fn used_keys(kind: KeysKind) -> Arc<[KeyText]> {
    let mut maker = KeyMaker::new(kind);
    (0..REPLAYED_KEYS).map(|_| maker.text()).collect()
}

/// The samples of one service under one number of connections.
struct Measured {
    service: Service,
    connections: u32,
    nginx: Vec<Measure>,
    new: Vec<Measure>,
    replay: Vec<Measure>,
}

impl Measured {
    fn new(service: Service, connections: u32) -> Measured {
        Measured { service, connections, nginx: Vec::new(), new: Vec::new(), replay: Vec::new() }
    }

    fn report(&self, report: &mut Report) {
        let goals = GOALS.iter().find(|(service, ..)| *service == self.service);
        let goal = |of: fn(&(Service, f64, f64)) -> f64| {
            let goals = goals.filter(|_| self.connections == GOAL_CONNECTIONS)?;
            Some(Goal::AtLeast(of(goals)))
        };
        self.row(report, "nginx, new", &self.nginx, None);
        self.row(report, "gateway, new", &self.new, goal(|goals| goals.1));
        self.row(report, "gateway, replay", &self.replay, goal(|goals| goals.2));
    }

    fn row(&self, report: &mut Report, what: &str, samples: &[Measure], goal: Option<Goal>) {
        if samples.is_empty() {
            return;
        }
        let name = |of: &str| {
            let what = what.replace(", ", "-");
            format!("{}/{}/{what}/{of}", self.service.name(), self.connections)
        };
        let figure = |of: &str, value: fn(&Sample) -> f64| {
            Figure::of(name(of), &samples.iter().map(|of| value(&of.sample)).collect::<Vec<_>>())
        };
        let mut figures = vec![
            figure("per_s", |sample| sample.per_s),
            figure("p50_ms", |sample| sample.p50_ms),
            figure("p99_ms", |sample| sample.p99_ms),
        ];
        let pairs = samples.iter().zip(&self.nginx);
        let ratios: Vec<f64> = pairs.map(|(ours, theirs)| ours.sample.per_s / theirs.sample.per_s).collect();
        let mut cells = vec![self.service.name().to_owned(), self.connections.to_string(), what.to_owned()];
        cells.extend(figures.iter().map(Figure::shown));
        let of_gateway = !what.starts_with("nginx");
        let cpu: Option<Vec<f64>> = samples.iter().map(|of| of.cpu_us).collect();
        let cpu = cpu.map(|cpu| Figure::of(name("cpu_us"), &cpu));
        let ratio = (of_gateway && !ratios.is_empty()).then(|| Figure::of(name("ratio"), &ratios).with(goal));
        cells.push(cpu.as_ref().map(Figure::shown).unwrap_or_default());
        cells.push(ratio.as_ref().map(Figure::shown).unwrap_or_default());
        cells.push(ratio.as_ref().map(Figure::goal).unwrap_or_default());
        cells.push(ratio.as_ref().map(Figure::met_in_words).unwrap_or_default().to_owned());
        figures.extend(cpu);
        figures.extend(ratio);
        report.row(cells, figures);
    }
}
