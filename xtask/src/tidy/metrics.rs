//! Every metric is documented in `docs/metrics.md`, and every metric documented there exists.
//!
//! A metric is what a crate registers with `prometheus_client` under a literal name; its exported name is the
//! prefix of the registry made in that file (else `onefold`), the name and the unit. Counters end in `_total`, which
//! text cannot tell: the page may say the name with or without it.

use std::collections::BTreeSet;

use super::Finding;
use crate::repository::Repository;

const PAGE: &str = "docs/metrics.md";
const PREFIX: &str = "onefold_";

pub fn check(repository: &Repository) -> Vec<Finding> {
    let page = repository.file(PAGE).map_or("", |page| page.text.as_str());
    let documented: BTreeSet<&str> = words(page).map(without_total).collect();
    let mut registered = BTreeSet::new();
    let mut findings = Vec::new();
    let sources = repository.ending(".rs").filter(|file| file.path.starts_with("crates/"));
    for file in sources {
        for name in exported(&file.text) {
            if !documented.contains(without_total(&name)) {
                findings.push(Finding::file(&file.path, format!("{name} is not in {PAGE}")));
            }
            registered.insert(without_total(&name).to_owned());
        }
    }
    for name in documented.into_iter().filter(|name| !registered.contains(*name)) {
        findings.push(Finding::file(PAGE, format!("no crate registers {name}")));
    }
    findings
}

/// The names of metrics in a page.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    words.filter(|word| word.len() > PREFIX.len() && word.starts_with(PREFIX))
}

fn without_total(name: &str) -> &str {
    name.strip_suffix("_total").unwrap_or(name)
}

/// The names under which this file's metrics are exported, without `_total`.
fn exported(text: &str) -> Vec<String> {
    let code = text.split("#[cfg(test)]").next().unwrap_or_default();
    if !code.contains("prometheus_client") {
        return Vec::new();
    }
    let prefix = after(code, "with_prefix(").find_map(literal).unwrap_or("onefold");
    let plain = after(code, ".register(").filter_map(literal).map(|name| (name, None));
    let with_unit = after(code, ".register_with_unit(").filter_map(|rest| Some((literal(rest)?, unit(rest))));
    plain
        .chain(with_unit)
        .map(|(name, unit)| {
            let name = if name.starts_with(PREFIX) { name.into() } else { format!("{prefix}_{name}") };
            unit.map_or(name.clone(), |unit| format!("{name}_{unit}"))
        })
        .collect()
}

/// What follows each call.
fn after<'a>(code: &'a str, call: &str) -> impl Iterator<Item = &'a str> {
    code.match_indices(call).map(|(at, call)| &code[at + call.len()..])
}

/// The literal with which the arguments open.
fn literal(arguments: &str) -> Option<&str> {
    arguments.trim_start().strip_prefix('"')?.split('"').next()
}

/// `Unit::Seconds` as it is exported.
fn unit(arguments: &str) -> Option<String> {
    let call = arguments.split(';').next()?;
    let (_, unit) = call.split_once("Unit::")?;
    let unit = unit.split(|c: char| !c.is_alphanumeric()).next()?;
    Some(unit.to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: (&str, &str) = (
        "crates/engine/src/signals.rs",
        "use prometheus_client::registry::Unit;\nlet registry = registry.sub_registry_with_prefix(\"onefold\");\n\
         registry.register(\"replays\", \"Replays\", r);\nregistry.register_with_unit(\n  \"oldest_age\",\n  \"Age\",\n  \
         Unit::Seconds,\n  a,\n);\n#[cfg(test)]\nregistry.register(\"only_in_tests\", \"\", t);\n",
    );

    fn texts(files: &[(&str, &str)]) -> Vec<String> {
        check(&Repository::sample(files)).into_iter().map(|finding| finding.text).collect()
    }

    #[test]
    fn a_metric_that_the_page_does_not_name_fails() {
        let found = texts(&[SOURCE, (PAGE, "`onefold_replays_total`: … `onefold_oldest_age`\n")]);
        assert_eq!(
            found,
            ["onefold_oldest_age_seconds is not in docs/metrics.md", "no crate registers onefold_oldest_age"]
        );
        assert_eq!(texts(&[SOURCE]).len(), 2, "no page at all");
    }

    #[test]
    fn a_metric_that_no_crate_registers_fails() {
        let page = "onefold_replays_total onefold_oldest_age_seconds onefold_gone_total";
        assert_eq!(texts(&[SOURCE, (PAGE, page)]), ["no crate registers onefold_gone"]);
    }

    #[test]
    fn a_page_with_every_metric_and_its_prefix_passes() {
        let page = "Prefix `onefold_`. | `onefold_replays_total` | `onefold_oldest_age_seconds` |";
        assert_eq!(texts(&[SOURCE, (PAGE, page)]), [""; 0]);
        let other = ("crates/core/src/lib.rs", "registry.register(\"no_metric\", x);\n");
        assert_eq!(texts(&[other]), [""; 0]);
    }
}
