-- Version 1: runs, their points, results, trials and histograms.
--
-- Units stand in the column names: _ms milliseconds since 1970 UTC, _ns nanoseconds, _pps packets
-- a second, _bps bits a second. Ratios are 0 to 1. Counts above 2^63 are kept as their bit pattern.

PRAGMA application_id = 1466263922; -- "Weir" in ASCII

CREATE TABLE runs (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    schema     INTEGER NOT NULL,
    name       TEXT NOT NULL UNIQUE,
    started_ms INTEGER NOT NULL,
    ended_ms   INTEGER,
    state      TEXT NOT NULL CHECK (state IN ('running', 'finished', 'interrupted')),
    plan       TEXT NOT NULL,
    weir       TEXT NOT NULL
) STRICT;

CREATE TABLE environment (
    run_id INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    name   TEXT NOT NULL,
    value  TEXT NOT NULL,
    PRIMARY KEY (run_id, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE points (
    id               INTEGER PRIMARY KEY,
    run_id           INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    place            INTEGER NOT NULL,
    nf               TEXT NOT NULL,
    dut              TEXT NOT NULL,
    wiring           TEXT NOT NULL,
    trace            TEXT NOT NULL,
    size             TEXT NOT NULL,
    mean_frame_bytes REAL NOT NULL,
    directions       INTEGER NOT NULL,
    huge_pages       INTEGER NOT NULL CHECK (huge_pages IN (0, 1)),
    line_rate_bps    REAL NOT NULL,
    dut_version      TEXT,
    error            TEXT,
    finished         INTEGER NOT NULL DEFAULT 0 CHECK (finished IN (0, 1)),
    UNIQUE (run_id, place)
) STRICT;

CREATE INDEX points_by_dut ON points (nf, dut);

-- One row a verdict; the columns a kind does not know are NULL.
CREATE TABLE results (
    id                INTEGER PRIMARY KEY,
    point_id          INTEGER NOT NULL REFERENCES points (id) ON DELETE CASCADE,
    place             INTEGER NOT NULL,
    kind              TEXT NOT NULL CHECK (kind IN ('throughput', 'mrr', 'latency')),
    label             TEXT,     -- throughput: the goal; latency: how the load was stated
    loss_ratio        REAL,
    throughput_pps    REAL,
    lower_pps         REAL,
    upper_pps         REAL,
    irregular         TEXT,
    trial_duration_ns INTEGER,
    duration_sum_ns   INTEGER,
    trials            INTEGER,
    load_pps          REAL,     -- mrr, latency
    mean_pps          REAL,     -- mrr
    deviation_pps     REAL,     -- mrr
    cycles_per_packet REAL,     -- mrr
    trial             INTEGER,  -- latency: trials.sequence within the point
    UNIQUE (point_id, place)
) STRICT;

CREATE TABLE mrr_rates (
    result_id INTEGER NOT NULL REFERENCES results (id) ON DELETE CASCADE,
    place     INTEGER NOT NULL,
    rate_pps  REAL NOT NULL,
    PRIMARY KEY (result_id, place)
) STRICT, WITHOUT ROWID;

CREATE TABLE trials (
    id          INTEGER PRIMARY KEY,
    point_id    INTEGER NOT NULL REFERENCES points (id) ON DELETE CASCADE,
    sequence    INTEGER NOT NULL,
    purpose     TEXT NOT NULL CHECK (purpose IN ('warm-up', 'search', 'latency', 'mrr')),
    started_ms  INTEGER NOT NULL,
    superseded  INTEGER NOT NULL DEFAULT 0 CHECK (superseded IN (0, 1)),
    load_pps    REAL NOT NULL,
    duration_ns INTEGER NOT NULL,
    elapsed_ns  INTEGER NOT NULL,
    overhead_ns INTEGER NOT NULL,
    UNIQUE (point_id, sequence)
) STRICT;

CREATE TABLE directions (
    trial_id   INTEGER NOT NULL REFERENCES trials (id) ON DELETE CASCADE,
    direction  INTEGER NOT NULL,
    intended   INTEGER NOT NULL,
    sent       INTEGER NOT NULL,
    refused    INTEGER NOT NULL,
    unsent     INTEGER NOT NULL,
    received   INTEGER NOT NULL,
    duplicated INTEGER NOT NULL,
    reordered  INTEGER NOT NULL,
    late       INTEGER NOT NULL,
    foreign_packets INTEGER NOT NULL,
    stamped    INTEGER NOT NULL,
    PRIMARY KEY (trial_id, direction)
) STRICT, WITHOUT ROWID;

-- The histogram is HdrHistogram V2, compressed.
CREATE TABLE latencies (
    trial_id  INTEGER PRIMARY KEY REFERENCES trials (id) ON DELETE CASCADE,
    count     INTEGER NOT NULL,
    min_ns    INTEGER NOT NULL,
    mean_ns   REAL NOT NULL,
    p50_ns    INTEGER NOT NULL,
    p90_ns    INTEGER NOT NULL,
    p99_ns    INTEGER NOT NULL,
    p99_9_ns  INTEGER NOT NULL,
    p99_99_ns INTEGER NOT NULL,
    max_ns    INTEGER NOT NULL,
    histogram BLOB NOT NULL
) STRICT;

CREATE TABLE dut_readings (
    trial_id          INTEGER PRIMARY KEY REFERENCES trials (id) ON DELETE CASCADE,
    received          INTEGER NOT NULL,
    sent              INTEGER NOT NULL,
    elapsed_ns        INTEGER NOT NULL,
    cpu_ns            INTEGER NOT NULL,
    cycles_per_packet REAL
) STRICT;
