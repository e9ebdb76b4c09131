-- Schema 6: what brought the version of a projection, so that the round of a permit can bring it again.

ALTER TABLE onefold.projections
    -- The round in which the version was brought: 0, or the number of the permit.
    ADD COLUMN round integer NOT NULL DEFAULT 0,
    -- inbox.id of the message that brought the version `brought`. NULL: an operation did.
    ADD COLUMN message bytea,
    -- Another one than `version` where a release that does not know these columns has written since.
    ADD COLUMN brought bigint;
