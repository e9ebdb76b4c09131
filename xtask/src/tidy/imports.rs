//! Who may import whom.
//!
//! One request walks one way: surface, engine, decide, store, and back. A surface never touches a store and a store
//! never decides, so each package has a list of the packages of this workspace that it may depend on directly. A
//! new package needs a line here. Tests may also use the starters and the stores.

use super::Finding;
use crate::repository::Repository;

/// Every library, for the packages that wire them.
const LIBRARIES: &[&str] = &[
    "canon",
    "core",
    "store",
    "store-sqlite",
    "store-postgres",
    "store-conformance",
    "engine",
    "messages",
    "webhooks",
    "broker-http",
    "broker-kafka",
    "broker-nats",
    "broker-rabbitmq",
    "broker-smtp",
    "http",
    "gateway",
    "api",
    "config",
    "client",
    "library",
    "axum",
    "grpc",
    "sqlx",
    "onefold",
];

/// Benchmarks measure the libraries, over records that the test kit makes in great number.
const FOR_BENCHMARKS: &[&str] = &[
    "core",
    "store",
    "store-sqlite",
    "store-postgres",
    "engine",
    "messages",
    "broker-nats",
    "broker-rabbitmq",
    "onefold",
    "sqlx",
    "testkit",
];

/// What services use, each behind a feature.
const FOR_FACADE: &[&str] = &[
    "library",
    "axum",
    "broker-http",
    "broker-kafka",
    "broker-nats",
    "broker-rabbitmq",
    "broker-smtp",
    "client",
    "grpc",
    "sqlx",
    "webhooks",
];

/// Nothing beside the facade: what is awkward to use through it is mended there.
const FOR_BFSTORE: &[&str] = &["onefold"];

/// Each package, without its prefix, and what it may depend on.
const ALLOWED: &[(&str, &[&str])] = &[
    ("canon", &[]),
    ("core", &["canon"]),
    ("store", &["core"]),
    ("store-sqlite", &["store", "core"]),
    ("store-postgres", &["store", "core"]),
    ("store-conformance", &["store", "core"]),
    ("engine", &["store", "core"]),
    ("messages", &["engine", "store", "core", "canon"]),
    ("webhooks", &["core", "canon"]),
    ("broker-http", &["messages", "webhooks", "client", "core"]),
    ("broker-nats", &["messages", "core"]),
    ("broker-smtp", &["messages", "core"]),
    ("broker-rabbitmq", &["messages", "core"]),
    ("broker-kafka", &["messages", "core"]),
    ("http", &["core", "canon"]),
    ("gateway", &["engine", "messages", "webhooks", "http", "core", "canon"]),
    ("api", &["engine", "messages", "http", "config", "store", "core"]),
    ("config", &["webhooks", "core", "canon"]),
    ("library", &["engine", "messages", "store", "store-sqlite", "store-postgres", "core", "canon"]),
    ("axum", &["library", "engine", "webhooks", "http", "core", "canon"]),
    ("grpc", &["library", "client", "http", "core", "canon"]),
    ("sqlx", &["library", "store", "store-postgres"]),
    ("client", &["core"]),
    ("onefold", FOR_FACADE),
    ("cli", LIBRARIES),
    ("bfstore", FOR_BFSTORE),
    ("testkit", &[]),
    ("storm", &["onefold", "testkit"]),
    ("e2e", &["testkit"]),
    ("bench", FOR_BENCHMARKS),
    ("xtask", &[]),
];

/// What any package may use in its tests.
const FOR_TESTS: &[&str] =
    &["onefold", "testkit", "storm", "store", "store-sqlite", "store-postgres", "store-conformance"];

pub fn check(repository: &Repository) -> Vec<Finding> {
    let manifests = repository.ending("/Cargo.toml");
    manifests.flat_map(|manifest| check_manifest(&manifest.path, &manifest.text)).collect()
}

fn check_manifest(path: &str, text: &str) -> Vec<Finding> {
    let manifest: toml::Table = match text.parse() {
        Ok(manifest) => manifest,
        Err(error) => return vec![Finding::file(path, format!("cannot be read: {error}"))],
    };
    let Some(package) = manifest.get("package").and_then(|package| package.get("name")?.as_str()) else {
        return Vec::new();
    };
    let package = short(package);
    let Some((_, allowed)) = ALLOWED.iter().find(|(name, _)| *name == package) else {
        return vec![Finding::file(path, format!("{package} has no line in the table of imports"))];
    };
    let mut findings = Vec::new();
    for (kind, dependency) in dependencies(&manifest) {
        let dependency = short(&dependency);
        let in_tests = kind == "dev-dependencies" && FOR_TESTS.contains(&dependency);
        let ours = ALLOWED.iter().any(|(name, _)| *name == dependency);
        if ours && dependency != package && !allowed.contains(&dependency) && !in_tests {
            findings.push(Finding::file(path, format!("{package} may not import {dependency} ({kind})")));
        }
    }
    findings
}

/// The kind and the package of every dependency, those of single targets included.
fn dependencies(manifest: &toml::Table) -> Vec<(String, String)> {
    let targets = manifest.get("target").and_then(toml::Value::as_table);
    let targets = targets.into_iter().flat_map(|targets| targets.values()).filter_map(toml::Value::as_table);
    let mut found = Vec::new();
    for table in std::iter::once(manifest).chain(targets) {
        for kind in ["dependencies", "dev-dependencies", "build-dependencies"] {
            let entries = table.get(kind).and_then(toml::Value::as_table);
            for (name, entry) in entries.into_iter().flatten() {
                let package = entry.get("package").and_then(toml::Value::as_str).unwrap_or(name);
                if package.starts_with("onefold-") || package == "onefold" || package == "xtask" {
                    found.push((kind.into(), package.into()));
                }
            }
        }
    }
    found
}

fn short(package: &str) -> &str {
    package.strip_prefix("onefold-").unwrap_or(package)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(package: &str, dependencies: &str) -> Vec<String> {
        let manifest = format!("[package]\nname = \"onefold-{package}\"\n{dependencies}");
        let repository = Repository::sample(&[("crates/x/Cargo.toml", &manifest)]);
        check(&repository).into_iter().map(|finding| finding.text).collect()
    }

    #[test]
    fn a_package_that_imports_against_the_way_of_a_request_fails() {
        let found = texts("store", "[dependencies]\nonefold-engine.workspace = true\nserde = \"1\"\n");
        assert_eq!(found, ["store may not import engine (dependencies)"]);
        let found = texts("gateway", "[dependencies]\nonefold-store-sqlite.workspace = true\n");
        assert_eq!(found, ["gateway may not import store-sqlite (dependencies)"]);
    }

    #[test]
    fn a_renamed_or_target_specific_dependency_is_seen() {
        let found =
            texts("core", "[dependencies]\ns = { package = \"onefold-store\", path = \"../store\" }\n");
        assert_eq!(found, ["core may not import store (dependencies)"]);
        let found = texts("core", "[target.'cfg(unix)'.build-dependencies]\nonefold-store = \"0\"\n");
        assert_eq!(found, ["core may not import store (build-dependencies)"]);
    }

    #[test]
    fn what_the_table_allows_passes_and_tests_may_use_the_starters() {
        assert_eq!(texts("core", "[dependencies]\nonefold-canon.workspace = true\n"), [""; 0]);
        assert_eq!(
            texts("engine", "[dev-dependencies]\nonefold-store-conformance.workspace = true\n"),
            [""; 0]
        );
        assert_eq!(texts("engine", "[dev-dependencies]\nonefold-api.workspace = true\n").len(), 1);
    }

    #[test]
    fn a_package_without_a_line_in_the_table_fails() {
        assert_eq!(texts("sidecar", ""), ["sidecar has no line in the table of imports"]);
    }
}
