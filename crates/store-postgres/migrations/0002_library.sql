-- Schema 2: what a service that uses the library keeps beside its operations. What callers say is bytes, as in schema 1.

-- Effects that the business would notice if they happened twice, for good.
CREATE TABLE onefold.effects (
    key       bytea PRIMARY KEY,
    -- The operation or message that asked for it first.
    operation bytea NOT NULL,
    at        bigint NOT NULL
);

-- The newest version of each entity that was applied.
CREATE TABLE onefold.projections (
    entity  bytea PRIMARY KEY,
    version bigint NOT NULL,
    at      bigint NOT NULL
) WITH (fillfactor = 80);

-- Versions that came too late.
CREATE TABLE onefold.superseded (
    entity    bytea NOT NULL,
    version   bigint NOT NULL,
    operation bytea NOT NULL,
    at        bigint NOT NULL,
    PRIMARY KEY (entity, version, operation)
);

-- The results of the finished steps of resumable operations.
CREATE TABLE onefold.steps (
    operation bytea NOT NULL,
    name      bytea NOT NULL,
    -- In the order of finishing: an operation's steps are finished one after another.
    n         bigint GENERATED ALWAYS AS IDENTITY,
    attempt   integer NOT NULL,
    at        bigint NOT NULL,
    kept      bytea NOT NULL,
    PRIMARY KEY (operation, name)
);

-- The two statements of a new atomic operation, as functions: their inner plans are made once for each connection,
-- whereas an unnamed statement is planned each time. They decide nothing. Operators have exactly the types of pg_catalog's, so
-- that none of another schema fits better.

-- Takes the lock of a key, then looks at what stands in the way: 0 nothing, 1 a record, 2 the key's age, 3 the quota,
-- 4 another transaction that holds the lock: nobody waits for it here, where waiting takes a connection.
-- blind_until: where the transaction may not see all that was committed before it had the lock, the microseconds when
-- it had it. `a_now` is a test's time.
CREATE FUNCTION onefold.atomic_enter(
    a_now bigint, a_id bytea, a_lock bigint, a_bucket bigint, a_live_max bigint, a_key_until bigint,
    OUT now bigint, OUT stands smallint, OUT blind_until bigint
) LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF NOT pg_try_advisory_xact_lock(a_lock) THEN
        stands := 4;
        RETURN;
    END IF;
    now := coalesce(a_now, floor(extract(epoch FROM clock_timestamp()) * 1000::numeric)::bigint);
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        blind_until := floor(extract(epoch FROM clock_timestamp()) * 1000000::numeric)::bigint;
    END IF;
    PERFORM FROM onefold.operations o WHERE o.id = a_id;
    IF FOUND THEN
        stands := 1;
    ELSIF a_key_until <= now THEN
        stands := 2;
    ELSIF a_live_max IS NOT NULL
        AND (SELECT coalesce(sum(s.live), 0) FROM onefold.scopes s WHERE s.bucket = a_bucket) >= a_live_max::numeric THEN
        stands := 3;
    ELSE
        stands := 0;
    END IF;
END $$;

-- Inserts the finished record. No shard: it is not counted.
CREATE FUNCTION onefold.atomic_finish(
    a_now bigint, a_retention_ms bigint, a_tombstone_ms bigint, a_bucket bigint, a_shard smallint, a_on_stale smallint,
    a_fingerprint_version smallint, a_id bytea, a_operation bytea, a_fingerprint bytea, a_scope bytea, a_key bytea,
    a_owner bytea, a_correlation_id bytea, a_ignored bytea, a_state smallint, a_nonce bigint, a_resource_kind bytea,
    a_resource_id bytea, a_kept bytea,
    OUT now bigint
) LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    us bigint := floor(extract(epoch FROM clock_timestamp()) * 1000000::numeric)::bigint;
BEGIN
    now := coalesce(a_now, us / 1000);
    INSERT INTO onefold.operations (place, created_at, due_at, retention_ms, tombstone_ms, bucket, attempt, shard,
        on_stale, fingerprint_version, id, operation, fingerprint, scope, key, owner, correlation_id, ignored, state,
        nonce, ended_at, expires_at, resource_kind, resource_id, kept)
    VALUES (us << 10, now, now + a_retention_ms, a_retention_ms, a_tombstone_ms, a_bucket, 1, a_shard, a_on_stale,
        a_fingerprint_version, a_id, a_operation, a_fingerprint, a_scope, a_key, a_owner, a_correlation_id, a_ignored,
        a_state, a_nonce, now, now + a_retention_ms, a_resource_kind, a_resource_id, a_kept);
    IF a_shard IS NOT NULL THEN
        INSERT INTO onefold.scopes AS s (bucket, shard, live) VALUES (a_bucket, a_shard, 1)
        ON CONFLICT (bucket, shard) DO UPDATE SET live = s.live + excluded.live;
    END IF;
END $$;
