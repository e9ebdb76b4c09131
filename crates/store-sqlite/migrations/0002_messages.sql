-- Schema 2: messages, in and out, permits, and what people did. Nothing of schema 1 is changed.

-- The marks of handled messages, and those that fail.
CREATE TABLE onefold_inbox (
    -- In the order of receiving, never given twice.
    seq                 INTEGER PRIMARY KEY,
    id                  BLOB NOT NULL CHECK (length(id) = 32),
    -- 0, or the number of the permit.
    round               INTEGER NOT NULL,
    -- 0 failing, 1 processed, 2 rejected, 3 superseded, 4 parked
    state               INTEGER NOT NULL,
    failures            INTEGER NOT NULL,
    duplicates          INTEGER NOT NULL DEFAULT 0,
    conflicts           INTEGER NOT NULL DEFAULT 0,
    received_at         INTEGER NOT NULL,
    ended_at            INTEGER NOT NULL,
    -- NULL: never.
    expires_at          INTEGER,
    consumer            TEXT NOT NULL,
    source              TEXT NOT NULL,
    message             TEXT NOT NULL,
    handler             TEXT NOT NULL,
    fingerprint_version INTEGER NOT NULL,
    fingerprint         BLOB NOT NULL,
    reason              TEXT,
    -- The message as a sealed form. Last, so that filters need not walk over it. NULL: it is not kept.
    kept                BLOB,
    UNIQUE (id, round)
) STRICT;

CREATE INDEX onefold_inbox_expires ON onefold_inbox (expires_at) WHERE expires_at IS NOT NULL;

CREATE INDEX onefold_inbox_open ON onefold_inbox (state, ended_at) WHERE state IN (0, 4);

-- The latest version of each entity that messages are about.
CREATE TABLE onefold_entities (
    -- The digest of consumer, source and entity under the store's secret.
    entity  BLOB PRIMARY KEY,
    version INTEGER NOT NULL,
    -- inbox.id of the message that brought it.
    message BLOB NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE onefold_permits (
    -- From 1, never given twice: a permit is revoked, not deleted.
    number         INTEGER PRIMARY KEY,
    consumer       TEXT NOT NULL,
    source         TEXT,
    damaged        TEXT,
    handler        TEXT,
    message        TEXT,
    who            TEXT NOT NULL,
    reason         TEXT NOT NULL,
    granted_at     INTEGER NOT NULL,
    revoked_at     INTEGER,
    revoked_by     TEXT,
    revoked_reason TEXT
) STRICT;

-- What a message on its way out says. Each has exactly one row in outbox_open or in outbox_done beside it, so this row,
-- which is the long one, is written once.
CREATE TABLE onefold_outbox (
    -- In the order of commits, never given twice.
    seq          INTEGER PRIMARY KEY,
    id           TEXT NOT NULL UNIQUE,
    destination  TEXT NOT NULL,
    address      TEXT NOT NULL,
    ordering_key TEXT,
    created_at   INTEGER NOT NULL,
    -- Headers and body as a sealed form.
    form         BLOB NOT NULL
) STRICT;

-- Messages that are not done. Few, so they are found in a small tree.
CREATE TABLE onefold_outbox_open (
    -- outbox.seq
    seq          INTEGER PRIMARY KEY,
    destination  TEXT NOT NULL,
    ordering_key TEXT,
    created_at   INTEGER NOT NULL,
    -- 0 waiting, 1 sending, 3 dead, 4 outcome_unknown
    state        INTEGER NOT NULL,
    -- When it is to be sent; of one that is being sent, when its lease ends. NULL: not by itself, since it is dead or
    -- unknown, or waits behind another one of its ordering key.
    due_at       INTEGER,
    -- When the lease of the latest sending was given.
    granted_at   INTEGER,
    ended_at     INTEGER,
    attempt      INTEGER NOT NULL DEFAULT 0,
    failures     INTEGER NOT NULL DEFAULT 0,
    reason       TEXT,
    -- inbox.id of the message that it came from: the mark of that one stays as long as this row.
    cause        BLOB
) STRICT;

CREATE INDEX onefold_outbox_open_due ON onefold_outbox_open (destination, due_at) WHERE due_at IS NOT NULL;

CREATE INDEX onefold_outbox_open_key ON onefold_outbox_open (destination, ordering_key, seq)
    WHERE ordering_key IS NOT NULL;

CREATE INDEX onefold_outbox_open_cause ON onefold_outbox_open (cause) WHERE cause IS NOT NULL;

CREATE TABLE onefold_outbox_done (
    -- outbox.seq
    seq      INTEGER PRIMARY KEY,
    -- 2 delivered, 5 discarded
    state    INTEGER NOT NULL,
    at       INTEGER NOT NULL,
    attempt  INTEGER NOT NULL,
    failures INTEGER NOT NULL,
    reason   TEXT
) STRICT;

CREATE INDEX onefold_outbox_done_at ON onefold_outbox_done (at);

-- What people did to messages; gone with them.
CREATE TABLE onefold_acts (
    seq     INTEGER PRIMARY KEY,
    -- inbox.id, or the digest of outbox.id.
    message BLOB NOT NULL,
    at      INTEGER NOT NULL,
    -- 0 redriven, 1 delivered, 2 discarded
    kind    INTEGER NOT NULL,
    -- The attempt after which an outgoing message was acted on; the round of an incoming one.
    attempt INTEGER NOT NULL,
    who     TEXT NOT NULL,
    reason  TEXT NOT NULL
) STRICT;

CREATE INDEX onefold_acts_message ON onefold_acts (message, seq);
