//! Database files that are damaged, newer, incomplete or used by others.

use orchestrator_queue_rules::storage::{StorageError, StorageErrorKind};
use rusqlite::Connection;
use std::path::Path;
use std::time::{Duration, Instant};

use orchestrator_queue_sqlite::{Options, SqliteStore, create_version};

use crate::tests::store::*;

fn open(path: &Path) -> Result<SqliteStore, StorageError> {
    SqliteStore::open(path, Options::default())
}

fn text(path: &Path, sql: &str) -> String {
    Connection::open(path).unwrap().query_row(sql, [], |row| row.get(0)).unwrap()
}

const ORDER_INDEX: &str = "SELECT group_concat(name || iif(\"desc\", ' desc', ''), ', ') FROM
    (SELECT name, \"desc\" FROM pragma_index_xinfo('queue_order_index') WHERE key ORDER BY seqno)";

fn works(path: &Path) {
    let mut store = open(path).unwrap();
    feed(&mut store, "probe", 1, &[("probe", "0 1")]);
    assert_eq!(next_attr(&mut store, 1_000_000).as_deref(), Some("probe"));
    drop(store);
    assert_eq!(
        text(path, ORDER_INDEX),
        "last_started, order_jitter, attr_path, fetcher_id, fetcher_run_started desc"
    );
}

/// A closed database in a directory of its own.
fn with_two_jobs() -> (tempfile::TempDir, std::path::PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("q.db");
    let mut store = open(&path).unwrap();
    feed(&mut store, "f1", 1, &[("alpha", "0 1"), ("bravo", "0 1")]);
    (dir, path)
}

#[test]
fn newer_own_tables_are_not_changed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("q.db");
    works(&path);
    let conn = Connection::open(&path).unwrap();
    conn.execute_batch("UPDATE orchestrator_meta SET value = 99 WHERE name = 'own_version'").unwrap();
    assert!(
        matches!(open(&path), Err(StorageError { kind: StorageErrorKind::NewerSchema, text, .. }) if text.contains("version 99,"))
    );
}

/// CONTRACT QD11: missing tables of our own are created again.
#[test]
fn missing_own_tables_are_created_again() {
    let (_dir, path) = with_two_jobs();
    let conn = Connection::open(&path).unwrap();
    conn.execute_batch(
        "DROP TRIGGER orchestrator_queue_update; UPDATE queue SET is_dequeued = 1 WHERE attr_path = 'alpha';
         DROP TABLE orchestrator_ready; DROP TABLE orchestrator_handout;",
    )
    .unwrap();
    let mut store = open(&path).unwrap();
    assert_eq!(next_attr(&mut store, 10).as_deref(), Some("bravo"));
    assert_eq!(next(&mut store, 10), None);
    conn.execute_batch("UPDATE queue SET is_dequeued = 0").unwrap();
    assert_eq!(next_attr(&mut store, 10).as_deref(), Some("alpha"));
}

/// CONTRACT QD11: another program's trigger has the name of one of ours.
#[test]
fn triggers_of_another_program_are_made_anew() {
    let (_dir, path) = with_two_jobs();
    let conn = Connection::open(&path).unwrap();
    conn.execute_batch(
        "DROP TRIGGER orchestrator_queue_update;
         CREATE TRIGGER orchestrator_queue_update AFTER UPDATE ON queue BEGIN SELECT 1; END;
         UPDATE queue SET is_dequeued = 1 WHERE attr_path = 'alpha'",
    )
    .unwrap();
    let mut store = open(&path).unwrap();
    assert_eq!(next_attr(&mut store, 10).as_deref(), Some("bravo"));
    assert_eq!(next(&mut store, 10), None);
}

/// CONTRACT QD11: until 0.3.0, class and hold were one column of another table, to which triggers of the same
/// names wrote.
#[test]
fn a_database_goes_to_a_former_program_and_back() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("q.db");
    let mut store = open(&path).unwrap();
    feed(&mut store, "f1", 1, &[("alpha", "0 1"), ("bravo", "0 1"), ("charlie", "0 1")]);
    drop(store);
    let conn = Connection::open(&path).unwrap();
    conn.execute_batch(
        "CREATE TABLE orchestrator_group (fetcher_id, run_started, held, started_key, jitter_key, attr_path);
         INSERT INTO orchestrator_group SELECT 1, 1, 0, 0, 0, attr_path FROM queue;
         DROP TRIGGER orchestrator_queue_update;
         CREATE TRIGGER orchestrator_queue_update AFTER UPDATE OF is_dequeued ON queue
             BEGIN DELETE FROM orchestrator_group WHERE attr_path = NEW.attr_path; END;
         UPDATE queue SET is_dequeued = 1 WHERE attr_path = 'alpha'",
    )
    .unwrap();
    let mut store = open(&path).unwrap();
    assert_eq!(
        text(&path, "SELECT count(*) || '' FROM sqlite_schema WHERE name = 'orchestrator_group'"),
        "0"
    );
    conn.execute_batch("UPDATE queue SET is_dequeued = 1 WHERE attr_path = 'bravo'").unwrap();
    assert_eq!(next_attr(&mut store, 10).as_deref(), Some("charlie"));
    assert_eq!(next(&mut store, 10), None);
}

/// CONTRACT QD11: between 0.2.0 and 0.3.0, a program with that table had as many others as this one, and no
/// view.
#[test]
fn as_many_tables_of_a_former_program_are_replaced() {
    let (_dir, path) = with_two_jobs();
    let objects = "SELECT count(*) || '' FROM sqlite_schema WHERE name GLOB 'orchestrator_*'";
    let own = text(&path, objects);
    let conn = Connection::open(&path).unwrap();
    conn.execute_batch(
        "DROP VIEW orchestrator_version; DROP TABLE orchestrator_ready;
         CREATE TABLE orchestrator_group (fetcher_id, run_started, held, started_key, jitter_key, attr_path)",
    )
    .unwrap();
    assert_eq!(text(&path, objects), "19", "as the former program counts");
    let mut store = open(&path).unwrap();
    assert_eq!(next_attr(&mut store, 10).as_deref(), Some("alpha"));
    drop(store);
    assert_eq!(text(&path, objects), own);
    assert_ne!(own, "19", "the former program would not make its tables again");
}

#[test]
fn a_file_of_a_few_bytes_is_damaged() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("q.db");
    std::fs::write(&path, "hello").unwrap();
    assert!(matches!(open(&path), Err(StorageError { kind: StorageErrorKind::Corrupt, .. })));
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
    assert!(error.kind == StorageErrorKind::Corrupt, "CONTRACT QR48: {error}");
}

#[test]
fn the_write_ahead_log_is_enabled_without_other_users() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("q.db");
    create_version(&path, 2).unwrap();
    let reader = Connection::open(&path).unwrap();
    reader.execute_batch("BEGIN; SELECT count(*) FROM queue;").unwrap();
    let asked = Instant::now();
    let error = open(&path).unwrap_err();
    assert!(asked.elapsed() < Duration::from_secs(1), "waited {:?}", asked.elapsed());
    assert!(error.kind == StorageErrorKind::Busy && error.is_retryable(), "CONTRACT QR43: {error}");
    assert!(error.to_string().contains("waiting for exclusive access"), "{error}");
    reader.execute_batch("COMMIT; BEGIN EXCLUSIVE").unwrap();
    assert!(matches!(open(&path), Err(StorageError { kind: StorageErrorKind::Busy, .. })), "CONTRACT QR44");
    drop(reader);
    works(&path);
    assert_eq!(text(&path, "SELECT journal_mode FROM pragma_journal_mode"), "wal");
}
