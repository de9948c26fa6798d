-- Version 2: verdicts, health, packet checks, self-checks; results of any kind.
--
-- Foreign keys are off while this runs: tables that others refer to are made anew under their name.

-- A verdict of a method is one JSON object (`PointResult`): kinds differ, and nobody asks SQL for
-- their fields.
CREATE TABLE results_2 (
    id       INTEGER PRIMARY KEY,
    point_id INTEGER NOT NULL REFERENCES points (id) ON DELETE CASCADE,
    place    INTEGER NOT NULL,
    body     TEXT NOT NULL CHECK (json_valid(body)),
    UNIQUE (point_id, place)
) STRICT;

INSERT INTO results_2
SELECT id, point_id, place, CASE kind
    WHEN 'throughput' THEN json_object(
        'kind', kind, 'goal', label,
        'loss_ratio', json(printf('%!.17g', loss_ratio)),
        'throughput', json(iif(throughput_pps IS NULL, 'null', printf('%!.17g', throughput_pps))),
        'lower', json(iif(lower_pps IS NULL, 'null', printf('%!.17g', lower_pps))),
        'upper', json(iif(upper_pps IS NULL, 'null', printf('%!.17g', upper_pps))),
        'irregular', irregular,
        'trial_duration', json(printf('%u', trial_duration_ns)),
        'duration_sum', json(printf('%u', duration_sum_ns)),
        'trials', trials)
    WHEN 'mrr' THEN json_object(
        'kind', kind,
        'load', json(iif(load_pps IS NULL, 'null', printf('%!.17g', load_pps))),
        'rates', (SELECT json_group_array(json(printf('%!.17g', rate_pps)))
                  FROM (SELECT rate_pps FROM mrr_rates WHERE result_id = results.id ORDER BY place)),
        'mean', json(printf('%!.17g', mean_pps)),
        'deviation', json(printf('%!.17g', deviation_pps)),
        'cycles_per_packet', json(iif(cycles_per_packet IS NULL, 'null', printf('%!.17g', cycles_per_packet))))
    ELSE json_object(
        'kind', kind, 'label', label, 'load', json(printf('%!.17g', load_pps)), 'trial', trial)
    END
FROM results;

DROP TABLE mrr_rates;
DROP TABLE results;
ALTER TABLE results_2 RENAME TO results;

-- Purposes are checked where they are read; `facts` is JSON: verdict, health, packets.
CREATE TABLE trials_2 (
    id          INTEGER PRIMARY KEY,
    point_id    INTEGER NOT NULL REFERENCES points (id) ON DELETE CASCADE,
    sequence    INTEGER NOT NULL,
    purpose     TEXT NOT NULL,
    started_ms  INTEGER NOT NULL,
    superseded  INTEGER NOT NULL DEFAULT 0 CHECK (superseded IN (0, 1)),
    load_pps    REAL NOT NULL,
    duration_ns INTEGER NOT NULL,
    elapsed_ns  INTEGER NOT NULL,
    overhead_ns INTEGER NOT NULL,
    facts       TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(facts)),
    UNIQUE (point_id, sequence)
) STRICT;

INSERT INTO trials_2
SELECT id, point_id, sequence, purpose, started_ms, superseded, load_pps, duration_ns, elapsed_ns, overhead_ns, '{}'
FROM trials;

DROP TABLE trials;
ALTER TABLE trials_2 RENAME TO trials;

ALTER TABLE directions ADD COLUMN damaged INTEGER NOT NULL DEFAULT 0;

ALTER TABLE dut_readings ADD COLUMN details TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(details));

ALTER TABLE points ADD COLUMN trace_hashes TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(trace_hashes));
ALTER TABLE points ADD COLUMN seed INTEGER NOT NULL DEFAULT 0;
ALTER TABLE points ADD COLUMN packets TEXT CHECK (json_valid(packets));

CREATE TABLE self_checks (
    run_id INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    place  INTEGER NOT NULL,
    body   TEXT NOT NULL CHECK (json_valid(body)),
    PRIMARY KEY (run_id, place)
) STRICT, WITHOUT ROWID;
