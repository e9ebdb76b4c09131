-- Schema 3: messages, in and out, permits, and what people did. Nothing of schemas 1 and 2 is changed. What callers say
-- is bytes, as there. No sequence orders anything: what a restore leaves of its counter does not matter.
--
-- The functions keep their plans for each connection, as those of schema 2 do. Those that name `outbox_open` are called
-- in transactions at READ COMMITTED, where each of their statements sees what was committed before it; `outbox_put`
-- alone also runs in transactions of the business, of any isolation. The search path is the catalogue's alone, or, in
-- those that are called once for a message and for which setting it would cost much, functions are named with their
-- schema and operators have exactly the types of the catalogue's: so none of another schema fits better.

-- What a message on its way out says. Each has exactly one row in outbox_open or in outbox_done beside it, so this row,
-- which is the long one, is written once.
CREATE TABLE onefold.outbox (
    -- Of one destination and ordering key in the order of commits; of others nearly so.
    place        bigint PRIMARY KEY,
    created_at   bigint NOT NULL,
    id           bytea NOT NULL UNIQUE,
    destination  bytea NOT NULL,
    address      bytea NOT NULL,
    ordering_key bytea,
    -- Headers and body as a sealed form.
    form         bytea NOT NULL
);

-- Messages that are not done. Few and short.
CREATE TABLE onefold.outbox_open (
    -- outbox.place
    place        bigint PRIMARY KEY,
    created_at   bigint NOT NULL,
    -- When it is to be sent; of one that is being sent, when its lease ends. NULL: not by itself, since it is dead or
    -- unknown, or was found to wait behind another one of its ordering key.
    due_at       bigint,
    ended_at     bigint,
    attempt      integer NOT NULL DEFAULT 0,
    failures     integer NOT NULL DEFAULT 0,
    -- 0 waiting, 1 sending, 3 dead, 4 outcome_unknown
    state        smallint NOT NULL DEFAULT 0,
    destination  bytea NOT NULL,
    ordering_key bytea,
    -- inbox.id of the message that it came from: the mark of that one stays as long as this row.
    cause        bytea,
    reason       bytea
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);

CREATE INDEX outbox_open_due ON onefold.outbox_open (destination, due_at, place) WHERE state = 0 AND due_at IS NOT NULL;

CREATE INDEX outbox_open_lease ON onefold.outbox_open (destination, due_at, place) WHERE state = 1;

CREATE INDEX outbox_open_key ON onefold.outbox_open (destination, ordering_key, place) WHERE ordering_key IS NOT NULL;

CREATE INDEX outbox_open_cause ON onefold.outbox_open (cause) WHERE cause IS NOT NULL;

CREATE TABLE onefold.outbox_done (
    -- outbox.place
    place    bigint PRIMARY KEY,
    at       bigint NOT NULL,
    attempt  integer NOT NULL,
    failures integer NOT NULL,
    -- 2 delivered, 5 discarded
    state    smallint NOT NULL,
    reason   bytea
);

CREATE INDEX outbox_done_at ON onefold.outbox_done (at);

-- The marks of handled messages, and those that fail.
CREATE TABLE onefold.inbox (
    -- In the order of receiving: microseconds, then a number by lot. Not quite unique.
    place               bigint NOT NULL,
    received_at         bigint NOT NULL,
    -- 0, or the number of the permit.
    round               integer NOT NULL,
    fingerprint_version smallint NOT NULL,
    id                  bytea NOT NULL,
    consumer            bytea NOT NULL,
    source              bytea NOT NULL,
    message             bytea NOT NULL,
    fingerprint         bytea NOT NULL,
    handler             bytea NOT NULL,
    -- 0 failing, 1 processed, 2 rejected, 3 superseded, 4 parked
    state               smallint NOT NULL,
    -- The transaction that wrote this version: one whose answer was lost recognises its own work by it.
    nonce               bigint NOT NULL,
    failures            integer NOT NULL,
    duplicates          bigint NOT NULL DEFAULT 0,
    conflicts           bigint NOT NULL DEFAULT 0,
    ended_at            bigint NOT NULL,
    -- NULL: never.
    expires_at          bigint,
    reason              bytea,
    -- The message as a sealed form. NULL: it is not kept.
    kept                bytea,
    PRIMARY KEY (id, round)
) WITH (fillfactor = 90);

CREATE INDEX inbox_place ON onefold.inbox (place);

CREATE INDEX inbox_expires ON onefold.inbox (expires_at) WHERE expires_at IS NOT NULL;

CREATE INDEX inbox_open ON onefold.inbox (place) WHERE state IN (0, 4);

-- The latest version of each entity that messages are about.
CREATE TABLE onefold.entities (
    -- The digest of consumer, source and entity under the store's secret.
    entity  bytea PRIMARY KEY,
    version bigint NOT NULL,
    -- inbox.id of the message that brought it.
    message bytea NOT NULL
) WITH (fillfactor = 80);

CREATE TABLE onefold.permits (
    -- From 1, never given twice: a permit is revoked, not deleted.
    number         integer PRIMARY KEY,
    consumer       bytea NOT NULL,
    source         bytea,
    damaged        bytea,
    handler        bytea,
    message        bytea,
    who            bytea NOT NULL,
    reason         bytea NOT NULL,
    granted_at     bigint NOT NULL,
    revoked_at     bigint,
    revoked_by     bytea,
    revoked_reason bytea
);

-- What people did to messages; gone with them.
CREATE TABLE onefold.acts (
    -- Of an incoming message inbox.id; of an outgoing one outbox.id.
    incoming boolean NOT NULL,
    message  bytea NOT NULL,
    -- In the order of acting on one message, from 1.
    n        integer NOT NULL,
    at       bigint NOT NULL,
    -- 0 redriven, 1 delivered, 2 discarded
    kind     smallint NOT NULL,
    -- The attempt after which an outgoing message was acted on; the round of an incoming one.
    attempt  integer NOT NULL,
    who      bytea NOT NULL,
    reason   bytea NOT NULL,
    PRIMARY KEY (incoming, message, n)
);

-- Makes a message; false: its id is known. The lock of the ordering key, if it has one, is held until the transaction
-- ends, and the place is taken under it: so places of one key are in the order of commits, and whoever sees a message sees
-- every earlier one that is not done. Above READ COMMITTED those that were committed since the snapshot are not seen here;
-- there the clock alone orders. Whether it may be sent is not decided here.
CREATE FUNCTION onefold.outbox_put(
    a_now bigint, a_lock bigint, a_id bytea, a_destination bytea, a_address bytea, a_ordering_key bytea, a_form bytea,
    a_cause bytea
) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    latest bigint;
    us bigint;
    made bigint;
    put_at bigint;
BEGIN
    IF a_ordering_key IS NOT NULL THEN
        PERFORM pg_catalog.pg_advisory_xact_lock(a_lock);
        SELECT pg_catalog.max(e.place) INTO latest FROM onefold.outbox_open e
        WHERE e.destination = a_destination AND e.ordering_key = a_ordering_key;
    END IF;
    us := extract(epoch FROM pg_catalog.clock_timestamp()) * 1000000::numeric;
    made := coalesce(a_now, us / 1000);
    put_at := greatest((us << 10) + pg_catalog.floor(pg_catalog.random() * 1024::double precision)::bigint, latest + 1);
    LOOP
        INSERT INTO onefold.outbox (place, created_at, id, destination, address, ordering_key, form)
        VALUES (put_at, made, a_id, a_destination, a_address, a_ordering_key, a_form) ON CONFLICT DO NOTHING;
        EXIT WHEN FOUND;
        PERFORM FROM onefold.outbox m WHERE m.id = a_id;
        IF FOUND THEN
            RETURN false;
        END IF;
        -- The place is another's.
        put_at := put_at + 1;
    END LOOP;
    INSERT INTO onefold.outbox_open (place, created_at, due_at, destination, ordering_key, cause)
    VALUES (put_at, made, made, a_destination, a_ordering_key, a_cause);
    RETURN true;
END $$;

-- Gives at most a_limit messages, looking at no more than a_look, and none that is due before a_from. Rows that somebody
-- else has locked are passed over, so this waits for nobody. A waiting message that has an earlier one of its ordering key
-- before it is set aside (due_at NULL), under a lock that keeps the earlier one from being closed meanwhile: whoever closes
-- that one afterwards sees that it is to let this one go. Whether there is an earlier one is seen in one snapshot with the
-- message itself: places of one key are in the order of commits, so an earlier one is seen with it or is done. The last row
-- has no message: `made` says how far was looked.
CREATE FUNCTION onefold.outbox_take(
    a_now bigint, a_destination bytea, a_limit integer, a_look integer, a_lease_ms bigint, a_hold boolean,
    a_held bytea, a_from bigint,
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
BEGIN
    FOR r IN
        SELECT e.place, e.due_at, e.attempt, e.failures FROM onefold.outbox_open e
        WHERE e.destination = a_destination AND e.state = 1 AND e.due_at >= since AND e.due_at <= moment
        ORDER BY e.due_at, e.place LIMIT a_limit FOR UPDATE SKIP LOCKED
    LOOP
        looked := looked + 1;
        IF a_hold THEN
            UPDATE onefold.outbox_open e SET state = 4, due_at = NULL, ended_at = moment, reason = a_held
            WHERE e.place = r.place;
        ELSE
            UPDATE onefold.outbox_open e SET attempt = e.attempt + 1, due_at = moment + a_lease_ms WHERE e.place = r.place;
            given := given || r.place;
            attempts := attempts || r.attempt + 1;
            failed := failed || r.failures;
        END IF;
    END LOOP;
    -- More may stand there.
    IF looked >= a_limit THEN
        until := since;
    END IF;
    looked := 0;
    LOOP
        room := least(a_limit - cardinality(given), a_look - looked);
        IF room <= 0 THEN
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
        sent AS (
            UPDATE onefold.outbox_open e SET state = 1, attempt = e.attempt + 1, due_at = moment + a_lease_ms
            FROM judged j WHERE e.place = j.place AND j.before IS NULL
            RETURNING e.place, e.attempt, e.failures, j.due_at
        )
        SELECT j.found, j.due_at, j.place, j.aside, j.befores, s.places, s.attempts, s.failed INTO r
        FROM (
            SELECT count(*)::integer AS found, max(d.due_at) AS due_at,
                (array_agg(d.place ORDER BY d.due_at DESC, d.place DESC))[1] AS place,
                array_agg(d.place) FILTER (WHERE d.before IS NOT NULL) AS aside,
                array_agg(d.before) FILTER (WHERE d.before IS NOT NULL) AS befores
            FROM judged d
        ) j, (
            SELECT array_agg(u.place ORDER BY u.due_at, u.place) AS places,
                array_agg(u.attempt ORDER BY u.due_at, u.place) AS attempts,
                array_agg(u.failures ORDER BY u.due_at, u.place) AS failed
            FROM sent u
        ) s;
        EXIT WHEN r.found = 0;
        looked := looked + r.found;
        last_due := r.due_at;
        last_place := r.place;
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
        EXIT WHEN r.found < room;
    END LOOP;
    RETURN QUERY
        SELECT moment, g.attempt, g.failed, m.created_at, m.id, m.address, m.ordering_key, m.form
        FROM unnest(given, attempts, failed) WITH ORDINALITY AS g (place, attempt, failed, n)
        JOIN onefold.outbox m ON m.place = g.place
        ORDER BY g.n;
    RETURN QUERY SELECT moment, NULL::integer, looked, coalesce(until, moment), NULL::bytea, NULL::bytea, NULL::bytea,
        NULL::bytea;
END $$;

-- Lets the first message of an ordering key go, where it was set aside. A statement of its own, so that it sees what was
-- committed while its caller waited for locks.
CREATE FUNCTION onefold.outbox_next(a_now bigint, a_destination bytea, a_ordering_key bytea)
RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    UPDATE onefold.outbox_open e SET due_at = a_now
    WHERE e.place = (
        SELECT min(n.place) FROM onefold.outbox_open n
        WHERE n.destination = a_destination AND n.ordering_key = a_ordering_key
    ) AND e.state = 0 AND e.due_at IS NULL;
END $$;

-- Closes a message that is in one of these states after this attempt, and lets the next one go; false: it is not.
CREATE FUNCTION onefold.outbox_close(
    a_now bigint, a_place bigint, a_attempt integer, a_from smallint, a_or smallint, a_to smallint, a_reason bytea
) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    closed record;
BEGIN
    DELETE FROM onefold.outbox_open e
    WHERE e.place = a_place AND e.attempt = a_attempt AND e.state IN (a_from, a_or)
    RETURNING e.destination, e.ordering_key, e.failures INTO closed;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    INSERT INTO onefold.outbox_done (place, at, attempt, failures, state, reason)
    VALUES (a_place, a_now, a_attempt, closed.failures, a_to, a_reason);
    IF closed.ordering_key IS NOT NULL THEN
        PERFORM onefold.outbox_next(a_now, closed.destination, closed.ordering_key);
    END IF;
    RETURN true;
END $$;

-- Ends sendings: 2 delivered, 0 again after so long, 3 dead, 4 unknown. Locks in the order of places, those that are
-- delivered first.
CREATE FUNCTION onefold.outbox_settle(
    a_now bigint, a_ids bytea[], a_attempts integer[], a_states smallint[], a_after_ms bigint[], a_failures integer[],
    a_reasons bytea[],
    OUT n bigint, OUT ok boolean
) RETURNS SETOF record LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off
    SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    moment bigint := coalesce(a_now, floor(extract(epoch FROM clock_timestamp()) * 1000::numeric)::bigint);
    r record;
BEGIN
    WITH input AS MATERIALIZED (
        SELECT m.place, i.attempt, i.n
        FROM unnest(a_ids, a_attempts, a_states) WITH ORDINALITY AS i (id, attempt, state, n)
        JOIN onefold.outbox m ON m.id = i.id WHERE i.state = 2 ORDER BY m.place
    ),
    closed AS (
        DELETE FROM onefold.outbox_open e USING input i
        WHERE e.place = i.place AND e.attempt = i.attempt AND e.state IN (1, 4)
        RETURNING i.n, e.place, e.attempt, e.failures, e.destination, e.ordering_key
    ),
    done AS (
        INSERT INTO onefold.outbox_done (place, at, attempt, failures, state)
        SELECT c.place, moment, c.attempt, c.failures, 2 FROM closed c
    )
    SELECT array_agg(c.n) AS ns, array_agg(c.destination) FILTER (WHERE c.ordering_key IS NOT NULL) AS destinations,
        array_agg(c.ordering_key) FILTER (WHERE c.ordering_key IS NOT NULL) AS ordering_keys INTO r
    FROM closed c;
    -- A statement of its own, which sees what was committed while that one waited for locks; see outbox_next.
    IF r.ordering_keys IS NOT NULL THEN
        UPDATE onefold.outbox_open e SET due_at = moment
        FROM (
            SELECT (
                SELECT n.place FROM onefold.outbox_open n
                WHERE n.destination = k.destination AND n.ordering_key = k.ordering_key ORDER BY n.place LIMIT 1
            ) AS place
            FROM (SELECT DISTINCT u.* FROM unnest(r.destinations, r.ordering_keys) AS u (destination, ordering_key)) k
        ) f
        WHERE e.place = f.place AND e.state = 0 AND e.due_at IS NULL;
    END IF;
    RETURN QUERY SELECT c.n, true FROM unnest(r.ns) AS c (n);
    FOR r IN
        SELECT i.n, e.place, i.attempt, i.state, i.after_ms, i.failed, i.reason
        FROM unnest(a_ids, a_attempts, a_states, a_after_ms, a_failures, a_reasons)
            WITH ORDINALITY AS i (id, attempt, state, after_ms, failed, reason, n)
        JOIN onefold.outbox m ON m.id = i.id JOIN onefold.outbox_open e ON e.place = m.place
        WHERE i.state <> 2 ORDER BY e.place, i.n FOR UPDATE OF e
    LOOP
        n := r.n;
        UPDATE onefold.outbox_open e SET state = r.state, failures = e.failures + r.failed, reason = r.reason,
            ended_at = moment, due_at = CASE r.state WHEN 0 THEN moment + r.after_ms END
        WHERE e.place = r.place AND e.attempt = r.attempt AND e.state IN (1, 4);
        ok := FOUND;
        RETURN NEXT;
    END LOOP;
END $$;

-- Adds to the history of a message.
CREATE FUNCTION onefold.act(
    a_now bigint, a_incoming boolean, a_message bytea, a_kind smallint, a_attempt integer, a_who bytea, a_reason bytea
) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    INSERT INTO onefold.acts (incoming, message, n, at, kind, attempt, who, reason)
    SELECT a_incoming, a_message, coalesce(max(a.n), 0) + 1, a_now, a_kind, a_attempt, a_who, a_reason
    FROM onefold.acts a WHERE a.incoming = a_incoming AND a.message = a_message;
END $$;

-- A person's act on a message that is dead or unknown after this attempt: 0 sent again, 1 delivered, 2 discarded.
CREATE FUNCTION onefold.outbox_redrive(
    a_now bigint, a_id bytea, a_attempt integer, a_kind smallint, a_after_ms bigint, a_who bytea, a_reason bytea
) RETURNS boolean LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    moment bigint := coalesce(a_now, floor(extract(epoch FROM clock_timestamp()) * 1000::numeric)::bigint);
    found_at bigint;
    acted boolean;
BEGIN
    SELECT m.place INTO found_at FROM onefold.outbox m WHERE m.id = a_id;
    IF a_kind = 0 THEN
        UPDATE onefold.outbox_open e SET state = 0, failures = 0, reason = a_reason, ended_at = moment,
            due_at = moment + a_after_ms
        WHERE e.place = found_at AND e.attempt = a_attempt AND e.state IN (3, 4);
        acted := FOUND;
    ELSE
        acted := onefold.outbox_close(moment, found_at, a_attempt, 3::smallint, 4::smallint,
            CASE a_kind WHEN 1 THEN 2 ELSE 5 END::smallint, a_reason);
    END IF;
    IF acted THEN
        PERFORM onefold.act(moment, false, a_id, a_kind, a_attempt, a_who, a_reason);
    END IF;
    RETURN acted;
END $$;

-- Begins with a message of which nothing stands: takes its lock, if nobody has it, and makes the mark that it is
-- processed, which is true once its handler's transaction commits. The time; NULL: it is to be looked at first, since
-- somebody has the lock, entries stand, or it says itself that it is too old (a_too_old_at).
CREATE FUNCTION onefold.inbox_begin(
    a_now bigint, a_lock bigint, a_id bytea, a_consumer bytea, a_source bytea, a_message bytea, a_handler bytea,
    a_fingerprint_version smallint, a_fingerprint bytea, a_nonce bigint, a_retention_ms bigint, a_too_old_at bigint,
    a_kept bytea
) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    us bigint;
    moment bigint;
BEGIN
    IF NOT pg_catalog.pg_try_advisory_xact_lock(a_lock) THEN
        RETURN NULL;
    END IF;
    us := extract(epoch FROM pg_catalog.clock_timestamp()) * 1000000::numeric;
    moment := coalesce(a_now, us / 1000);
    IF a_too_old_at <= moment THEN
        RETURN NULL;
    END IF;
    INSERT INTO onefold.inbox (place, received_at, round, fingerprint_version, id, consumer, source, message,
        fingerprint, handler, state, nonce, failures, ended_at, expires_at, kept)
    SELECT (us << 10) + (a_nonce & 1023::bigint), moment, 0, a_fingerprint_version, a_id, a_consumer, a_source, a_message,
        a_fingerprint, a_handler, 1, a_nonce, 0, moment, moment + a_retention_ms, a_kept
    WHERE NOT EXISTS (SELECT FROM onefold.inbox i WHERE i.id = a_id)
    ON CONFLICT (id, round) DO NOTHING;
    RETURN CASE WHEN FOUND THEN moment END;
END $$;

-- Writes the mark of a message over the one that fails, if there is one. Any other that stands there is an error, so that
-- the COMMIT that is under way behind this rolls back. a_floor: it stays at least until then; a_retention_ms NULL: for good.
CREATE FUNCTION onefold.inbox_put(
    a_now bigint, a_id bytea, a_round integer, a_consumer bytea, a_source bytea, a_message bytea, a_handler bytea,
    a_fingerprint_version smallint, a_fingerprint bytea, a_state smallint, a_nonce bigint, a_failures integer,
    a_retention_ms bigint, a_floor bigint, a_reason bytea, a_kept bytea
) RETURNS bigint LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    us bigint := floor(extract(epoch FROM clock_timestamp()) * 1000000::numeric)::bigint;
    moment bigint := coalesce(a_now, us / 1000);
BEGIN
    INSERT INTO onefold.inbox AS i (place, received_at, round, fingerprint_version, id, consumer, source, message,
        fingerprint, handler, state, nonce, failures, ended_at, expires_at, reason, kept)
    VALUES ((us << 10) + floor(random() * 1024::double precision)::bigint, moment, a_round, a_fingerprint_version, a_id,
        a_consumer, a_source, a_message, a_fingerprint, a_handler, a_state, a_nonce, a_failures, moment,
        greatest(moment + a_retention_ms, CASE WHEN a_retention_ms IS NOT NULL THEN a_floor END), a_reason, a_kept)
    ON CONFLICT (id, round) DO UPDATE SET state = excluded.state, nonce = excluded.nonce, failures = excluded.failures,
        ended_at = excluded.ended_at, expires_at = excluded.expires_at, handler = excluded.handler,
        reason = excluded.reason,
        kept = CASE WHEN excluded.state IN (0, 4) THEN coalesce(excluded.kept, i.kept) ELSE excluded.kept END
    WHERE i.state = 0 AND i.fingerprint = excluded.fingerprint AND i.fingerprint_version = excluded.fingerprint_version;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the message is marked' USING ERRCODE = 'unique_violation', SCHEMA = 'onefold', TABLE = 'inbox';
    END IF;
    RETURN moment;
END $$;

-- Writes a permit under the next number, alone.
CREATE FUNCTION onefold.permit_grant(
    a_now bigint, a_lock bigint, a_consumer bytea, a_source bytea, a_damaged bytea, a_handler bytea, a_message bytea,
    a_who bytea, a_reason bytea,
    OUT given integer, OUT at bigint
) LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(a_lock);
    at := coalesce(a_now, floor(extract(epoch FROM clock_timestamp()) * 1000::numeric)::bigint);
    SELECT coalesce(max(p.number), 0) + 1 INTO given FROM onefold.permits p;
    INSERT INTO onefold.permits (number, consumer, source, damaged, handler, message, who, reason, granted_at)
    VALUES (given, a_consumer, a_source, a_damaged, a_handler, a_message, a_who, a_reason, at);
END $$;
