//! Many records that have expired in one and the same moment, as copies of a record that the product wrote.
//!
//! Only what is about sweeping needs so many; made through the product they would take minutes. A copy is what its
//! original is but for digest, key, place and times, and is counted in its scope like any other. This is the one place
//! outside of the stores that writes their tables, and no program that uses the store may run meanwhile.

use std::time::{Duration, SystemTime};

use rusqlite::{Connection, named_params};

use crate::postgres::{ask_at, execute_at};

/// How long ago the copies expired.
const EXPIRED_AGO_MS: i64 = 1000;
const BUSY: Duration = Duration::from_secs(20);

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
    /// Records that the sweeper is yet to look at.
    pub due: u64,
    /// Tombstones.
    pub tombstones: u64,
    /// Records that are none.
    pub live: u64,
    /// How many the quota of all scopes takes to be live.
    pub in_scopes: u64,
}

const COPY_IN_FILE: &str = "
    CREATE TEMP TABLE original AS
        SELECT o.seq, c.seq AS last FROM onefold_operations o JOIN onefold_outcomes u ON u.seq = o.seq, onefold_clock c
        WHERE u.state = 2 AND o.scope IS NOT NULL ORDER BY o.seq LIMIT 1;
    CREATE TEMP TABLE copies AS
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < $copies) SELECT i FROM n;
    INSERT INTO onefold_operations (seq, id, attempt, on_stale, retention_ms, tombstone_ms, created_at, scope,
        operation, fingerprint_version, fingerprint, key, owner, correlation_id, ignored)
    SELECT x.last + n.i, randomblob(32), o.attempt, o.on_stale, o.retention_ms, coalesce($tombstone, o.tombstone_ms),
        $expires - o.retention_ms, o.scope, o.operation, o.fingerprint_version, o.fingerprint, o.key || '-' || n.i,
        o.owner, o.correlation_id, o.ignored
    FROM original x JOIN onefold_operations o ON o.seq = x.seq, copies n;
    INSERT INTO onefold_outcomes (seq, state, at, expires_at, due_at, resource_kind, resource_id, kept)
    SELECT x.last + n.i, u.state, $expires - o.retention_ms, $expires, $expires, u.resource_kind, u.resource_id, u.kept
    FROM original x JOIN onefold_operations o ON o.seq = x.seq JOIN onefold_outcomes u ON u.seq = x.seq, copies n;
    UPDATE onefold_scopes SET live = live + $copies
    WHERE number = (SELECT o.scope FROM original x JOIN onefold_operations o ON o.seq = x.seq);
    UPDATE onefold_clock SET seq = seq + $copies;
    DROP TABLE copies;
    DROP TABLE original;";

const COUNT_IN_FILE: &str = "
    SELECT (SELECT count(*) FROM onefold_outcomes WHERE due_at <= $now),
        (SELECT count(*) FROM onefold_operations WHERE scope IS NULL),
        (SELECT count(*) FROM onefold_operations WHERE scope IS NOT NULL),
        (SELECT coalesce(sum(live), 0) FROM onefold_scopes)";

const COPY_IN_DATABASE: &str = "
    WITH moment AS (
        SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint - $ago AS expires
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

const COUNT_IN_DATABASE: &str = "
    SELECT concat_ws(' ',
        (SELECT count(*) FROM onefold.operations
            WHERE due_at <= floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint),
        (SELECT count(*) FROM onefold.operations WHERE scope IS NULL),
        (SELECT count(*) FROM onefold.operations WHERE scope IS NOT NULL),
        (SELECT coalesce(sum(live), 0) FROM onefold.scopes))";

/// Makes so many copies of the oldest record that has succeeded.
///
/// # Panics
/// When the store cannot be written, or has no such record.
pub async fn make(url: &str, copies: u32, then: Then) {
    let before = count(url).await;
    assert!(before.live > 0, "no record to be copied");
    match url.strip_prefix("sqlite:") {
        Some(path) => copy_in_file(path, copies, then).expect("the file takes the copies"),
        None => {
            let sql = COPY_IN_DATABASE
                .replace("$ago", &EXPIRED_AGO_MS.to_string())
                .replace("$tombstone", then.tombstone_ms().map_or("NULL::bigint", |_| "0::bigint"))
                .replace("$salt", &format!("'{then:?}'::bytea"))
                .replace("$copies", &copies.to_string());
            execute_at(url, &sql).await;
            execute_at(url, "VACUUM ANALYZE onefold.operations").await;
        }
    }
    assert_eq!(count(url).await.due, before.due + u64::from(copies), "every copy is due");
}

/// Counts what stands in a store.
///
/// # Panics
/// When it cannot be read.
pub async fn count(url: &str) -> Counted {
    let Some(path) = url.strip_prefix("sqlite:") else {
        let text = ask_at(url, COUNT_IN_DATABASE).await;
        let numbers: Vec<u64> = text.split(' ').map(|number| number.parse().expect("a count")).collect();
        let [due, tombstones, live, in_scopes] = numbers[..] else { panic!("four counts: {text}") };
        return Counted { due, tombstones, live, in_scopes };
    };
    let connection = open(path).expect("the file can be opened");
    let number = |row: &rusqlite::Row<'_>, at| row.get::<_, i64>(at).map(i64::cast_unsigned);
    let counted = connection.query_row(COUNT_IN_FILE, named_params! {"$now": now_ms()}, |row| {
        Ok(Counted {
            due: number(row, 0)?,
            tombstones: number(row, 1)?,
            live: number(row, 2)?,
            in_scopes: number(row, 3)?,
        })
    });
    counted.expect("the file can be read")
}

impl Then {
    fn tombstone_ms(self) -> Option<i64> {
        match self {
            Then::Buried => None,
            Then::Deleted => Some(0),
        }
    }
}

fn copy_in_file(path: &str, copies: u32, then: Then) -> rusqlite::Result<()> {
    let mut connection = open(path)?;
    let transaction = connection.transaction()?;
    let tombstone = then.tombstone_ms().map_or("NULL".to_owned(), |ms| ms.to_string());
    let sql = COPY_IN_FILE
        .replace("$copies", &copies.to_string())
        .replace("$tombstone", &tombstone)
        .replace("$expires", &(now_ms() - EXPIRED_AGO_MS).to_string());
    transaction.execute_batch(&sql)?;
    transaction.commit()
}

fn open(path: &str) -> rusqlite::Result<Connection> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(BUSY)?;
    Ok(connection)
}

fn now_ms() -> i64 {
    let now = SystemTime::UNIX_EPOCH.elapsed().expect("after 1970").as_millis();
    i64::try_from(now).expect("before the year 292 million")
}
