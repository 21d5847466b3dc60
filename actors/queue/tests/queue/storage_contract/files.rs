//! Files: new ones, old ones, newer ones, broken ones, and files that others use.

use super::bench::*;
use orchestrator_queue::edge::sqlite::{Options, SqliteStore, create_version, set_aside};
use orchestrator_queue::storage::{RunId, Storage, StorageError, Upsert};
use rusqlite::Connection;
use std::path::Path;
use std::time::{Duration, Instant};

fn open(path: &Path) -> Result<SqliteStore, StorageError> {
    SqliteStore::open(path, Options::default())
}

fn text(path: &Path, sql: &str) -> String {
    Connection::open(path).unwrap().query_row(sql, [], |row| row.get(0)).unwrap()
}

const OBJECTS: &str = "SELECT group_concat(name, ' ') FROM (SELECT name FROM sqlite_schema
    WHERE name NOT LIKE 'orchestrator%' AND name NOT LIKE 'sqlite%' ORDER BY name)";

const ALL_OBJECTS: &str = "fetcher_run_started_index fetcher_runs fetcher_runs_delete fetchers log log_insert_started \
    log_update_started queue queue_attr_path_index queue_insert_started queue_order_index";

const VERSION: &str = "SELECT cast(user_version AS text) FROM pragma_user_version";

const ORDER_INDEX: &str = "SELECT group_concat(name || iif(\"desc\", ' desc', ''), ', ') FROM
    (SELECT name, \"desc\" FROM pragma_index_xinfo('queue_order_index') WHERE key ORDER BY seqno)";

fn works(path: &Path) {
    let mut store = open(path).unwrap();
    feed(&mut store, "probe", 1, &[("probe", "0 1")]);
    assert_eq!(next_attr(&mut store, 1_000_000).as_deref(), Some("probe"));
    drop(store);
    assert_eq!(text(path, OBJECTS), ALL_OBJECTS);
    assert_eq!(text(path, VERSION), "2");
    assert_eq!(
        text(path, ORDER_INDEX),
        "last_started, order_jitter, attr_path, fetcher_id, fetcher_run_started desc"
    );
}

#[test]
fn a_missing_and_an_empty_file_become_a_database() {
    let dir = tempfile::tempdir().unwrap();
    works(&dir.path().join("missing.db"));
    std::fs::write(dir.path().join("empty.db"), "").unwrap();
    works(&dir.path().join("empty.db"));
}

/// Puts a run with two rows and a log row into a file of either version.
fn stock(path: &Path) {
    let conn = Connection::open(path).unwrap();
    conn.execute_batch(
        "PRAGMA foreign_keys = ON;
         INSERT INTO fetchers (name) VALUES ('f1');
         INSERT INTO fetcher_runs VALUES (1, 100, 1);
         INSERT INTO log VALUES ('alpha', 50, NULL, NULL);
         INSERT INTO queue (fetcher_id, fetcher_run_started, attr_path, payload) VALUES
             (1, 100, 'alpha', '0 1'), (1, 100, 'bravo', '0 1');",
    )
    .unwrap();
}

#[test]
fn version_1_comes_up_empty() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("q.db");
    create_version(&path, 1).unwrap();
    stock(&path);
    let mut store = open(&path).unwrap();
    assert_eq!(group(&mut store, |s| s.known_runs()), [], "D02");
    assert_eq!(next(&mut store, 1_000_000), None);
    drop(store);
    for table in ["queue", "fetcher_runs", "fetchers", "log"] {
        assert_eq!(text(&path, &format!("SELECT cast(count(*) AS text) FROM {table}")), "0", "{table}");
    }
    let columns = "SELECT group_concat(name, ' ') FROM pragma_table_info('queue')";
    assert_eq!(
        text(&path, columns),
        "fetcher_id fetcher_run_started attr_path payload is_dequeued last_started order_jitter"
    );
    works(&path);
}

#[test]
fn version_2_is_taken_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("q.db");
    create_version(&path, 2).unwrap();
    assert_eq!(text(&path, OBJECTS), ALL_OBJECTS);
    stock(&path);
    Connection::open(&path)
        .unwrap()
        .execute_batch(
            "INSERT INTO fetcher_runs VALUES (1, 101, 0);
             INSERT INTO queue (fetcher_id, fetcher_run_started, attr_path, payload, is_dequeued) VALUES
                 (1, 101, 'bravo', '0 2', 0), (1, 100, 'used', '0 1', 1), (1, 100, 'shadowed', '0 1', 0),
                 (1, 101, 'shadowed', '0 2', 1);",
        )
        .unwrap();
    let mut store = open(&path).unwrap();
    assert_eq!(group(&mut store, |s| s.known_runs()).len(), 2, "D03");
    assert_eq!(next(&mut store, 1_000), job("bravo", "0 2"));
    assert_eq!(next(&mut store, 1_000), None);
    assert_eq!(next(&mut store, 51 + 43_200), job("alpha", "0 1"));
    assert_eq!(next(&mut store, 51 + 43_200), None);
}

#[test]
fn a_crash_of_the_original_between_tables_and_version_is_healed() {
    let dir = tempfile::tempdir().unwrap();
    for (tables, version) in [(1, 0), (2, 0), (2, 1)] {
        let path = dir.path().join(format!("{tables}-{version}.db"));
        create_version(&path, tables).unwrap();
        Connection::open(&path).unwrap().pragma_update(None, "user_version", version).unwrap();
        works(&path);
    }
}

#[test]
fn a_newer_schema_is_not_touched() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("q.db");
    create_version(&path, 2).unwrap();
    Connection::open(&path).unwrap().pragma_update(None, "user_version", 3).unwrap();
    let before = std::fs::read(&path).unwrap();
    let error = open(&path).unwrap_err();
    assert!(matches!(error, StorageError::NewerSchema { found: 3, known: 2, .. }), "R47: {error}");
    assert!(!error.is_retryable());
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[test]
fn our_own_newer_tables_are_not_touched() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("q.db");
    works(&path);
    let conn = Connection::open(&path).unwrap();
    conn.execute_batch("UPDATE orchestrator_meta SET value = 99 WHERE name = 'own_version'").unwrap();
    assert!(matches!(open(&path), Err(StorageError::NewerSchema { found: 99, .. })));
}

#[test]
fn what_was_lost_of_our_own_is_made_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("q.db");
    let mut store = open(&path).unwrap();
    feed(&mut store, "f1", 1, &[("alpha", "0 1"), ("bravo", "0 1")]);
    drop(store);
    let conn = Connection::open(&path).unwrap();
    conn.execute_batch(
        "DROP TRIGGER orchestrator_queue_update; UPDATE queue SET is_dequeued = 1 WHERE attr_path = 'alpha';
         DROP TABLE orchestrator_group; DROP TABLE orchestrator_handout;",
    )
    .unwrap();
    let mut store = open(&path).unwrap();
    assert_eq!(next_attr(&mut store, 10).as_deref(), Some("bravo"));
    assert_eq!(next(&mut store, 10), None);
    conn.execute_batch("UPDATE queue SET is_dequeued = 0").unwrap();
    assert_eq!(next_attr(&mut store, 10).as_deref(), Some("alpha"));
}

#[test]
fn a_few_bytes_are_garbage_too() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("q.db");
    std::fs::write(&path, "hello").unwrap();
    assert!(matches!(open(&path), Err(StorageError::Corrupt { .. })));
}

#[test]
fn garbage_is_set_aside_and_a_fresh_file_takes_its_place() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("q.db");
    for suffix in ["", "-wal", "-journal"] {
        std::fs::write(dir.path().join(format!("q.db{suffix}")), "no database at all".repeat(100)).unwrap();
    }
    let error = open(&path).unwrap_err();
    assert!(matches!(error, StorageError::Corrupt { .. }), "R48: {error}");
    let kept = set_aside(&path, 1_700_000_000).unwrap();
    assert_eq!(kept, dir.path().join("q.db.corrupt-1700000000"));
    assert!(std::fs::read_to_string(&kept).unwrap().starts_with("no database"));
    assert!(!path.exists() && !dir.path().join("q.db-wal").exists());
    works(&path);
    let second = set_aside(&path, 1_700_000_000).unwrap();
    assert_eq!(second, dir.path().join("q.db.corrupt-1700000000-2"), "never over an older one");
}

#[test]
fn a_database_with_a_broken_schema_is_damaged() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("q.db");
    works(&path);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[100..4_096].fill(0xEE);
    std::fs::write(&path, bytes).unwrap();
    let error = open(&path).unwrap_err();
    assert!(matches!(error, StorageError::Corrupt { .. }), "R48: {error}");
}

#[test]
fn the_second_instance_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("q.db");
    let first = open(&path).unwrap();
    let error = open(&path).unwrap_err();
    assert!(matches!(error, StorageError::Locked { .. }), "R41: {error}");
    assert!(error.to_string().contains("running instance"), "{error}");
    drop(first);
    works(&path);
}

#[test]
fn the_log_is_switched_on_when_nobody_is_in_the_way() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("q.db");
    create_version(&path, 2).unwrap();
    let reader = Connection::open(&path).unwrap();
    reader.execute_batch("BEGIN; SELECT count(*) FROM queue;").unwrap();
    let asked = Instant::now();
    let error = open(&path).unwrap_err();
    assert!(asked.elapsed() < Duration::from_secs(1), "waited {:?}", asked.elapsed());
    assert!(matches!(error, StorageError::Busy { .. }) && error.is_retryable(), "R43: {error}");
    assert!(error.to_string().contains("waiting for exclusive access"), "{error}");
    reader.execute_batch("COMMIT; BEGIN EXCLUSIVE").unwrap();
    assert!(matches!(open(&path), Err(StorageError::Busy { .. })), "R44");
    drop(reader);
    works(&path);
    assert_eq!(text(&path, "SELECT journal_mode FROM pragma_journal_mode"), "wal");
}

#[test]
fn jitter_is_stored() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("q.db");
    let mut store = open(&path).unwrap();
    feed(&mut store, "f1", 1, &[("日本語", "0 1"), ("firefox", "0 1")]);
    drop(store);
    let sql = "SELECT group_concat(order_jitter, ' ') FROM (SELECT order_jitter FROM queue ORDER BY 1)";
    assert_eq!(text(&path, sql), "-133558016 1422501334", "D07");
}

#[test]
fn complete_is_committed_with_the_last_rows_or_not_at_all() {
    let mut s = Sqlite::new();
    let run = RunId::new("f1", 1);
    feed(&mut s, "f1", 1, &[("alpha", "0 1")]);
    s.begin().unwrap();
    assert_eq!(s.enqueue(&run, &lines(&[("bravo", "0 1")]), 0, None).unwrap(), 1);
    assert_eq!(s.upsert_run(&run, true).unwrap(), Upsert::Done);
    s.crash();
    assert!(!group(&mut s, |s| s.known_runs())[0].complete, "R42");
    assert_eq!(s.queue().len(), 1);
    group(&mut s, |s| {
        s.enqueue(&run, &lines(&[("bravo", "0 1")]), 0, None)?;
        s.upsert_run(&run, true).map(|done| assert_eq!(done, Upsert::Done))
    });
    s.crash();
    assert!(group(&mut s, |s| s.known_runs())[0].complete);
    s.close();
}
