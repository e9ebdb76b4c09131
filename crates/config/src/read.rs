//! From text to settings: TOML with its places, section by section, and all mistakes at once.
//!
//! A value that cannot be read is reported and its default stands in, so that the rest is still looked at; no
//! settings come of it. Text that is not TOML is reported alone: what it says is a guess.

mod ask;
mod claims;
mod destination;
mod document;
mod gateway;
mod inbox;
mod operation;
mod operations;
mod report;
mod secret;

use std::collections::BTreeSet;

use toml::Spanned;
use toml::de::DeTable;

use crate::{ConfigError, Flags, Settings, StoreAccess, Upstream};
use document::Table;
use report::Report;

/// Looks up an environment variable.
pub(crate) type Environment<'e> = &'e dyn Fn(&str) -> Option<String>;

/// The settings of one file's text, overruled by flags.
pub(crate) fn read(
    text: &str,
    file: &str,
    flags: &Flags,
    environment: Environment<'_>,
) -> Result<Settings, ConfigError> {
    let report = Report::new(file, text);
    let Some(document) = document(text, &report) else { return Err(report.into_error()) };
    let root = Table::root(&report, &document);
    root.check_names();
    let (server, paths) = gateway::server(&root, flags);
    let store = gateway::store(&root, flags);
    let limits = gateway::limits(&root);
    let upstream = gateway::upstream(&root, flags, server.listen);
    let encryption = gateway::encryption(&root, environment);
    let claims = claims::read(&root, environment);
    let inbox = inbox::read(&root, upstream.as_ref(), environment);
    let destinations = destination::read(&root, environment);
    let timeout = upstream.as_ref().map_or(Upstream::TIMEOUT, |upstream| upstream.timeout);
    let (defaults, operations) = operations::read(&root, &server, &claims, &paths, timeout);
    if !report.is_clean() {
        return Err(report.into_error());
    }
    let warnings = report.into_warnings();
    Ok(Settings {
        server,
        store,
        limits,
        upstream,
        claims,
        operations,
        defaults,
        inbox,
        destinations,
        encryption,
        paths,
        warnings,
    })
}

/// Where the store is and what opens it, of one file's text. Other sections are looked at for unknown names alone, so
/// no secret of theirs is asked for.
pub(crate) fn read_store(
    text: &str,
    file: &str,
    environment: Environment<'_>,
) -> Result<StoreAccess, ConfigError> {
    let report = Report::new(file, text);
    let Some(document) = document(text, &report) else { return Err(report.into_error()) };
    let root = Table::root(&report, &document);
    root.check_names();
    let store = gateway::store(&root, &Flags::default());
    let encryption = gateway::encryption(&root, environment);
    if report.is_clean() { Ok(StoreAccess { store, encryption }) } else { Err(report.into_error()) }
}

/// The document of a text that is TOML; otherwise that is reported.
fn document<'t>(text: &'t str, report: &Report<'_>) -> Option<Spanned<DeTable<'t>>> {
    let (document, errors) = DeTable::parse_recoverable(text);
    if errors.is_empty() {
        return Some(document);
    }
    // Recovery repeats itself: one error for each line is enough.
    let mut lines = BTreeSet::new();
    for error in errors {
        let at = error.span().map_or(text.len(), |span| span.start);
        if lines.insert(report.line(at)) {
            report.mistake(at, "", format!("not valid TOML: {}", error.message().replace('\n', ", ")));
        }
    }
    None
}

#[cfg(test)]
mod tests;
