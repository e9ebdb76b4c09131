//! The settings of whom a gateway asks: `reconcile` and `authorize`.

use std::time::Duration;

use onefold_core::contract::{Authorize, LookUp, StatusPattern};
use onefold_core::reconcile::Fence;

use super::document::Table;
use super::gateway::required;
use crate::kind::{LOOK_UP_URL, SERVICE_URL, STATUS};
use crate::quantity::SPAN;

/// How long an authorizer may take unless the file says otherwise.
const AUTHORIZE_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, PartialEq)]
enum FenceName {
    Tombstoned,
    SameKey,
    Settled,
}

const FENCE: &[(&str, FenceName)] = &[
    ("tombstoned", FenceName::Tombstoned),
    ("same_key", FenceName::SameKey),
    ("settled", FenceName::Settled),
];

pub(super) fn reconcile(table: &Table<'_>) -> Option<LookUp> {
    let get = required(table, "get", "\"http://127.0.0.1:3000/orders?key={{key}}\"", &LOOK_UP_URL);
    if table.get("happened").is_none() {
        table.report.mistake(table.at, &table.field_of("happened"), "required; write happened = \"200\"");
    }
    let happened = statuses(table, "happened");
    let did_not_happen = match table.get("did_not_happen") {
        Some(_) => statuses(table, "did_not_happen")?,
        None => Vec::new(),
    };
    let fence = fence(table);
    let (get, happened) = (get?, happened?);
    if let Some(both) = did_not_happen.iter().find(|status| happened.contains(status)) {
        let value = table.get("did_not_happen")?;
        return value.refuse(format!("{both} stands in happened too; one status says one thing"));
    }
    if did_not_happen.is_empty() && table.get("fence").is_some() {
        return table
            .get("fence")?
            .refuse("no answer says that it did not happen; name one in did_not_happen");
    }
    Some(LookUp { get, happened, did_not_happen, fence })
}

/// One status, or a list of them.
fn statuses(table: &Table<'_>, name: &str) -> Option<Vec<StatusPattern>> {
    let value = table.get(name)?;
    match value.value.is_array() {
        true => value.texts(&STATUS),
        false => value.text(&STATUS).map(|status| vec![status]),
    }
}

fn fence(table: &Table<'_>) -> Option<Fence> {
    let name = table.choice("fence", FENCE);
    let window = table.text("window", &SPAN);
    if table.get("window").is_some() && name != Some(FenceName::Settled) {
        return table.get("window")?.refuse("only the fence \"settled\" has a window");
    }
    match (name?, window) {
        (FenceName::Tombstoned, _) => Some(Fence::Tombstoned),
        (FenceName::SameKey, _) => Some(Fence::SameKey),
        (FenceName::Settled, Some(window)) => Some(Fence::Settled { window }),
        (FenceName::Settled, None) => {
            if table.get("window").is_none() {
                let message = "required by the fence \"settled\"; write window = \"30s\"";
                table.report.mistake(table.at, &table.field_of("window"), message);
            }
            None
        }
    }
}

pub(super) fn authorize(table: &Table<'_>) -> Option<Authorize> {
    let url = required(table, "url", "\"http://127.0.0.1:3000/auth\"", &SERVICE_URL);
    let timeout = table.text("timeout", &SPAN).unwrap_or(AUTHORIZE_TIMEOUT);
    Some(Authorize { url: url?, timeout })
}
