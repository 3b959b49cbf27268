-- How far instances have seen a keyspace, while the store lies below that: an advance goes beyond it.
-- `mark` is JSON.
CREATE TABLE IF NOT EXISTS sightings (
    space    VARBINARY(255) NOT NULL,
    instance VARBINARY(64)  NOT NULL,
    mark     BLOB           NOT NULL,
    seen_at  BIGINT         NOT NULL,
    PRIMARY KEY (space, instance)
) ENGINE = InnoDB;

-- Names of one purpose by key: a list of aliases must not pass over millions of other names. MySQL
-- knows no CREATE INDEX IF NOT EXISTS, and this may be run again after an interruption.
SET @add_index = IF(
    EXISTS (
        SELECT 1 FROM information_schema.statistics
        WHERE table_schema = DATABASE() AND table_name = 'names' AND index_name = 'names_by_purpose'
    ),
    'DO 0',
    'CREATE INDEX names_by_purpose ON names (space, purpose, `key`)'
);
PREPARE add_index FROM @add_index;
EXECUTE add_index;
DEALLOCATE PREPARE add_index;
