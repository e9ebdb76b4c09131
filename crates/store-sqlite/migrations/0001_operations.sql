-- Schema 1: operations, their history, the quota of live keys, and what belongs to the store itself.
-- Times are milliseconds since the Unix epoch by the store's clock. No triggers, no foreign keys.

-- The latest committed time, which is the floor of the store's clock, and the last seq that was given. One row,
-- written by every commit that writes anything.
CREATE TABLE clock (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    at  INTEGER NOT NULL,
    seq INTEGER NOT NULL
) STRICT;

INSERT INTO clock (one, at, seq) VALUES (1, 0, 0);

-- identity_secret: the 32 bytes under which identities are digested, as a payload form (sealed when keys are set).
CREATE TABLE meta (
    name  TEXT PRIMARY KEY,
    value BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- The names of the keys under which payloads may be sealed.
CREATE TABLE seal_keys (
    id BLOB PRIMARY KEY
) STRICT, WITHOUT ROWID;

CREATE TABLE operations (
    -- In the order of making, never given twice.
    seq                 INTEGER PRIMARY KEY,
    id                  BLOB NOT NULL UNIQUE CHECK (length(id) = 32),
    -- 0 received, 1 processing, 2 succeeded, 3 rejected, 4 failed, 5 outcome_unknown
    state               INTEGER NOT NULL,
    attempt             INTEGER NOT NULL,
    -- Processing: when the lease was granted and when it ends. outcome_unknown: lease_until is when it became so.
    -- Terminal states have neither.
    leased_at           INTEGER,
    lease_until         INTEGER,
    -- What the record promises: 0 unknown, 1 resume; how long it answers after completion (NULL: for good); how
    -- long its tombstone is kept after that.
    on_stale            INTEGER NOT NULL,
    retention_ms        INTEGER,
    tombstone_ms        INTEGER NOT NULL,
    created_at          INTEGER NOT NULL,
    begun_at            INTEGER,
    completed_at        INTEGER,
    expires_at          INTEGER,
    -- When the sweeper has to look at the record next: its expiry, then the end of its tombstone.
    due_at              INTEGER,
    duplicates          INTEGER NOT NULL DEFAULT 0,
    conflicts           INTEGER NOT NULL DEFAULT 0,
    replays             INTEGER NOT NULL DEFAULT 0,
    fingerprint_version INTEGER,
    -- NULL: a tombstone.
    fingerprint         BLOB,
    operation           TEXT NOT NULL,
    key                 TEXT NOT NULL,
    scope               BLOB NOT NULL,
    owner               TEXT NOT NULL,
    correlation_id      TEXT,
    ignored             BLOB,
    resource_kind       TEXT,
    resource_id         TEXT,
    -- Last, so that filters need not walk over it. NULL: nothing is kept.
    kept                BLOB
) STRICT;

CREATE INDEX operations_open ON operations (state, lease_until) WHERE lease_until IS NOT NULL;

CREATE INDEX operations_due ON operations (due_at) WHERE due_at IS NOT NULL;

-- How many records of a scope are live: made and not yet a tombstone.
CREATE TABLE scopes (
    scope BLOB PRIMARY KEY,
    live  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE events (
    seq       INTEGER PRIMARY KEY,
    -- operations.seq
    operation INTEGER NOT NULL,
    at        INTEGER NOT NULL,
    -- 0 unknown, 1 resolved, 2 released, 3 late_success
    kind      INTEGER NOT NULL,
    attempt   INTEGER NOT NULL,
    who       TEXT NOT NULL,
    reason    TEXT NOT NULL,
    evidence  TEXT NOT NULL
) STRICT;

CREATE INDEX events_operation ON events (operation, seq);
