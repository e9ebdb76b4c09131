//! A database in which many records stand, made once and copied for each measurement.
//!
//! The records are as atomic mode leaves them: written once, with their result. They come in random order of their
//! digests (or in the order of time, as keys that carry it do), so pages of indexes are as full as the store leaves them.

use anyhow::Result;
use onefold_store_postgres::{Address, Options, PostgresStore};

use crate::args::{KeysKind, Postgres};
use crate::postgres::{DATABASE, sql};

/// What is copied.
const FILLED: &str = "onefold_bench_filled";
/// Records of one statement: what a server without much memory or room for its log bears.
const AT_ONCE: u32 = 1_000_000;

/// A new database with as many records as were asked for.
pub(crate) async fn fresh(postgres: &Postgres, keys: KeysKind) -> Result<String> {
    let server = &postgres.server;
    if sql(server, &described()).await? != description(postgres, keys) {
        fill(postgres, keys).await?;
    }
    sql(server, &format!("DROP DATABASE IF EXISTS {DATABASE} WITH (FORCE)")).await?;
    // From 15 on a copy would go through the log, page by page.
    let since_15 = "SELECT current_setting('server_version_num')::integer >= 150000";
    let strategy = if sql(server, since_15).await? == "t" { "STRATEGY file_copy" } else { "" };
    sql(server, &format!("CREATE DATABASE {DATABASE} TEMPLATE {FILLED} {strategy}")).await?;
    Ok(url(server, DATABASE))
}

/// Drops what was made; with `--keep` not what is copied.
pub(crate) async fn drop_all(postgres: &Postgres) -> Result<()> {
    sql(&postgres.server, &format!("DROP DATABASE IF EXISTS {DATABASE} WITH (FORCE)")).await?;
    if !postgres.keep {
        sql(&postgres.server, &format!("DROP DATABASE IF EXISTS {FILLED} WITH (FORCE)")).await?;
    }
    Ok(())
}

/// What the database that is copied says of itself: nothing until it is complete.
fn described() -> String {
    format!("SELECT shobj_description(oid, 'pg_database') FROM pg_database WHERE datname = '{FILLED}'")
}

fn description(postgres: &Postgres, keys: KeysKind) -> String {
    format!("{} records, {}", postgres.rows, keys.told())
}

async fn fill(postgres: &Postgres, keys: KeysKind) -> Result<()> {
    let server = &postgres.server;
    eprintln!("{} records are made", postgres.rows);
    sql(server, &format!("DROP DATABASE IF EXISTS {FILLED} WITH (FORCE)")).await?;
    sql(server, &format!("CREATE DATABASE {FILLED}")).await?;
    let url = url(server, FILLED);
    drop(PostgresStore::open(&Address::parse(&url)?, Options::default()).await?);
    let id = id(keys);
    for first in (1..=postgres.rows).step_by(AT_ONCE as usize) {
        let last = postgres.rows.min(first + AT_ONCE - 1);
        sql(
            &url,
            &format!(
                "INSERT INTO onefold.operations (place, created_at, nonce, ended_at, expires_at, due_at, retention_ms,
                    tombstone_ms, bucket, shard, attempt, state, on_stale, fingerprint_version, id, fingerprint,
                    operation, scope, key, owner, kept)
                SELECT n, n, 0, 1, 4000000000000 + n, 4000000000000 + n, 604800000, 2592000000, 7, 0, 1, 2, 0, 1, {id},
                    sha256('x'::bytea), 'CreateOrder'::bytea, decode(repeat('73', 100), 'hex'),
                    decode(repeat('74', 36), 'hex'), 'gateway-1'::bytea, decode(repeat('6b', 360), 'hex')
                FROM generate_series({first}, {last}) n"
            ),
        )
        .await?;
    }
    sql(&url, &format!("INSERT INTO onefold.scopes (bucket, shard, live) VALUES (7, 0, {})", postgres.rows))
        .await?;
    sql(&url, "VACUUM ANALYZE").await?;
    sql(server, &format!("COMMENT ON DATABASE {FILLED} IS '{}'", description(postgres, keys))).await?;
    Ok(())
}

/// The digest of record `n` as an expression of SQL.
pub(crate) fn id(keys: KeysKind) -> &'static str {
    match keys {
        KeysKind::V4 => "sha256(n::text::bytea)",
        // In the order of time: 48 bits of it in front, as digests of keys that carry one have.
        KeysKind::V7 => {
            "substr(int8send((extract(epoch FROM now() - interval '1 day') * 1000)::bigint + n), 3)
                || substr(sha256(n::text::bytea), 1, 26)"
        }
    }
}

fn url(server: &str, database: &str) -> String {
    format!("{}/{database}", server.trim_end_matches('/'))
}
