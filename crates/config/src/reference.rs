//! The reference of all settings: one table from which names are checked and `docs/configuration.md` is written.
//!
//! A setting that is not in the table is unknown; one that is in it is read, which a test holds.

mod destination;
mod inbox;
mod operation;
mod sections;

use std::fmt::Write;

/// One top-level table of the file.
pub(crate) struct Section {
    /// Its name, as in `[name]`.
    pub(crate) name: &'static str,
    /// Whether it may stand several times, as `[[name]]`.
    pub(crate) repeats: Repeats,
    /// What it is about.
    pub(crate) says: &'static str,
    /// Its settings; those of a table within it have dotted names.
    pub(crate) settings: &'static [Setting],
}

/// How often a section may stand in a file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Repeats {
    Once,
    Often,
}

/// One setting.
pub(crate) struct Setting {
    /// Its name within the section.
    pub(crate) name: &'static str,
    /// What may be written.
    pub(crate) value: &'static str,
    /// What holds where nothing is written.
    pub(crate) default: Preset,
    /// One sentence.
    pub(crate) says: &'static str,
}

/// What holds where nothing is written.
#[derive(Clone, Copy)]
pub(crate) enum Preset {
    /// This, as it would be written.
    Is(&'static str),
    /// This, in words.
    Means(&'static str),
    /// It must be written.
    Required,
}

/// Names of the interface that a later release reads: refused, but not as unknown.
const LATER: &[(&str, &str)] = &[("", "admin"), ("operation", "subject"), ("operation", "audit_replays")];

/// The settings of `[[operation]]` that cannot have a default for all.
const NOT_IN_DEFAULTS: &[&str] = &["name", "match"];

/// The names that a table may have, in the order of the reference. `table` is dotted, without indexes: empty for the
/// file itself, `operation.key` for a table within one.
pub(crate) fn names(table: &str) -> Vec<&'static str> {
    if table.is_empty() {
        return sections::ALL.iter().map(|section| section.name).collect();
    }
    let (section, inner) = table.split_once('.').unwrap_or((table, ""));
    let listed = if section == "defaults" { "operation" } else { section };
    let Some(listed) = sections::ALL.iter().find(|section| section.name == listed) else { return Vec::new() };
    let mut names = Vec::new();
    for setting in listed.settings {
        let rest = match inner {
            "" => Some(setting.name),
            inner => setting.name.strip_prefix(inner).and_then(|rest| rest.strip_prefix('.')),
        };
        let Some(name) = rest.and_then(|rest| rest.split('.').next()) else { continue };
        let is_for_one = table == "defaults" && NOT_IN_DEFAULTS.contains(&name);
        if !is_for_one && !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// Whether a later release reads this name in this table.
pub(crate) fn comes_later(table: &str, name: &str) -> bool {
    let table = match table.strip_prefix("defaults") {
        Some(rest) if rest.is_empty() || rest.starts_with('.') => format!("operation{rest}"),
        _ => table.to_owned(),
    };
    LATER.contains(&(&table, name))
}

/// The page `docs/configuration.md`.
pub fn reference() -> String {
    let mut page = sections::INTRODUCTION.to_owned();
    for section in sections::ALL {
        let heading = match section.repeats {
            Repeats::Once => format!("[{}]", section.name),
            Repeats::Often => format!("[[{}]]", section.name),
        };
        let _ = write!(page, "\n## `{heading}`\n\n{}\n", section.says);
        if section.settings.is_empty() {
            continue;
        }
        page.push_str("\n| setting | value | default | what it says |\n| --- | --- | --- | --- |\n");
        for Setting { name, value, default, says } in section.settings {
            let default = match default {
                Preset::Is(default) => format!("`{default}`"),
                Preset::Means(words) => (*words).to_owned(),
                Preset::Required => "required".to_owned(),
            };
            let _ = writeln!(page, "| `{name}` | {value} | {default} | {says} |");
        }
    }
    let _ = write!(page, "\n## Example\n\n```toml\n{EXAMPLE}```\n");
    page
}

/// A file that says everything once.
pub(crate) const EXAMPLE: &str = include_str!("reference/example.toml");

#[cfg(test)]
mod tests;
