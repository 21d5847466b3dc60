//! Queue databases as the original creates them: its tables, indexes and triggers, without a write-ahead log.
//! The schema follows CONTRACT QD08 to QD10 and is independent of the queue's own.

use std::path::Path;

use rusqlite::Connection;

const TABLES: &str = "
CREATE TABLE fetchers (fetcher_id integer PRIMARY KEY AUTOINCREMENT, name text NOT NULL UNIQUE) STRICT;
CREATE TABLE fetcher_runs (
  fetcher_id integer NOT NULL REFERENCES fetchers (fetcher_id), run_started integer NOT NULL,
  is_complete integer NOT NULL DEFAULT 0, PRIMARY KEY (fetcher_id, run_started)) STRICT;
CREATE TABLE queue (
  fetcher_id integer NOT NULL, fetcher_run_started integer NOT NULL, attr_path text NOT NULL, payload text NOT NULL,
  is_dequeued integer NOT NULL DEFAULT 0, last_started integer,
  PRIMARY KEY (fetcher_run_started, fetcher_id, attr_path),
  FOREIGN KEY (fetcher_id, fetcher_run_started) REFERENCES fetcher_runs (fetcher_id, run_started) ON DELETE CASCADE
) STRICT;
CREATE TABLE log (
  attr_path text PRIMARY KEY, started integer NOT NULL, finished integer, exit_code integer) STRICT, WITHOUT ROWID;
CREATE INDEX fetcher_run_started_index ON fetcher_runs (run_started, fetcher_id);
CREATE INDEX queue_order_index ON queue (last_started, attr_path, fetcher_id, fetcher_run_started DESC);
CREATE INDEX queue_attr_path_index ON queue (attr_path);
CREATE TRIGGER fetcher_runs_delete AFTER DELETE ON fetcher_runs
WHEN (SELECT count(*) FROM fetcher_runs WHERE fetcher_id = OLD.fetcher_id) = 0
BEGIN DELETE FROM fetchers WHERE fetcher_id = OLD.fetcher_id; END;
CREATE TRIGGER queue_insert_started AFTER INSERT ON queue
BEGIN UPDATE queue SET last_started = (SELECT started FROM log WHERE log.attr_path = NEW.attr_path)
  WHERE fetcher_id = NEW.fetcher_id AND fetcher_run_started = NEW.fetcher_run_started AND attr_path = NEW.attr_path; END;
CREATE TRIGGER log_insert_started AFTER INSERT ON log
BEGIN UPDATE queue SET last_started = NEW.started WHERE attr_path = NEW.attr_path; END;
CREATE TRIGGER log_update_started AFTER UPDATE OF started ON log
BEGIN UPDATE queue SET last_started = NEW.started WHERE attr_path = NEW.attr_path; END;
";

const JITTER: &str = "
ALTER TABLE queue ADD COLUMN order_jitter integer;
DROP INDEX queue_order_index;
CREATE INDEX queue_order_index
  ON queue (last_started, order_jitter, attr_path, fetcher_id, fetcher_run_started DESC);
";

/// Creates a database with the objects of schema version `objects` (1 or 2) and `user_version` `stamp`,
/// then executes `rows`.
///
/// # Panics
/// If a statement fails.
pub fn create(path: &Path, objects: u32, stamp: i64, rows: &str) {
    let connection = Connection::open(path).expect("a new database");
    connection.execute_batch(TABLES).expect("the tables of version 1");
    if objects == 2 {
        connection.execute_batch(JITTER).expect("the tables of version 2");
    }
    connection.execute_batch(rows).expect("rows");
    connection.pragma_update(None, "user_version", stamp).expect("a version");
}
