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
