-- Version 3: who measured where. Each run has an identity of its own (RFC 9562), keeps the environment of
-- every later time that it was taken up, and what its devices were told.

ALTER TABLE runs ADD COLUMN uuid TEXT NOT NULL DEFAULT '';

-- Runs of earlier versions get a random one (version 4): when they were begun is not known to the
-- millisecond's order among runs of other databases.
UPDATE runs SET uuid = lower(
    hex(randomblob(4)) || '-' || hex(randomblob(2)) || '-4' || substr(hex(randomblob(2)), 2) || '-'
    || substr('89ab', 1 + (abs(random()) % 4), 1) || substr(hex(randomblob(2)), 2) || '-' || hex(randomblob(6)));

CREATE UNIQUE INDEX runs_by_uuid ON runs (uuid);

-- One row a `--resume`; `environment` is a JSON object of facts.
CREATE TABLE sessions (
    run_id      INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    place       INTEGER NOT NULL,
    started_ms  INTEGER NOT NULL,
    weir        TEXT NOT NULL,
    environment TEXT NOT NULL CHECK (json_valid(environment)),
    PRIMARY KEY (run_id, place)
) STRICT, WITHOUT ROWID;

-- A JSON object: the name of each file that configured the device, and its text.
ALTER TABLE points ADD COLUMN configuration TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(configuration));
