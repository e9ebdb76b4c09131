-- Schema 1: operations with their leases and outcomes, what is open, their history, the quota of scopes, and what
-- belongs to the store itself. Times are milliseconds since the Unix epoch by the server's clock. What callers say is
-- bytes: no collation folds it and no zero byte breaks it. No triggers, no foreign keys, no sequence on the hot path.

-- identity_secret: the 32 bytes under which identities are digested, as a payload form (sealed when keys are set).
CREATE TABLE onefold.meta (
    name  text PRIMARY KEY,
    value bytea NOT NULL
);

-- The names of the keys under which payloads may be sealed.
CREATE TABLE onefold.seal_keys (
    id bytea PRIMARY KEY
);

-- One row for each operation. A claim inserts it; an outcome updates it in place: no column of an index changes and
-- pages keep room for the longer version, so the indexes are not touched again (a heap-only update). What an outcome
-- changes stands behind what it does not, since the server logs an update from its first changed byte on.
CREATE TABLE onefold.operations (
    -- In the order of making: microseconds of the claim, then its number in the batch. Not quite unique.
    place               bigint NOT NULL,
    created_at          bigint NOT NULL,
    -- When the sweeper looks at the record: never later than its expiry, or the end of its tombstone. It is set by
    -- a claim and not by an outcome; a sweeper that comes too early sets it right.
    due_at              bigint,
    -- What the record promises: how long it answers after completion (NULL: for good), then as a tombstone.
    retention_ms        bigint,
    tombstone_ms        bigint NOT NULL,
    -- Where its scope is counted: scopes.bucket and .shard. NULL: a tombstone.
    bucket              bigint,
    attempt             integer NOT NULL,
    shard               smallint,
    -- 0 unknown, 1 resume, 2 reconcile
    on_stale            smallint NOT NULL,
    fingerprint_version smallint,
    id                  bytea PRIMARY KEY CHECK (octet_length(id) = 32),
    operation           bytea NOT NULL,
    -- Of a tombstone what callers said is NULL, from here to the end.
    fingerprint         bytea,
    scope               bytea,
    key                 bytea,
    owner               bytea,
    correlation_id      bytea,
    ignored             bytea,
    -- 1 processing, 2 succeeded, 3 rejected, 4 failed, 5 outcome_unknown
    state               smallint NOT NULL,
    -- The transition that wrote this version: a repeated request recognises its own work by it.
    nonce               bigint NOT NULL,
    -- While processing.
    lease_until         bigint,
    -- When the record came into its present state. NULL while processing.
    ended_at            bigint,
    -- NULL: never.
    expires_at          bigint,
    -- While the outcome is unknown: how often it was asked for, when it is due again (NULL: it is not asked for), when
    -- the authority first knew no effect.
    probe_at            bigint,
    negative_at         bigint,
    probes              integer,
    -- NULL open, 1 may retry, 2 escalated, 3 settled by a verdict
    reconciliation      smallint,
    -- NULL: none.
    duplicates          bigint,
    conflicts           bigint,
    replays             bigint,
    resource_kind       bytea,
    resource_id         bytea,
    -- NULL: nothing is kept.
    kept                bytea
) WITH (fillfactor = 40);

CREATE INDEX operations_place ON onefold.operations (place);

CREATE INDEX operations_due ON onefold.operations (due_at) WHERE due_at IS NOT NULL;

-- Which operations run or are unknown. Only a way to find them: whether they still are, their own rows say. Few, so
-- whoever looks for ends of leases looks at all of them.
CREATE TABLE onefold.open (
    id            bytea PRIMARY KEY,
    -- NULL: it runs.
    unknown_since bigint,
    -- As in the operation's own row. Many that are unknown wait for a person, and are not to be looked at each time.
    probe_at      bigint
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

-- How many live records (made and not yet a tombstone) a scope has: the sum of its shards. Each gateway writes
-- shards of its own as far as there are enough, so that none waits for the commit of another.
CREATE TABLE onefold.scopes (
    -- Of the scope's digest under the store's secret.
    bucket bigint NOT NULL,
    shard  smallint NOT NULL,
    live   bigint NOT NULL,
    PRIMARY KEY (bucket, shard)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

CREATE TABLE onefold.events (
    id       bytea NOT NULL,
    -- In the order of writing. Events are rare.
    n        bigint GENERATED ALWAYS AS IDENTITY,
    at       bigint NOT NULL,
    -- 0 unknown, 1 resolved, 2 released, 3 late_success, 4 happened, 5 did_not_happen, 6 inconclusive, 7 escalated
    kind     smallint NOT NULL,
    attempt  integer NOT NULL,
    who      bytea NOT NULL,
    reason   bytea NOT NULL,
    evidence bytea NOT NULL,
    PRIMARY KEY (id, n)
);
