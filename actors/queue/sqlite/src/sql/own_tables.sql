-- Tables of our own.

CREATE TABLE IF NOT EXISTS orchestrator_meta (
    name text PRIMARY KEY,
    value integer NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS orchestrator_ready (
    fetcher_id integer NOT NULL,
    run_started integer NOT NULL,
    class integer NOT NULL,
    is_held integer NOT NULL,
    started_key integer NOT NULL,
    jitter_key integer NOT NULL,
    attr_path text NOT NULL,
    PRIMARY KEY (fetcher_id, run_started, class, is_held, started_key, jitter_key, attr_path)
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS orchestrator_deleted_run (
    fetcher_id integer NOT NULL,
    run_started integer NOT NULL,
    PRIMARY KEY (fetcher_id, run_started)
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS orchestrator_handout (
    handout_id integer PRIMARY KEY,
    attr_path text NOT NULL UNIQUE,
    fetcher_id integer NOT NULL,
    started integer NOT NULL,
    runs text NOT NULL,
    had_log integer NOT NULL,
    previous_started integer,
    previous_finished integer,
    previous_exit_code integer,
    delivered integer NOT NULL DEFAULT 0
) STRICT;
CREATE TABLE IF NOT EXISTS orchestrator_attempt (
    started integer NOT NULL,
    handout_id integer NOT NULL,
    attr_path text NOT NULL,
    fetcher text,
    connection text NOT NULL,
    previous_started integer,
    previous_finished integer,
    previous_exit_code integer,
    PRIMARY KEY (started, handout_id)
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS orchestrator_failure (
    number integer PRIMARY KEY,
    attr_path text NOT NULL,
    started integer NOT NULL,
    finished integer NOT NULL,
    exit_code integer NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS orchestrator_run (
    fetcher_id integer NOT NULL,
    run_started integer NOT NULL,
    added integer NOT NULL,
    PRIMARY KEY (fetcher_id, run_started)
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS orchestrator_bump (
    attr_path text PRIMARY KEY,
    number integer NOT NULL,
    handout_id integer
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS orchestrator_limited (
    attr_path text PRIMARY KEY,
    fetcher text
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS orchestrator_offer (
    attr_path text NOT NULL,
    fetcher_id integer NOT NULL,
    claim text NOT NULL,
    state integer NOT NULL DEFAULT 0,
    exit_code integer,
    seconds integer,
    finished integer,
    PRIMARY KEY (attr_path, fetcher_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS orchestrator_handout_delivered ON orchestrator_handout (started) WHERE delivered = 1;
-- Nothing reads it. Former programs recognise their tables by the number of objects: with one more than they have, they make theirs again.
CREATE VIEW IF NOT EXISTS orchestrator_version AS SELECT value FROM orchestrator_meta WHERE name = 'own_version';
