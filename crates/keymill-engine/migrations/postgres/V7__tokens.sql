-- The token list, one JSON text: a single row, which is there from the start, so that it can be locked.
-- Each change raises `revision`. `acts_made` counts the acts that were ever recorded.
CREATE TABLE tokens (
    id        bigint PRIMARY KEY CHECK (id = 1),
    revision  bigint NOT NULL,
    document  text   NOT NULL,
    acts_made bigint NOT NULL
) WITH (fillfactor = 50);
INSERT INTO tokens (id, revision, document, acts_made) VALUES (1, 0, '', 0);

-- What administrators did: when, who, from where, and what. The oldest are removed in time.
CREATE TABLE acts (
    id       bigint PRIMARY KEY,
    acted_at bigint NOT NULL,
    actor    text   NOT NULL,
    origin   text   NOT NULL,
    act      text   NOT NULL
);
