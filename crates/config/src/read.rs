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

use toml::de::DeTable;

use crate::{ConfigError, Flags, Settings, Upstream};
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
    let (document, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        // Recovery repeats itself: one error for each line is enough.
        let mut lines = BTreeSet::new();
        for error in errors {
            let at = error.span().map_or(text.len(), |span| span.start);
            if lines.insert(report.line(at)) {
                report.mistake(at, "", format!("not valid TOML: {}", error.message().replace('\n', ", ")));
            }
        }
        return Err(report.into_error());
    }
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

#[cfg(test)]
mod tests;
