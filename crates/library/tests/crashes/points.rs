//! No crash point is forgotten: those that stand in the code are those that the matrix passes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::base::Base;
use crate::matrix::passed;
use crate::postgres::Postgres;
use crate::scenario;
use crate::sqlite::Sqlite;

const CALL: &str = "crash::point(\"";

/// The points in a crate's code, and how often each stands there.
fn in_code(folder: &Path, points: &mut BTreeMap<String, usize>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            in_code(&path, points);
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        for call in text.split(CALL).skip(1) {
            let name = call.split('"').next().unwrap();
            *points.entry(name.to_owned()).or_default() += 1;
        }
    }
}

async fn all_are_passed<B: Base>() {
    let source = format!("{}/../store-{}/src", env!("CARGO_MANIFEST_DIR"), B::NAME);
    let mut points = BTreeMap::new();
    in_code(Path::new(&source), &mut points);
    assert!(points.len() > 10, "{source} has crash points");
    for (name, times) in &points {
        assert_eq!(*times, 1, "{name} stands at one place");
        assert!(name.starts_with(&format!("{}.", B::NAME)), "{name} says whose it is");
    }
    let Some(passed) = passed::<B>(scenario::all()).await else { return };
    let passed: BTreeSet<String> =
        passed.into_iter().flat_map(|(_, passages)| passages).map(|(name, _)| name).collect();
    let forgotten: Vec<_> = points.into_keys().filter(|name| !passed.contains(name)).collect();
    assert!(forgotten.is_empty(), "no scenario passes {forgotten:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_crash_point_of_the_sqlite_store_is_in_the_matrix() {
    all_are_passed::<Sqlite>().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_crash_point_of_the_postgres_store_is_in_the_matrix() {
    all_are_passed::<Postgres>().await;
}
