-- Schema 3: what brought the version of a projection, so that the round of a permit can bring it again.

-- The round in which the version was brought: 0, or the number of the permit.
ALTER TABLE onefold_projections ADD COLUMN round INTEGER NOT NULL DEFAULT 0;
-- inbox.id of the message that brought the version `brought`. NULL: an operation did.
ALTER TABLE onefold_projections ADD COLUMN message BLOB;
-- Another one than `version` where a release that does not know these columns has written since.
ALTER TABLE onefold_projections ADD COLUMN brought INTEGER;
