//! `onefold store check`, `stats` and `sweep`: looking after a store beside the running gateways.

use std::process::ExitCode;

use onefold_config::StoreUrl;
use onefold_store::{Finding, Gravity, Inventory, StoreError, Swept};
use onefold_store_postgres::PostgresStore;
use serde_json::json;

use crate::args::{Common, Output};
use crate::exit::Failure;
use crate::out::print;
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
    print(told(common.output, &findings))?;
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
    print(counted(common.output, &inventory.map_err(unavailable)?))?;
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
    let said = match common.output {
        Output::Json => json!({"lost": lost, "tombstones": swept.tombstones, "deleted": swept.deleted,
            "sweep_lag_ms": millis(lag)})
        .to_string(),
        Output::Text => {
            let mut lines = vec![
                format!("outcomes marked as unknown  {lost}"),
                format!("records become tombstones   {}", swept.tombstones),
                format!("tombstones deleted          {}", swept.deleted),
            ];
            if !lag.is_zero() {
                lines.push("records are still due: another sweeps at the same time".into());
            }
            lines.join("\n")
        }
    };
    print(said)?;
    Ok(ExitCode::SUCCESS)
}

fn told(output: Output, findings: &[Finding]) -> String {
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
            json!({ "checks": findings.collect::<Vec<_>>() }).to_string()
        }
        Output::Text => {
            let line = |finding: &Finding| {
                format!("{:<8} {:<13} {}", word(finding.gravity), finding.what, finding.says)
            };
            findings.iter().map(line).collect::<Vec<_>>().join("\n")
        }
    }
}

fn counted(output: Output, inventory: &Inventory) -> String {
    let survey = &inventory.survey;
    match output {
        Output::Json => {
            let records: serde_json::Map<_, _> =
                inventory.by_state.iter().map(|(state, n)| (state.to_string(), json!(n))).collect();
            let bytes: serde_json::Map<_, _> =
                inventory.bytes_by_table.iter().map(|(table, n)| (table.clone(), json!(n))).collect();
            json!({"records": records, "tombstones": inventory.tombstones, "bytes": bytes,
                "unknown_oldest_ms": survey.unknown_oldest.map(millis), "sweep_lag_ms": millis(survey.sweep_lag)})
            .to_string()
        }
        Output::Text => {
            let line = |name: &str, value: String| format!("{name:<28} {value:>20}");
            let mut lines = Vec::new();
            lines.extend(inventory.by_state.iter().map(|(state, n)| line(&state.to_string(), n.to_string())));
            lines.push(line("tombstones", inventory.tombstones.to_string()));
            let bytes = inventory.bytes_by_table.iter();
            lines.extend(bytes.map(|(table, bytes)| line(table, format!("{bytes} bytes"))));
            let oldest =
                survey.unknown_oldest.map_or_else(|| "none".into(), |age| format!("{} s", age.as_secs()));
            lines.push(line("oldest unknown outcome", oldest));
            lines.push(line("sweeper is behind by", format!("{} s", survey.sweep_lag.as_secs())));
            lines.join("\n")
        }
    }
}

fn millis(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn unavailable(error: StoreError) -> Failure {
    Failure::unavailable(error.to_string())
}
