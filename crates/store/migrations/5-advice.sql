-- Version 5: advice that was made from a run, and what its check came to. `body` is an `AdviceCheck`.

CREATE TABLE advice (
    run_id INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    place  INTEGER NOT NULL,
    body   TEXT NOT NULL CHECK (json_valid(body)),
    PRIMARY KEY (run_id, place)
) STRICT, WITHOUT ROWID;
