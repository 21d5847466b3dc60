//! Checks that the original could use a queue database, and that the queue's own tables are consistent with
//! it.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
};

use crate::Database;

/// Names of the objects of CONTRACT QD08 to QD10.
const OBJECTS: [&str; 11] = [
    "index fetcher_run_started_index",
    "index queue_attr_path_index",
    "index queue_order_index",
    "table fetcher_runs",
    "table fetchers",
    "table log",
    "table queue",
    "trigger fetcher_runs_delete",
    "trigger log_insert_started",
    "trigger log_update_started",
    "trigger queue_insert_started",
];

/// Query of rows whose `last_started` differs from the log (CONTRACT QD12).
///
/// Rows of a deleted run are skipped: they are not updated while their deletion is in progress.
const WRONG_STARTS: &str = "SELECT q.* FROM queue AS q LEFT JOIN log ON log.attr_path = q.attr_path
    WHERE q.last_started IS NOT log.started AND (q.fetcher_id, q.fetcher_run_started) NOT IN
        (SELECT fetcher_id, run_started FROM orchestrator_deleted_run)";

/// Query of groups in which the table `orchestrator_ready` differs from the contract's tables.
///
/// A deleted run may shadow an older one until the deletion is complete.
const WRONG_GROUPS: &str = "
    WITH alive AS (
        SELECT * FROM queue WHERE (fetcher_id, fetcher_run_started) NOT IN
            (SELECT fetcher_id, run_started FROM orchestrator_deleted_run)),
    leaving AS (
        SELECT fetcher_id, attr_path FROM queue WHERE (fetcher_id, fetcher_run_started) IN
            (SELECT fetcher_id, run_started FROM orchestrator_deleted_run)),
    newest AS (
        SELECT fetcher_id, attr_path, max(fetcher_run_started) AS run FROM alive GROUP BY fetcher_id, attr_path),
    due AS (
        SELECT a.fetcher_id, a.fetcher_run_started AS run, a.attr_path, a.last_started, a.order_jitter,
            EXISTS (SELECT 1 FROM log WHERE log.attr_path = a.attr_path AND log.finished IS NULL) AS held
        FROM alive AS a JOIN newest AS n
            ON n.fetcher_id = a.fetcher_id AND n.attr_path = a.attr_path AND n.run = a.fetcher_run_started
        WHERE a.is_dequeued = 0),
    kept AS (
        SELECT fetcher_id, run_started, attr_path,
            nullif(started_key, -9223372036854775808), nullif(jitter_key, -9223372036854775808), is_held
        FROM orchestrator_ready WHERE (fetcher_id, run_started) NOT IN
            (SELECT fetcher_id, run_started FROM orchestrator_deleted_run))
    SELECT 'missing', * FROM (SELECT * FROM due EXCEPT SELECT * FROM kept)
        WHERE (fetcher_id, attr_path) NOT IN (SELECT * FROM leaving)
    UNION ALL SELECT 'too many', * FROM (SELECT * FROM kept EXCEPT SELECT * FROM due)";

/// Query of attempts that contradict the log, in a database that no other program has written to.
///
/// The last attempt of a path is that of its log row, only the last one is in flight, and each knows the end
/// of the one before.
const WRONG_ATTEMPTS: &str = "
    WITH chain AS (
        SELECT *, row_number() OVER (PARTITION BY attr_path ORDER BY started DESC, handout_id DESC) AS place,
            lag(started) OVER (PARTITION BY attr_path ORDER BY started, handout_id) AS before
        FROM orchestrator_attempt),
    last AS (SELECT attr_path, started FROM chain WHERE place = 1)
    SELECT 'no attempt', log.* FROM log LEFT JOIN last USING (attr_path) WHERE last.started IS NOT log.started
    UNION ALL SELECT 'no log row', attr_path, started, NULL, NULL FROM last
        WHERE attr_path NOT IN (SELECT attr_path FROM log)
    UNION ALL SELECT 'incomplete', log.* FROM log WHERE (finished IS NULL) <> (exit_code IS NULL)
    UNION ALL SELECT 'wrong previous', attr_path, previous_started, previous_finished, previous_exit_code FROM chain
        WHERE previous_started IS NOT before
            OR (before IS NULL) <> (previous_finished IS NULL) OR (before IS NULL) <> (previous_exit_code IS NULL)";

/// Checks that the attempts agree with the log, unless another program has written to it.
///
/// # Panics
/// If they differ.
pub fn assert_attempts_match_log(path: &Path) {
    assert_eq!(Database::open(path).rows(WRONG_ATTEMPTS), [""; 0], "attempts that contradict the log");
}

/// Copies the database at `path` with its write-ahead log to the directory `to`, so that a check does not
/// recover the original.
///
/// No process may use the database. Returns None if it does not exist.
///
/// # Panics
/// If it cannot be copied.
pub fn copy_database(path: &Path, to: &Path) -> Option<PathBuf> {
    fs::create_dir_all(to).expect("a directory for the copy");
    let copy = to.join("copy.db");
    for suffix in ["", "-wal", "-journal"] {
        let name = |path: &Path| -> OsString { [path.as_os_str(), suffix.as_ref()].into_iter().collect() };
        let (source, target) = (name(path), name(&copy));
        // Files of an earlier copy must not be mixed with this one.
        let _ = fs::remove_file(&target);
        if Path::new(&source).exists() {
            fs::copy(&source, &target).expect("copy the database");
        }
    }
    let _ = fs::remove_file(to.join("copy.db-shm"));
    copy.exists().then_some(copy)
}

/// Checks integrity, schema version 2 and the invariants of the database at `path`.
///
/// Returns false for a database without tables, which a kill during the first start leaves.
///
/// # Panics
/// If a check fails.
pub fn assert_valid_database(path: &Path) -> bool {
    let database = Database::open(path);
    assert_eq!(database.rows("PRAGMA integrity_check"), ["ok"]);
    let objects = database.rows("SELECT type || ' ' || name FROM sqlite_schema ORDER BY 1");
    let version = database.rows("PRAGMA user_version");
    if objects.is_empty() {
        assert_eq!(version, ["0"], "a version without tables");
        return false;
    }
    assert_eq!(version, ["2"]);
    let missing: Vec<_> =
        OBJECTS.iter().filter(|wanted| !objects.iter().any(|have| have == *wanted)).collect();
    assert!(missing.is_empty(), "the contract's {missing:?} are not among {objects:?}");
    assert_eq!(database.rows("PRAGMA foreign_key_check"), [""; 0], "foreign keys");
    assert_eq!(database.rows(WRONG_STARTS), [""; 0], "rows whose last_started is not the log's");
    assert_eq!(database.rows(WRONG_GROUPS), [""; 0], "groups that are not what the rows say");
    true
}
