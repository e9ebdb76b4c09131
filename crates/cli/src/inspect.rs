//! `onefold store check`, `stats` and `sweep`: looking after a store beside the running gateways.

use std::process::ExitCode;

use onefold_config::StoreUrl;
use onefold_store::{Finding, Gravity, Inventory, StoreError, Swept};
use onefold_store_postgres::PostgresStore;
use serde_json::json;

use crate::args::{Common, Output};
use crate::exit::Failure;
use crate::store::{Place, Store, address};

/// Records that one call of the sweeper may touch; it is called until nothing is left.
const SWEEP_LIMIT: u32 = 1000;

/// `onefold store check`
pub(crate) async fn check(common: &Common) -> Result<ExitCode, Failure> {
    let place = Place::of(common)?;
    let findings = match &place.url {
        StoreUrl::Postgres(url) => {
            let mut findings = PostgresStore::check(&address(url)?)
                .await
                .map_err(|error| Failure::unavailable(error.to_string()))?;
            // Whether the keys open it shows only when it is opened.
            if findings.iter().all(|finding| finding.gravity != Gravity::Failure) {
                findings.push(match place.open_existing().await {
                    Ok(_) => Finding::new("keys", Gravity::Fine, "the configured keys open the store"),
                    Err(failure) => Finding::new("keys", Gravity::Failure, failure.message()),
                });
            }
            findings
        }
        StoreUrl::Sqlite(_) => match place.open_existing().await? {
            Store::Sqlite(store) => store.check().await.map_err(unavailable)?,
            Store::Postgres(_) => unreachable!("the address is a file's"),
        },
    };
    show_findings(common.output, &findings);
    match findings.iter().filter(|finding| finding.gravity == Gravity::Failure).count() {
        0 => Ok(ExitCode::SUCCESS),
        failures => Err(Failure::unavailable(format!("{failures} of {} checks failed", findings.len()))),
    }
}

/// `onefold store stats`
pub(crate) async fn stats(common: &Common) -> Result<ExitCode, Failure> {
    let store = Place::of(common)?.open_existing().await?;
    let inventory = match &store {
        Store::Sqlite(store) => store.inventory().await,
        Store::Postgres(store) => store.inventory().await,
    };
    show_inventory(common.output, &inventory.map_err(unavailable)?);
    Ok(ExitCode::SUCCESS)
}

/// `onefold store sweep`
pub(crate) async fn sweep(common: &Common) -> Result<ExitCode, Failure> {
    let store = Place::of(common)?.open_existing().await?.operations();
    let mut lost = 0;
    loop {
        match store.lose_stale(SWEEP_LIMIT).await.map_err(unavailable)? {
            0 => break,
            more => lost += more,
        }
    }
    let mut swept = Swept::default();
    loop {
        let more = store.sweep(SWEEP_LIMIT).await.map_err(unavailable)?;
        if more == Swept::default() {
            break;
        }
        swept.tombstones += more.tombstones;
        swept.deleted += more.deleted;
    }
    let lag = store.survey().await.map_err(unavailable)?.sweep_lag;
    match common.output {
        Output::Json => println!(
            "{}",
            json!({"lost": lost, "tombstones": swept.tombstones, "deleted": swept.deleted,
                "sweep_lag_ms": millis(lag)})
        ),
        Output::Text => {
            println!("outcomes marked as unknown  {lost}");
            println!("records become tombstones   {}", swept.tombstones);
            println!("tombstones deleted          {}", swept.deleted);
            if !lag.is_zero() {
                println!("records are still due: another sweeps at the same time");
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn show_findings(output: Output, findings: &[Finding]) {
    let word = |gravity| match gravity {
        Gravity::Fine => "ok",
        Gravity::Warning => "warning",
        Gravity::Failure => "failure",
    };
    match output {
        Output::Json => {
            let findings = findings.iter().map(|finding| {
                json!({"check": finding.what, "result": word(finding.gravity), "says": finding.says})
            });
            println!("{}", json!({ "checks": findings.collect::<Vec<_>>() }));
        }
        Output::Text => {
            for finding in findings {
                println!("{:<8} {:<13} {}", word(finding.gravity), finding.what, finding.says);
            }
        }
    }
}

fn show_inventory(output: Output, inventory: &Inventory) {
    let survey = &inventory.survey;
    match output {
        Output::Json => {
            let records: serde_json::Map<_, _> =
                inventory.by_state.iter().map(|(state, n)| (state.to_string(), json!(n))).collect();
            let bytes: serde_json::Map<_, _> =
                inventory.bytes_by_table.iter().map(|(table, n)| (table.clone(), json!(n))).collect();
            println!(
                "{}",
                json!({"records": records, "tombstones": inventory.tombstones, "bytes": bytes,
                    "unknown_oldest_ms": survey.unknown_oldest.map(millis), "sweep_lag_ms": millis(survey.sweep_lag)})
            );
        }
        Output::Text => {
            for (state, records) in &inventory.by_state {
                println!("{:<28} {records:>14}", state.to_string());
            }
            println!("{:<28} {:>14}", "tombstones", inventory.tombstones);
            for (table, bytes) in &inventory.bytes_by_table {
                println!("{:<28} {bytes:>14} bytes", table);
            }
            let oldest =
                survey.unknown_oldest.map_or_else(|| "-".to_owned(), |age| format!("{} s", age.as_secs()));
            println!("{:<28} {oldest:>14}", "oldest unknown outcome");
            println!("{:<28} {:>12} s", "sweeper is behind by", survey.sweep_lag.as_secs());
        }
    }
}

fn millis(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn unavailable(error: StoreError) -> Failure {
    Failure::unavailable(error.to_string())
}
