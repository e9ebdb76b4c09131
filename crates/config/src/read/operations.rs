//! All operations together: `[defaults]`, each `[[operation]]`, and what cannot stand beside another.

use std::time::Duration;

use onefold_core::Contract;
use onefold_core::contract::{ScopeSource, Severity};
use onefold_core::reconcile::Fence;

use super::document::Table;
use super::gateway::required;
use super::operation::apply;
use crate::kind::{METHOD, OPERATION_NAME, PATH};
use crate::{Claims, Match, Operation, Paths, Server};

/// What is promised for an operation that no contract names.
const BOUNDARY_UNNAMED: &str = "one effect for each key";

/// The contract of `[defaults]`, and the operations in order.
pub(super) fn read(
    root: &Table<'_>,
    server: &Server,
    claims: &Claims,
    paths: &Paths,
    upstream_timeout: Duration,
) -> (Contract, Vec<Operation>) {
    let defaults_table = root.table("defaults");
    let defaults_table = defaults_table.as_ref();
    let mut defaults = Contract::new("", "");
    if let Some(table) = defaults_table {
        apply(table, &mut defaults);
    }
    let mut read: Vec<(Table<'_>, Operation)> = Vec::new();
    for table in root.tables("operation") {
        let mut contract = defaults.clone();
        apply(&table, &mut contract);
        let name = required(&table, "name", "\"CreateOrder\"", &OPERATION_NAME);
        let matcher = matcher(&table);
        let place = Place { table: &table, defaults: defaults_table };
        check_contract(&contract, place);
        check_sources(&contract, place, server, claims);
        check_window(&contract, place, upstream_timeout);
        if let Some(matcher) = &matcher {
            check_path_parts(&contract, matcher, place);
        }
        let (Some(name), Some(matcher)) = (name, matcher) else { continue };
        contract.operation = name;
        let operation = Operation { contract, matcher };
        check_beside(&operation, &table, &read);
        check_own_paths(&operation, &table, paths);
        read.push((table, operation));
    }
    if defaults.boundary.is_empty() {
        defaults.boundary = BOUNDARY_UNNAMED.to_owned();
    }
    if let Some(table) = defaults_table {
        let place = Place { table, defaults: None };
        check_contract(&defaults, place);
        check_sources(&defaults, place, server, claims);
        check_window(&defaults, place, upstream_timeout);
        if let Some(value) = table.get("reconcile").filter(|_| root.get("operation").is_none()) {
            let message = "there is no [[operation]], so every path is an operation of its own, and one look-up cannot know them all; write an [[operation]]";
            table.report.mistake(value.at, &value.field, message);
        }
    }
    (defaults, read.into_iter().map(|(_, operation)| operation).collect())
}

/// Where a contract was written.
#[derive(Clone, Copy)]
struct Place<'p> {
    table: &'p Table<'p>,
    defaults: Option<&'p Table<'p>>,
}

impl Place<'_> {
    /// Offset and field of a setting: in the operation, else in `[defaults]`, else of the operation that lacks it.
    fn of(&self, setting: &str) -> (usize, String) {
        let written = self.table.get(setting).or_else(|| self.defaults?.get(setting));
        written.map_or_else(|| (self.table.at, self.table.field_of(setting)), |value| (value.at, value.field))
    }
}

fn matcher(table: &Table<'_>) -> Option<Match> {
    if table.get("match").is_none() {
        let message = "required; write match = { method = \"POST\", path = \"/orders\" }";
        table.report.mistake(table.at, &table.field_of("match"), message);
    }
    let table = table.table("match")?;
    let method = required(&table, "method", "\"POST\"", &METHOD);
    let path = required(&table, "path", "\"/orders\"", &PATH);
    Some(Match { method: method?, path: path? })
}

/// What the contract itself says of its safety.
fn check_contract(contract: &Contract, place: Place<'_>) {
    let report = place.table.report;
    for finding in contract.check() {
        let (at, field) = place.of(finding.setting);
        match finding.severity {
            // A default stands in for what could not be read: a finding about it would be no news.
            _ if report.has_mistake(&field) => {}
            Severity::Refused => report.mistake(at, &field, finding.message),
            Severity::Warning => report.warning(at, &field, finding.message),
        }
    }
}

/// What the scope needs beside the request: trusted proxies for a header, keys for a claim.
fn check_sources(contract: &Contract, place: Place<'_>, server: &Server, claims: &Claims) {
    let report = place.table.report;
    if report.has_mistake(&place.table.field_of("scope")) {
        return;
    }
    let needs = contract.scope.iter().find_map(|part| match part {
        ScopeSource::Header(name)
            if server.trusted_proxies.is_empty() && !report.has_mistake("server.trusted_proxies") =>
        {
            Some(format!(
                "header:{name} comes from trusted proxies only, and there is none; name them in server.trusted_proxies"
            ))
        }
        ScopeSource::Claim(name) if claims.keys.is_empty() && !report.has_mistake("claims") => Some(format!(
            "claim:{name} counts in a token whose signature verifies, and there is no key; name one in claims.keys"
        )),
        _ => None,
    });
    if let Some(message) = needs {
        let (at, field) = place.of("scope");
        report.mistake(at, &field, message);
    }
}

/// An answer may take as long as the upstream's time-out, so what was sent is not settled sooner.
fn check_window(contract: &Contract, place: Place<'_>, upstream_timeout: Duration) {
    let fence = contract.reconcile.as_ref().and_then(|look_up| look_up.fence);
    let Some(Fence::Settled { window }) = fence else { return };
    if window < upstream_timeout {
        let (at, field) = place.of("reconcile");
        let message = format!(
            "the window, {window:?}, is shorter than upstream.timeout, {upstream_timeout:?}: by that the upstream may still be at work on the request"
        );
        place.table.report.mistake(at, &field, message);
    }
}

/// Every `path:NAME` of the scope is a named segment of the path.
fn check_path_parts(contract: &Contract, matcher: &Match, place: Place<'_>) {
    if place.table.report.has_mistake(&place.table.field_of("scope")) {
        return;
    }
    for part in &contract.scope {
        let ScopeSource::Path(name) = part else { continue };
        if matcher.path.names().any(|segment| segment == name) {
            continue;
        }
        let names: Vec<String> = matcher.path.names().map(|name| format!("path:{name}")).collect();
        let allowed = if names.is_empty() {
            "it names none".to_owned()
        } else {
            format!("allowed: {}", names.join(", "))
        };
        let (at, field) = place.of("scope");
        let message = format!("path:{name} is no named segment of {}; {allowed}", matcher.path);
        place.table.report.mistake(at, &field, message);
    }
}

/// Names are given once, and nothing stands behind what matches all of it.
fn check_beside(operation: &Operation, table: &Table<'_>, before: &[(Table<'_>, Operation)]) {
    let report = table.report;
    let refuse = |name: &str, message: String| {
        let at = table.get(name).map_or(table.at, |value| value.at);
        report.mistake(at, &table.field_of(name), message);
    };
    let Operation { contract, matcher } = operation;
    if let Some((first, _)) = before.iter().find(|(_, other)| other.contract.operation == contract.operation)
    {
        let name = &contract.operation;
        refuse("name", format!("{name:?} is the name of {} already; write another", first.field));
    }
    let shadow = before.iter().find(|(_, other)| {
        other.matcher.method == matcher.method && other.matcher.path.covers(&matcher.path)
    });
    if let Some((first, other)) = shadow {
        let Match { method, path } = &other.matcher;
        let or_first = if matcher.path.covers(path) { "" } else { ", or put this operation first" };
        let message = format!(
            "{} never matches: {method} {path} of {} takes its requests; write another match{or_first}",
            table.field, first.field
        );
        refuse("match", message);
    }
}

/// The gateway answers some paths itself, so the upstream's answers there are out of reach.
fn check_own_paths(operation: &Operation, table: &Table<'_>, paths: &Paths) {
    for (own, setting) in [(&paths.operations, "operations_path"), (&paths.policy, "policy_path")] {
        if operation.matcher.path.reaches(own) {
            let at = table.get("match").map_or(table.at, |value| value.at);
            let message =
                format!("GET {own} is answered by the gateway itself; move it with server.{setting}");
            table.report.warning(at, &table.field_of("match"), message);
        }
    }
}
