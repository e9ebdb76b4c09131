-- Schema 5: what a new operation does without, and what a new message needs above READ COMMITTED.

-- The server reads a check's text anew in each statement that writes to the table, which cost more than the insert of
-- the row. Digests have one length by their type, and what has another is refused where it is read.
ALTER TABLE onefold.operations DROP CONSTRAINT IF EXISTS operations_id_check;

-- Begins with a message of which nothing stands: takes its lock, if nobody has it, and makes the mark that it is
-- processed, which is true once its handler's transaction commits. The time; NULL: it is to be looked at first, since
-- somebody has the lock, entries stand, it says itself that it is too old (a_too_old_at), or the transaction does not
-- see what was committed before it had the lock: then a mark of another round would not be seen.
CREATE OR REPLACE FUNCTION onefold.inbox_begin(
    a_now bigint, a_lock bigint, a_id bytea, a_consumer bytea, a_source bytea, a_message bytea, a_handler bytea,
    a_fingerprint_version smallint, a_fingerprint bytea, a_nonce bigint, a_retention_ms bigint, a_too_old_at bigint,
    a_kept bytea
) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    us bigint;
    moment bigint;
BEGIN
    IF pg_catalog.current_setting('transaction_isolation'::text) <> 'read committed'::text
        OR NOT pg_catalog.pg_try_advisory_xact_lock(a_lock) THEN
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
