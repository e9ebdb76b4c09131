-- Schema 1: operations, their leases and outcomes, their history, scopes with their quota, and what belongs to the
-- store itself. Times are milliseconds since the Unix epoch by the store's clock. No triggers, no foreign keys.

-- Which schema this is. The file may be somebody else's, with a user_version of its own.
CREATE TABLE onefold_schema (
    one     INTEGER PRIMARY KEY CHECK (one = 1),
    version INTEGER NOT NULL
) STRICT;

INSERT INTO onefold_schema (one, version) VALUES (1, 1);

-- The latest committed time, which is the floor of the store's clock, and the last seq that was given. One row,
-- written by every commit that writes anything.
CREATE TABLE onefold_clock (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    at  INTEGER NOT NULL,
    seq INTEGER NOT NULL
) STRICT;

INSERT INTO onefold_clock (one, at, seq) VALUES (1, 0, 0);

-- identity_secret: the 32 bytes under which identities are digested, as a payload form (sealed when keys are set).
CREATE TABLE onefold_meta (
    name  TEXT PRIMARY KEY,
    value BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- The names of the keys under which payloads may be sealed.
CREATE TABLE onefold_seal_keys (
    id BLOB PRIMARY KEY
) STRICT, WITHOUT ROWID;

-- What a claim says. An attempt that runs has a row in leases, one that has ended a row in outcomes: each record has
-- exactly one of the two. So this row, which is the long one, is written once and not again at the end.
CREATE TABLE onefold_operations (
    -- In the order of making, never given twice.
    seq                 INTEGER PRIMARY KEY,
    id                  BLOB NOT NULL UNIQUE CHECK (length(id) = 32),
    attempt             INTEGER NOT NULL,
    -- What the record promises: 0 unknown, 1 resume, 2 reconcile; how long it answers after completion (NULL: for good); how
    -- long its tombstone is kept after that.
    on_stale            INTEGER NOT NULL,
    retention_ms        INTEGER,
    tombstone_ms        INTEGER NOT NULL,
    -- When it was made, which is when the first attempt began.
    created_at          INTEGER NOT NULL,
    -- scopes.number. NULL: a tombstone, which has neither key nor owner nor anything of the request.
    scope               INTEGER,
    duplicates          INTEGER NOT NULL DEFAULT 0,
    conflicts           INTEGER NOT NULL DEFAULT 0,
    replays             INTEGER NOT NULL DEFAULT 0,
    operation           TEXT NOT NULL,
    fingerprint_version INTEGER,
    fingerprint         BLOB,
    key                 TEXT,
    owner               TEXT,
    correlation_id      TEXT,
    ignored             BLOB
) STRICT;

-- The attempts that run, with what an outcome has to know. Few, so they are found in a small tree, and whoever looks
-- for the ends of leases looks at all of them. All but the times is as in operations.
CREATE TABLE onefold_leases (
    id           BLOB PRIMARY KEY,
    seq          INTEGER NOT NULL,
    attempt      INTEGER NOT NULL,
    granted_at   INTEGER NOT NULL,
    until        INTEGER NOT NULL,
    on_stale     INTEGER NOT NULL,
    retention_ms INTEGER
) STRICT, WITHOUT ROWID;

-- How the latest attempt ended.
CREATE TABLE onefold_outcomes (
    -- operations.seq
    seq           INTEGER PRIMARY KEY,
    -- 2 succeeded, 3 rejected, 4 failed, 5 outcome_unknown
    state         INTEGER NOT NULL,
    at            INTEGER NOT NULL,
    -- NULL: never.
    expires_at    INTEGER,
    -- When the sweeper has to look at the record next: its expiry, then the end of its tombstone.
    due_at        INTEGER,
    resource_kind TEXT,
    resource_id   TEXT,
    -- How far reconciliation has come: NULL open, 1 may_retry, 2 escalated, 3 settled by it.
    reconciliation INTEGER,
    -- Of an open one: probes so far, when the next is due (NULL: at once), when a negative answer was first noted.
    probes        INTEGER,
    probe_at      INTEGER,
    negative_at   INTEGER,
    -- Last, so that filters need not walk over it. NULL: nothing is kept.
    kept          BLOB
) STRICT;

CREATE INDEX onefold_outcomes_due ON onefold_outcomes (due_at) WHERE due_at IS NOT NULL;

CREATE INDEX onefold_outcomes_unknown ON onefold_outcomes (at) WHERE state = 5;

CREATE INDEX onefold_outcomes_probes ON onefold_outcomes (coalesce(probe_at, at))
    WHERE state = 5 AND reconciliation IS NULL;

-- The scopes that have live records (made and not yet a tombstone), and how many.
CREATE TABLE onefold_scopes (
    number INTEGER PRIMARY KEY,
    -- Under the store's secret. The scope itself stands in no index: rows of an index move, and leave copies behind.
    digest BLOB NOT NULL UNIQUE,
    live   INTEGER NOT NULL,
    scope  BLOB NOT NULL
) STRICT;

CREATE TABLE onefold_events (
    seq       INTEGER PRIMARY KEY,
    -- operations.seq
    operation INTEGER NOT NULL,
    at        INTEGER NOT NULL,
    -- 0 unknown, 1 resolved, 2 released, 3 late_success, 4 happened, 5 did_not_happen, 6 inconclusive, 7 escalated
    kind      INTEGER NOT NULL,
    attempt   INTEGER NOT NULL,
    who       TEXT NOT NULL,
    reason    TEXT NOT NULL,
    evidence  TEXT NOT NULL
) STRICT;

CREATE INDEX onefold_events_operation ON onefold_events (operation, seq);

-- The results of the steps of resumable operations. They belong to the record and go before it.
CREATE TABLE onefold_steps (
    -- In the order in which they were finished.
    seq       INTEGER PRIMARY KEY,
    -- operations.seq
    operation INTEGER NOT NULL,
    name      TEXT NOT NULL,
    attempt   INTEGER NOT NULL,
    at        INTEGER NOT NULL,
    kept      BLOB NOT NULL,
    UNIQUE (operation, name)
) STRICT;

-- What the business would notice if it happened twice, once for each key, for good. No sweep touches it.
CREATE TABLE onefold_effects (
    key       TEXT PRIMARY KEY,
    -- The operation that asked for it first.
    operation BLOB NOT NULL,
    at        INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The version up to which each entity of a projection has been applied.
CREATE TABLE onefold_projections (
    entity  TEXT PRIMARY KEY,
    version INTEGER NOT NULL,
    at      INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- What came too late to be applied: marked, not lost.
CREATE TABLE onefold_superseded (
    entity    TEXT NOT NULL,
    version   INTEGER NOT NULL,
    operation BLOB NOT NULL,
    at        INTEGER NOT NULL,
    PRIMARY KEY (entity, version, operation)
) STRICT, WITHOUT ROWID;
