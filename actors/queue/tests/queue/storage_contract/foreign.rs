//! Other processes: writers with triggers, without them, and lock holders.

use super::bench::*;
use orchestrator_queue::storage::{Storage, StorageError};
use rusqlite::config::DbConfig;
use std::process::Command;
use std::time::{Duration, Instant};

fn python(s: &Sqlite, script: &str) -> String {
    let script =
        format!("import sqlite3, sys\ndb = sqlite3.connect(sys.argv[1], isolation_level=None)\n{script}");
    let done =
        Command::new("python3").arg("-c").arg(script).arg(s.path()).output().expect("python3 is installed");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap().trim().to_owned()
}

#[test]
fn pythons_sqlite_writes_and_the_next_dequeue_sees_it() {
    let mut s = Sqlite::new();
    feed(&mut s, "f1", 1, &["alpha", "bravo", "charlie"].map(|attr| (attr, "0 1")));
    assert_eq!(next_attr(&mut s, 100).as_deref(), Some("alpha"));
    python(
        &s,
        "db.execute(\"INSERT INTO log VALUES ('charlie', 50, NULL, NULL), ('bravo', 60, 61, 0)\")
db.execute(\"UPDATE log SET finished = 101 WHERE attr_path = 'alpha'\")
db.execute(\"UPDATE queue SET is_dequeued = 0 WHERE attr_path = 'alpha'\")
db.execute(\"INSERT INTO queue (fetcher_id, fetcher_run_started, attr_path, payload) VALUES (1, 1, 'hand-made', '1 2')\")",
    );
    let order: Vec<_> = (0..3).map(|_| next_attr(&mut s, 102).unwrap()).collect();
    assert_eq!(order, ["hand-made", "bravo", "alpha"]);
    assert_eq!(next(&mut s, 102), None, "charlie is held");
    assert_eq!(next_attr(&mut s, 51 + 43_200).as_deref(), Some("charlie"));
}

#[test]
fn pythons_sqlite_finds_a_sound_database_and_fast_plans() {
    let mut s = Sqlite::new();
    feed(&mut s, "f1", 1, &[("alpha", "0 1")]);
    assert_eq!(python(&s, "print(db.execute('PRAGMA integrity_check').fetchone()[0])"), "ok");
    assert_eq!(python(&s, "print(db.execute('PRAGMA foreign_key_check').fetchall())"), "[]");
    assert_eq!(python(&s, "print(db.execute('PRAGMA user_version').fetchone()[0])"), "2");
    let columns = "print([row[1] for row in db.execute('PRAGMA table_info(queue)')])";
    assert_eq!(
        python(&s, columns),
        "['fetcher_id', 'fetcher_run_started', 'attr_path', 'payload', 'is_dequeued', 'last_started', 'order_jitter']"
    );
}

/// Steps of SQLite's machine in a foreign connection.
fn steps(s: &mut Sqlite, sql: &str) -> u64 {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    let count = Arc::new(AtomicU64::new(0));
    let shared = Arc::clone(&count);
    let hook = move || {
        shared.fetch_add(1, Ordering::Relaxed);
        false
    };
    s.foreign.progress_handler(1, Some(hook)).unwrap();
    s.foreign.execute_batch(sql).unwrap();
    s.foreign.progress_handler(0, None::<fn() -> bool>).unwrap();
    count.load(Ordering::Relaxed)
}

#[test]
fn our_triggers_cost_foreign_writers_the_same_in_a_full_queue() {
    let mut s = Sqlite::new();
    let changes = [
        "INSERT INTO log (attr_path, started) VALUES ('alpha', 7)",
        "UPDATE log SET started = 8, finished = 9",
        "UPDATE queue SET is_dequeued = 1 WHERE attr_path = 'alpha'",
        "DELETE FROM queue WHERE attr_path = 'alpha'",
        "DELETE FROM log WHERE attr_path = 'alpha'",
    ];
    feed(&mut s, "f1", 1, &[("alpha", "0 1")]);
    let empty: Vec<u64> = changes.iter().map(|sql| steps(&mut s, sql)).collect();
    let names: Vec<String> = (0..5_000).map(|n| format!("pkg{n}")).collect();
    let rows: Vec<_> = names.iter().map(|name| (name.as_str(), "0 1")).collect();
    feed(&mut s, "f1", 1, &rows);
    feed(&mut s, "f1", 1, &[("alpha", "0 1")]);
    let full: Vec<u64> = changes.iter().map(|sql| steps(&mut s, sql)).collect();
    for (sql, (empty, full)) in changes.iter().zip(empty.iter().zip(&full)) {
        assert!(*full <= empty * 2, "{sql}: {empty} steps in an empty queue, {full} in a full one");
    }
}

#[test]
fn what_was_written_without_triggers_is_put_right_when_it_comes_up() {
    let mut s = Sqlite::new();
    feed(&mut s, "f1", 1, &["alpha", "bravo", "charlie", "delta"].map(|attr| (attr, "0 1")));
    s.foreign.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false).unwrap();
    s.foreign
        .execute_batch(
            "DELETE FROM queue WHERE attr_path = 'alpha';
             UPDATE queue SET is_dequeued = 1 WHERE attr_path = 'delta';
             INSERT INTO log (attr_path, started) VALUES ('charlie', 90)",
        )
        .unwrap();
    assert_eq!(next_attr(&mut s, 100).as_deref(), Some("bravo"));
    assert_eq!(next(&mut s, 100), None, "charlie is held");
    assert_eq!(next_attr(&mut s, 91 + 43_200).as_deref(), Some("charlie"));
}

#[test]
fn ten_thousand_wrong_groups_do_not_stop_a_dequeue() {
    let mut s = Sqlite::new();
    let names: Vec<String> = (0..3_000).map(|n| format!("pkg{n}")).collect();
    let rows: Vec<_> = names.iter().map(|name| (name.as_str(), "0 1")).collect();
    feed(&mut s, "f1", 1, &rows);
    s.foreign.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false).unwrap();
    s.foreign.execute_batch("UPDATE queue SET is_dequeued = 1 WHERE attr_path <> 'pkg7'").unwrap();
    assert_eq!(next_attr(&mut s, 100).as_deref(), Some("pkg7"));
    assert_eq!(next(&mut s, 100), None);
    assert_eq!(s.number("SELECT count(*) FROM orchestrator_group"), 0);
}

#[test]
fn while_a_foreign_writer_has_the_lock_nothing_is_answered() {
    let mut s = Sqlite::new();
    feed(&mut s, "f1", 1, &[("alpha", "0 1")]);
    s.foreign.execute_batch("BEGIN IMMEDIATE").unwrap();
    let asked = Instant::now();
    let error = s.begin().unwrap_err();
    assert!(matches!(error, StorageError::Busy { .. }) && error.is_retryable(), "{error}");
    assert!(asked.elapsed() < Duration::from_secs(1), "waited {:?}", asked.elapsed());
    assert!(s.dequeue(100).is_err(), "no group, no answer");
    s.foreign.execute_batch("ROLLBACK").unwrap();
    assert_eq!(next_attr(&mut s, 100).as_deref(), Some("alpha"));
}

#[test]
fn a_foreign_reader_holds_nobody_up() {
    let mut s = Sqlite::new();
    feed(&mut s, "f1", 1, &[("alpha", "0 1")]);
    s.foreign.execute_batch("BEGIN; SELECT count(*) FROM queue;").unwrap();
    assert_eq!(s.number("SELECT count(*) FROM queue WHERE is_dequeued = 0"), 1);
    assert_eq!(next_attr(&mut s, 100).as_deref(), Some("alpha"), "R43, R44");
    assert_eq!(
        s.number("SELECT count(*) FROM queue WHERE is_dequeued = 0"),
        1,
        "the reader keeps its moment"
    );
    s.foreign.execute_batch("COMMIT").unwrap();
}
