//! `audit`: what may come into the build, by `audit.toml`.
//!
//! Every package of the committed lock file, those of other platforms included, has a licence that the allow list
//! satisfies and comes from crates.io or from this workspace; no crate and no feature is in the build that is
//! banned. Crates that are there in several versions are listed, not refused. Known vulnerabilities are not looked
//! up: that needs a database which this tool does not have.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail};
use serde_json::Value;
use spdx::{Expression, Licensee, ParseMode};

use crate::cargo;

/// What cargo calls crates.io.
const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Runs the verb.
pub fn run() -> Result<()> {
    let policy = std::fs::read_to_string(cargo::root().join("audit.toml")).context("audit.toml")?;
    let policy = Policy::read(&policy)?;
    let packages = packages(&cargo::metadata()?)?;
    println!("{} packages", packages.len());
    for line in several_versions(&packages) {
        println!("in several versions: {line}");
    }
    for licence in policy.unused(&packages) {
        println!("allowed, but nothing needs it: {licence}");
    }
    let findings: Vec<String> = packages.iter().flat_map(|package| policy.findings(package)).collect();
    for finding in &findings {
        println!("{finding}");
    }
    if !findings.is_empty() {
        bail!("{} findings", findings.len());
    }
    Ok(())
}

/// One package of the build.
#[derive(Default)]
struct Package {
    name: String,
    version: String,
    licence: Option<String>,
    source: Option<String>,
    in_workspace: bool,
    features: Vec<String>,
}

fn packages(metadata: &Value) -> Result<Vec<Package>> {
    let root = metadata["workspace_root"].as_str().context("cargo metadata names no workspace")?;
    let nodes = metadata["resolve"]["nodes"].as_array().context("cargo metadata resolved nothing")?;
    let features: BTreeMap<&str, Vec<String>> =
        nodes.iter().filter_map(|node| Some((node["id"].as_str()?, strings(&node["features"])))).collect();
    let packages = metadata["packages"].as_array().context("cargo metadata lists no package")?;
    packages
        .iter()
        .map(|package| {
            let text = |name: &str| package[name].as_str().map(str::to_owned);
            let id = package["id"].as_str().context("a package without id")?;
            Ok(Package {
                name: text("name").context("a package without name")?,
                version: text("version").context("a package without version")?,
                licence: text("license"),
                source: text("source"),
                in_workspace: text("manifest_path")
                    .is_some_and(|path| path.strip_prefix(root).is_some_and(|rest| rest.starts_with('/'))),
                features: features.get(id).cloned().unwrap_or_default(),
            })
        })
        .collect()
}

fn strings(array: &Value) -> Vec<String> {
    array.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// A licence, of one crate alone where one is named.
struct Allowed {
    licence: Licensee,
    of: Option<String>,
}

/// What `audit.toml` says.
struct Policy {
    allowed: Vec<Allowed>,
    banned_crates: BTreeMap<String, String>,
    banned_features: BTreeMap<String, String>,
}

impl Policy {
    fn read(text: &str) -> Result<Self> {
        let table: toml::Table = text.parse()?;
        let mut policy =
            Self { allowed: Vec::new(), banned_crates: BTreeMap::new(), banned_features: BTreeMap::new() };
        for (kind, entries) in &table {
            let entries = entries.as_array().with_context(|| format!("`{kind}` is not a list of tables"))?;
            for entry in entries {
                let text = |name: &str| entry.get(name).and_then(toml::Value::as_str).map(str::to_owned);
                let reason = text("reason").filter(|reason| !reason.trim().is_empty());
                let reason = reason.with_context(|| format!("no reason is given in [[{kind}]] {entry}"))?;
                match (kind.as_str(), text("licence"), text("crate"), text("feature")) {
                    ("allow", Some(licence), of, None) => {
                        policy.allowed.push(Allowed { licence: Licensee::parse(&licence)?, of })
                    }
                    ("ban", None, Some(name), None) => drop(policy.banned_crates.insert(name, reason)),
                    ("ban", None, None, Some(name)) => drop(policy.banned_features.insert(name, reason)),
                    _ => bail!("[[{kind}]] {entry} allows no licence and bans no crate or feature"),
                }
            }
        }
        Ok(policy)
    }

    fn findings(&self, package: &Package) -> Vec<String> {
        let Package { name, version, .. } = package;
        let mut findings = Vec::new();
        match &package.licence {
            None => findings.push(format!("{name} {version}: names no licence")),
            Some(licence) => match Expression::parse_mode(licence, ParseMode::LAX) {
                Err(error) => {
                    findings.push(format!("{name} {version}: licence `{licence}`: {}", error.reason))
                }
                Ok(expression) => {
                    let ours = |allow: &&Allowed| allow.of.as_ref().is_none_or(|of| of == name);
                    let allowed: Vec<&Allowed> = self.allowed.iter().filter(ours).collect();
                    if !expression.evaluate(|need| allowed.iter().any(|allow| allow.licence.satisfies(need)))
                    {
                        findings.push(format!("{name} {version}: licence `{licence}` is not allowed"));
                    }
                }
            },
        }
        match &package.source {
            None if package.in_workspace => {}
            Some(source) if source == CRATES_IO => {}
            None => findings.push(format!("{name} {version}: comes from a folder outside of the workspace")),
            Some(source) => findings.push(format!("{name} {version}: comes from {source}, not crates.io")),
        }
        if let Some(reason) = self.banned_crates.get(name) {
            findings.push(format!("{name} {version}: banned: {reason}"));
        }
        for feature in &package.features {
            if let Some(reason) = self.banned_features.get(&format!("{name}/{feature}")) {
                findings.push(format!("{name} {version}: feature {feature} is banned: {reason}"));
            }
        }
        findings
    }

    /// Allowed licences that occur in no package's expression.
    fn unused(&self, packages: &[Package]) -> Vec<String> {
        let expressions: Vec<Expression> = packages
            .iter()
            .filter_map(|package| Expression::parse_mode(package.licence.as_ref()?, ParseMode::LAX).ok())
            .collect();
        let occurs = |allow: &Licensee| {
            expressions
                .iter()
                .any(|expression| expression.requirements().any(|need| allow.satisfies(&need.req)))
        };
        let licences = self.allowed.iter().map(|allow| &allow.licence);
        licences.filter(|licence| !occurs(licence)).map(ToString::to_string).collect()
    }
}

fn several_versions(packages: &[Package]) -> Vec<String> {
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for package in packages {
        versions.entry(&package.name).or_default().insert(&package.version);
    }
    versions.retain(|_, versions| versions.len() > 1);
    versions
        .into_iter()
        .map(|(name, versions)| format!("{name} {}", versions.into_iter().collect::<Vec<_>>().join(", ")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy() -> Policy {
        let text = r#"
            [[allow]]
            licence = "MIT"
            reason = "permissive"
            [[allow]]
            licence = "MPL-2.0"
            crate = "driver"
            reason = "for tests"
            [[ban]]
            crate = "bad"
            reason = "we said so"
            [[ban]]
            feature = "serde_json/arbitrary_precision"
            reason = "numbers"
        "#;
        Policy::read(text).unwrap()
    }

    fn package(name: &str, licence: &str, source: &str) -> Package {
        let (licence, source) = (Some(licence.to_owned()), Some(source.to_owned()));
        Package { name: name.into(), version: "1.0.0".into(), licence, source, ..Package::default() }
    }

    #[test]
    fn an_allowed_licence_from_crates_io_is_no_finding() {
        for licence in ["MIT", "Apache-2.0 OR MIT", "MIT/Apache-2.0"] {
            assert_eq!(policy().findings(&package("good", licence, CRATES_IO)), [""; 0], "{licence}");
        }
    }

    #[test]
    fn a_licence_that_the_list_does_not_satisfy_is_a_finding() {
        for licence in ["GPL-3.0-only", "MIT AND GPL-3.0-only", "Apache-2.0", "not a licence"] {
            assert_eq!(policy().findings(&package("greedy", licence, CRATES_IO)).len(), 1, "{licence}");
        }
        let silent = Package { licence: None, ..package("silent", "", CRATES_IO) };
        assert_eq!(policy().findings(&silent), ["silent 1.0.0: names no licence"]);
    }

    #[test]
    fn a_licence_that_is_allowed_for_one_crate_is_a_finding_in_others() {
        assert_eq!(policy().findings(&package("driver", "MPL-2.0", CRATES_IO)), [""; 0]);
        assert_eq!(policy().findings(&package("other", "MPL-2.0", CRATES_IO)).len(), 1);
    }

    #[test]
    fn a_source_other_than_crates_io_or_the_workspace_is_a_finding() {
        for source in ["git+https://example.com/x.git#abc", "registry+https://registry.example.com/index"] {
            assert_eq!(policy().findings(&package("foreign", "MIT", source)).len(), 1, "{source}");
        }
        let ours = Package { source: None, in_workspace: true, ..package("ours", "MIT", "") };
        let beside = Package { source: None, ..package("beside", "MIT", "") };
        assert_eq!(policy().findings(&ours).len(), 0);
        assert_eq!(policy().findings(&beside).len(), 1);
    }

    #[test]
    fn banned_crates_and_features_are_findings() {
        assert_eq!(policy().findings(&package("bad", "MIT", CRATES_IO)), ["bad 1.0.0: banned: we said so"]);
        let mut json = package("serde_json", "MIT", CRATES_IO);
        json.features = vec!["default".into(), "std".into()];
        assert_eq!(policy().findings(&json).len(), 0);
        json.features.push("arbitrary_precision".into());
        assert_eq!(policy().findings(&json).len(), 1);
    }

    #[test]
    fn features_come_from_the_resolved_build() {
        let metadata = serde_json::json!({
            "workspace_root": "/w",
            "packages": [
                {"id": "a", "name": "a", "version": "1.0.0", "license": "MIT", "manifest_path": "/w/a/Cargo.toml"},
                {"id": "b", "name": "b", "version": "1.0.0", "license": "MIT", "manifest_path": "/web/Cargo.toml"},
            ],
            "resolve": {"nodes": [{"id": "a", "features": ["std"]}, {"id": "b", "features": []}]},
        });
        let packages = packages(&metadata).unwrap();
        assert_eq!(packages[0].features, ["std"]);
        assert!(packages[0].in_workspace && !packages[1].in_workspace);
    }

    #[test]
    fn an_entry_without_a_reason_or_a_meaning_is_refused() {
        for text in [
            "[[allow]]\nlicence = \"MIT\"\n",
            "[[allow]]\ncrate = \"x\"\nreason = \"r\"\n",
            "[[forbid]]\ncrate = \"x\"\nreason = \"r\"\n",
            "[[allow]]\nlicence = \"MTI\"\nreason = \"r\"\n",
        ] {
            assert!(Policy::read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn several_versions_of_a_crate_and_unused_licences_are_told() {
        let old = Package { version: "0.9.0".into(), ..package("twice", "ISC", CRATES_IO) };
        let packages = [package("once", "ISC", CRATES_IO), package("twice", "ISC", CRATES_IO), old];
        assert_eq!(several_versions(&packages), ["twice 0.9.0, 1.0.0"]);
        assert_eq!(policy().unused(&packages), ["MIT", "MPL-2.0"]);
    }
}
