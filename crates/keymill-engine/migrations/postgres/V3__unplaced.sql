-- Names without an ordinal are listed by key, when a space grows: some may be keys of the new
-- generation.
CREATE INDEX names_unplaced ON names (space, key) WHERE ordinal IS NULL;
