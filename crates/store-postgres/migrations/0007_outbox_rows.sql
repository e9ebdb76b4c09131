-- Schema 7: fewer rows are locked for what does not fit.

-- As before, but where few bytes are left it looks at few rows at a time, more with each look that fits: what it locks and
-- does not give, no other relay finds meanwhile.
CREATE OR REPLACE FUNCTION onefold.outbox_take(
    a_now bigint, a_destination bytea, a_limit integer, a_look integer, a_lease_ms bigint, a_hold boolean,
    a_held bytea, a_from bigint, a_bytes bigint, a_first boolean,
    OUT now bigint, OUT attempt integer, OUT failures integer, OUT made bigint, OUT id bytea, OUT address bytea,
    OUT ordering_key bytea, OUT form bytea
) RETURNS SETOF record LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off
    SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    moment bigint := coalesce(a_now, floor(extract(epoch FROM clock_timestamp()) * 1000::numeric)::bigint);
    since bigint := coalesce(a_from, -9223372036854775808);
    given bigint[] := '{}';
    attempts integer[] := '{}';
    failed integer[] := '{}';
    aside bigint[];
    r record;
    looked integer := 0;
    until bigint;
    -- What the look before has ended with.
    last_due bigint := since;
    last_place bigint := -9223372036854775808;
    room integer;
    -- Rows that a look locks at least, and what a message is guessed to be long.
    step integer := 32;
    guess bigint := 65536;
    -- The forms of what is given.
    given_bytes bigint := 0;
    is_full boolean := false;
BEGIN
    FOR r IN
        SELECT e.place, e.due_at, e.attempt, e.failures, octet_length(m.form) AS length
        FROM onefold.outbox_open e JOIN onefold.outbox m ON m.place = e.place
        WHERE e.destination = a_destination AND e.state = 1 AND e.due_at >= since AND e.due_at <= moment
        ORDER BY e.due_at, e.place LIMIT a_limit FOR UPDATE OF e SKIP LOCKED
    LOOP
        IF a_hold THEN
            UPDATE onefold.outbox_open e SET state = 4, due_at = NULL, ended_at = moment, reason = a_held
            WHERE e.place = r.place;
        ELSE
            IF given_bytes + r.length > a_bytes AND NOT (a_first AND cardinality(given) = 0) THEN
                is_full := true;
                EXIT;
            END IF;
            given_bytes := given_bytes + r.length;
            UPDATE onefold.outbox_open e SET attempt = e.attempt + 1, due_at = moment + a_lease_ms WHERE e.place = r.place;
            given := given || r.place;
            attempts := attempts || r.attempt + 1;
            failed := failed || r.failures;
        END IF;
        looked := looked + 1;
    END LOOP;
    -- More may stand there.
    IF is_full OR looked >= a_limit THEN
        until := since;
    END IF;
    looked := 0;
    LOOP
        room := least(a_limit - cardinality(given), a_look - looked,
            greatest(step, least((a_bytes - given_bytes) / guess, 2147483647)::integer));
        IF is_full OR room <= 0 THEN
            until := least(until, last_due);
            EXIT;
        END IF;
        WITH due AS MATERIALIZED (
            SELECT e.place, e.due_at, e.ordering_key FROM onefold.outbox_open e
            WHERE e.destination = a_destination AND e.state = 0 AND e.due_at <= moment
                AND (e.due_at, e.place) > (last_due, last_place)
            ORDER BY e.due_at, e.place LIMIT room FOR UPDATE SKIP LOCKED
        ),
        judged AS MATERIALIZED (
            SELECT d.place, d.due_at, CASE WHEN d.ordering_key IS NOT NULL THEN (
                SELECT b.place FROM onefold.outbox_open b
                WHERE b.destination = a_destination AND b.ordering_key = d.ordering_key AND b.place < d.place
                ORDER BY b.place DESC LIMIT 1
            ) END AS before FROM due d
        ),
        measured AS MATERIALIZED (
            SELECT j.place, j.due_at, j.before,
                sum(CASE WHEN j.before IS NULL THEN octet_length(m.form) ELSE 0 END)
                    OVER (ORDER BY j.due_at, j.place) AS bytes,
                count(*) FILTER (WHERE j.before IS NULL) OVER (ORDER BY j.due_at, j.place) AS n
            FROM judged j JOIN onefold.outbox m ON m.place = j.place
        ),
        fit AS MATERIALIZED (
            SELECT f.place, f.due_at, f.before, f.bytes FROM measured f
            WHERE f.n = 0 OR given_bytes + f.bytes <= a_bytes OR (a_first AND cardinality(given) = 0 AND f.n = 1)
        ),
        sent AS (
            UPDATE onefold.outbox_open e SET state = 1, attempt = e.attempt + 1, due_at = moment + a_lease_ms
            FROM fit f WHERE e.place = f.place AND f.before IS NULL
            RETURNING e.place, e.attempt, e.failures, f.due_at
        )
        SELECT d.found AS found, j.fit AS fit, j.bytes, j.due_at, j.place, j.aside, j.befores,
            s.places, s.attempts, s.failed INTO r
        FROM (SELECT count(*)::integer AS found FROM due) d, (
            SELECT count(*)::integer AS fit, max(f.due_at) AS due_at, max(f.bytes) AS bytes,
                (array_agg(f.place ORDER BY f.due_at DESC, f.place DESC))[1] AS place,
                array_agg(f.place) FILTER (WHERE f.before IS NOT NULL) AS aside,
                array_agg(f.before) FILTER (WHERE f.before IS NOT NULL) AS befores
            FROM fit f
        ) j, (
            SELECT array_agg(u.place ORDER BY u.due_at, u.place) AS places,
                array_agg(u.attempt ORDER BY u.due_at, u.place) AS attempts,
                array_agg(u.failures ORDER BY u.due_at, u.place) AS failed
            FROM sent u
        ) s;
        EXIT WHEN r.found = 0;
        is_full := r.fit < r.found;
        CONTINUE WHEN r.fit = 0;
        looked := looked + r.fit;
        last_due := r.due_at;
        last_place := r.place;
        given_bytes := given_bytes + r.bytes;
        given := given || r.places;
        attempts := attempts || r.attempts;
        failed := failed || r.failed;
        IF r.aside IS NOT NULL THEN
            WITH held AS MATERIALIZED (
                SELECT a.place FROM unnest(r.aside, r.befores) AS a (place, before)
                JOIN onefold.outbox_open b ON b.place = a.before FOR KEY SHARE OF b SKIP LOCKED
            )
            SELECT array_agg(h.place) INTO aside FROM held h;
            -- Behind it: a row that this statement has changed could not be locked in it.
            UPDATE onefold.outbox_open e SET due_at = NULL FROM unnest(aside) AS a (place) WHERE e.place = a.place;
        END IF;
        EXIT WHEN r.found < room AND NOT is_full;
        step := least(step * 2, 65536);
    END LOOP;
    RETURN QUERY
        SELECT moment, g.attempt, g.failed, m.created_at, m.id, m.address, m.ordering_key, m.form
        FROM unnest(given, attempts, failed) WITH ORDINALITY AS g (place, attempt, failed, n)
        JOIN onefold.outbox m ON m.place = g.place
        ORDER BY g.n;
    RETURN QUERY SELECT moment, NULL::integer, looked, coalesce(until, moment), NULL::bytea, NULL::bytea, NULL::bytea,
        NULL::bytea;
END $$;

-- The one for earlier releases, which know no lengths.
CREATE OR REPLACE FUNCTION onefold.outbox_take(
    a_now bigint, a_destination bytea, a_limit integer, a_look integer, a_lease_ms bigint, a_hold boolean,
    a_held bytea, a_from bigint,
    OUT now bigint, OUT attempt integer, OUT failures integer, OUT made bigint, OUT id bytea, OUT address bytea,
    OUT ordering_key bytea, OUT form bytea
) RETURNS SETOF record LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY SELECT t.now, t.attempt, t.failures, t.made, t.id, t.address, t.ordering_key, t.form
        FROM onefold.outbox_take(a_now, a_destination, a_limit, a_look, a_lease_ms, a_hold, a_held, a_from,
            9223372036854775807::bigint, true) t;
END $$;
