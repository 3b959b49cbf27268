-- How far an instance has seen a keyspace that the store lies below, as JSON: an advance goes beyond
-- it. One row for each instance and keyspace, until the advance.
CREATE TABLE sightings (
    space    text COLLATE "C" NOT NULL,
    instance text COLLATE "C" NOT NULL,
    mark     text   NOT NULL,
    seen_at  bigint NOT NULL,
    PRIMARY KEY (space, instance)
);

-- Names are listed by purpose and key. Digests, of which there may be millions, are left out: where
-- they are listed, the primary key passes over few others.
CREATE INDEX names_listed ON names (space, purpose, key)
    WHERE removed_at IS NULL AND purpose <> 'digest';
CREATE INDEX names_removed ON names (space, purpose, key) WHERE removed_at IS NOT NULL;
