//! Many records that have expired in one and the same moment, as copies of a record that the product wrote.
//!
//! Only what is about sweeping needs so many; made through the product they would take minutes. A copy is what its
//! original is but for digest, key, place and times, and is counted in its scope like any other. This is the one place
//! outside of the stores that writes their tables, and no program that uses the store may run meanwhile.

use crate::sql;

/// How long ago the copies expired.
const EXPIRED_AGO_MS: i64 = 1000;
/// The present of the file's host, and of the server.
const NOW_OF_FILE: &str = "cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER)";
const NOW_OF_SERVER: &str = "floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint";

/// What a sweep makes of a copy.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Then {
    /// A tombstone, as of its original.
    Buried,
    /// Nothing is left: its tombstone is over as well.
    Deleted,
}

/// What stands in a store.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Counted {
    /// Tombstones.
    pub tombstones: u64,
    /// Records that are none.
    pub live: u64,
    /// How many the quota of all scopes takes to be live.
    pub in_scopes: u64,
}

const COPY_IN_FILE: &str = "
    CREATE TEMP TABLE original AS
        SELECT o.seq, c.seq AS last, $now - $ago AS expires
        FROM onefold_operations o JOIN onefold_outcomes u ON u.seq = o.seq, onefold_clock c
        WHERE u.state = 2 AND o.scope IS NOT NULL ORDER BY o.seq LIMIT 1;
    CREATE TEMP TABLE copies AS
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < $copies) SELECT i FROM n;
    INSERT INTO onefold_operations (seq, id, attempt, on_stale, retention_ms, tombstone_ms, created_at, scope,
        operation, fingerprint_version, fingerprint, key, owner, correlation_id, ignored)
    SELECT x.last + n.i, randomblob(32), o.attempt, o.on_stale, o.retention_ms, coalesce($tombstone, o.tombstone_ms),
        x.expires - o.retention_ms, o.scope, o.operation, o.fingerprint_version, o.fingerprint, o.key || '-' || n.i,
        o.owner, o.correlation_id, o.ignored
    FROM original x JOIN onefold_operations o ON o.seq = x.seq, copies n;
    INSERT INTO onefold_outcomes (seq, state, at, expires_at, due_at, resource_kind, resource_id, kept)
    SELECT x.last + n.i, u.state, x.expires - o.retention_ms, x.expires, x.expires, u.resource_kind, u.resource_id, u.kept
    FROM original x JOIN onefold_operations o ON o.seq = x.seq JOIN onefold_outcomes u ON u.seq = x.seq, copies n;
    UPDATE onefold_scopes SET live = live + $copies
    WHERE number = (SELECT o.scope FROM original x JOIN onefold_operations o ON o.seq = x.seq);
    UPDATE onefold_clock SET seq = seq + $copies;
    DROP TABLE copies;
    DROP TABLE original;";

const DUE_IN_FILE: &str = "SELECT count(*) FROM onefold_outcomes WHERE due_at <= $now";

const COUNT_IN_FILE: &str = "
    SELECT (SELECT count(*) FROM onefold_operations WHERE scope IS NULL) || ' ' ||
        (SELECT count(*) FROM onefold_operations WHERE scope IS NOT NULL) || ' ' ||
        (SELECT coalesce(sum(live), 0) FROM onefold_scopes)";

const COPY_IN_DATABASE: &str = "
    WITH moment AS (
        SELECT $now - $ago AS expires
    ),
    original AS (
        SELECT * FROM onefold.operations WHERE state = 2 AND bucket IS NOT NULL ORDER BY place LIMIT 1
    ),
    copied AS (
        INSERT INTO onefold.operations (place, created_at, due_at, retention_ms, tombstone_ms, bucket, attempt, shard,
            on_stale, fingerprint_version, id, operation, fingerprint, scope, key, owner, correlation_id, ignored,
            state, nonce, ended_at, expires_at, resource_kind, resource_id, kept)
        SELECT o.place + n, m.expires - o.retention_ms, m.expires, o.retention_ms, coalesce($tombstone, o.tombstone_ms),
            o.bucket, o.attempt, o.shard, o.on_stale, o.fingerprint_version, sha256(o.id || n::text::bytea || $salt),
            o.operation, o.fingerprint, o.scope, o.key || '-'::bytea || n::text::bytea, o.owner, o.correlation_id,
            o.ignored, o.state, o.nonce, m.expires - o.retention_ms, m.expires, o.resource_kind, o.resource_id, o.kept
        FROM original o CROSS JOIN moment m CROSS JOIN generate_series(1, $copies) n
    )
    UPDATE onefold.scopes s SET live = s.live + $copies FROM original o WHERE s.bucket = o.bucket AND s.shard = o.shard";

const DUE_IN_DATABASE: &str = "SELECT count(*) FROM onefold.operations WHERE due_at <= $now";

const COUNT_IN_DATABASE: &str = "
    SELECT concat_ws(' ',
        (SELECT count(*) FROM onefold.operations WHERE scope IS NULL),
        (SELECT count(*) FROM onefold.operations WHERE scope IS NOT NULL),
        (SELECT coalesce(sum(live), 0) FROM onefold.scopes))";

/// Makes so many copies of the oldest record that has succeeded.
///
/// # Panics
/// When the store cannot be written, or has no such record.
pub async fn make(url: &str, copies: u32, then: Then) {
    let before = due(url).await;
    let tombstone = match then {
        Then::Buried => "NULL",
        Then::Deleted => "0",
    };
    let (copy, now) = of(url, (COPY_IN_FILE, NOW_OF_FILE), (COPY_IN_DATABASE, NOW_OF_SERVER));
    let copy = copy
        .replace("$now", now)
        .replace("$ago", &EXPIRED_AGO_MS.to_string())
        .replace("$tombstone", tombstone)
        .replace("$salt", &format!("'{then:?}'::bytea"))
        .replace("$copies", &copies.to_string());
    sql::execute(url, &copy).await;
    if !url.starts_with("sqlite:") {
        // As autovacuum does after so many rows; a file has nobody who would.
        sql::execute(url, "ANALYZE onefold.operations").await;
    }
    assert_eq!(due(url).await, before + u64::from(copies), "every copy is due");
}

/// Counts the records that the sweeper is yet to look at, which takes one look at an index.
///
/// # Panics
/// When the store cannot be read.
pub async fn due(url: &str) -> u64 {
    let (count, now) = of(url, (DUE_IN_FILE, NOW_OF_FILE), (DUE_IN_DATABASE, NOW_OF_SERVER));
    sql::ask(url, &count.replace("$now", now)).await.parse().expect("a count")
}

/// Counts what stands in a store.
///
/// # Panics
/// When it cannot be read.
pub async fn count(url: &str) -> Counted {
    let text = sql::ask(url, of(url, COUNT_IN_FILE, COUNT_IN_DATABASE)).await;
    let numbers: Vec<u64> = text.split(' ').map(|number| number.parse().expect("a count")).collect();
    let [tombstones, live, in_scopes] = numbers[..] else { panic!("three counts: {text}") };
    Counted { tombstones, live, in_scopes }
}

/// The one for a file, or the one for a server.
fn of<T>(url: &str, file: T, server: T) -> T {
    if url.starts_with("sqlite:") { file } else { server }
}
