//! `memory`: resident memory of the gateway while a million distinct keys go through it.
//!
//! The upstream does nothing, so that nothing but the gateway's own keeping counts. Memory is read from /proc when a
//! tenth, a half and all of the keys are through; the goal is for the highest that the system has seen, which also
//! holds between the readings.

use anyhow::{Context, Result};

use crate::args::Settings;
use crate::figure::{Figure, Goal};
use crate::load;
use crate::proxied::Gateway;
use crate::report::Report;
use crate::upstream::{Service, Upstream};

/// Connections through which the keys come.
const CONNECTIONS: u32 = 64;
/// Resident memory that the gateway is to stay within, in MiB.
const RESIDENT_MIB_MAX: f64 = 150.0;
/// At which shares of the keys memory is read, in percent.
const READINGS: [u64; 3] = [10, 50, 100];

const HEADER: [&str; 5] = ["after", "keys", "resident MiB", "goal", "met"];

/// Measures and prints.
pub(crate) fn run(settings: &Settings, keys: u64) -> Result<Report> {
    let onefold = settings.onefold()?;
    let dir = settings.dir()?;
    let dir = tempfile::tempdir_in(&dir).context("make a folder")?;
    let upstream = Upstream::start(Service::Nothing, onefold, dir.path())?;
    let mut gateway = Gateway::start(onefold, upstream.address, dir.path())?;
    let mut report = Report::new("memory", 1, &HEADER);
    report.about(format!(
        "{keys} distinct keys over {CONNECTIONS} connections, once; {}",
        settings.keys_kind.told()
    ));
    let mut placed = 0;
    for percent in READINGS {
        let until = keys * percent / 100;
        load::place_new(gateway.address, CONNECTIONS, until - placed, settings.keys_kind)?;
        placed = until;
        let figure = Figure::of(format!("resident_mib/{percent}_percent"), &[gateway.resident()?.now]);
        eprintln!("memory: {placed} keys, {} MiB", figure.shown());
        report.row(cells(&format!("{percent} %"), placed, &figure), [figure]);
    }
    gateway.check()?;
    let highest = Figure::of("resident_mib/highest", &[gateway.resident()?.highest])
        .with(Some(Goal::AtMost(RESIDENT_MIB_MAX)));
    report.row(cells("highest of all", placed, &highest), [highest]);
    report.print(settings.output);
    Ok(report)
}

fn cells(after: &str, keys: u64, figure: &Figure) -> Vec<String> {
    vec![after.to_owned(), keys.to_string(), figure.shown(), figure.goal(), figure.met_in_words().to_owned()]
}
