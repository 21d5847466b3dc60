-- Tables of the original (CONTRACT QD08 to QD10).

CREATE TABLE fetchers (
    fetcher_id integer PRIMARY KEY AUTOINCREMENT,
    name text NOT NULL UNIQUE
) STRICT;
CREATE TABLE fetcher_runs (
    fetcher_id integer NOT NULL REFERENCES fetchers (fetcher_id),
    run_started integer NOT NULL,
    is_complete integer NOT NULL DEFAULT 0,
    PRIMARY KEY (fetcher_id, run_started)
) STRICT;
CREATE TABLE queue (
    fetcher_id integer NOT NULL,
    fetcher_run_started integer NOT NULL,
    attr_path text NOT NULL,
    payload text NOT NULL,
    is_dequeued integer NOT NULL DEFAULT 0,
    last_started integer,
    PRIMARY KEY (fetcher_run_started, fetcher_id, attr_path),
    FOREIGN KEY (fetcher_id, fetcher_run_started) REFERENCES fetcher_runs (fetcher_id, run_started) ON DELETE CASCADE
) STRICT;
CREATE TABLE log (
    attr_path text PRIMARY KEY,
    started integer NOT NULL,
    finished integer,
    exit_code integer
) STRICT, WITHOUT ROWID;
