//! Writers in other processes, with and without triggers.

use rusqlite::config::DbConfig;

use crate::tests::store::*;

/// Counts the steps of SQLite's virtual machine in a foreign connection.
fn steps(s: &mut TestStore, sql: &str) -> u64 {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    let count = Arc::new(AtomicU64::new(0));
    let shared = Arc::clone(&count);
    let hook = move || {
        shared.fetch_add(1, Ordering::Relaxed);
        false
    };
    s.foreign.as_mut().unwrap().progress_handler(1, Some(hook)).unwrap();
    s.foreign().execute_batch(sql).unwrap();
    s.foreign.as_mut().unwrap().progress_handler(0, None::<fn() -> bool>).unwrap();
    count.load(Ordering::Relaxed)
}

#[test]
fn triggers_cost_the_same_in_a_full_queue() {
    let mut s = TestStore::new();
    let changes = [
        "INSERT INTO log (attr_path, started) VALUES ('alpha', 7)",
        "UPDATE log SET started = 8, finished = 9",
        "UPDATE queue SET is_dequeued = 1 WHERE attr_path = 'alpha'",
        "DELETE FROM queue WHERE attr_path = 'alpha'",
        "DELETE FROM log WHERE attr_path = 'alpha'",
    ];
    feed(&mut s, "f1", 1, &[("alpha", "0 1")]);
    let empty: Vec<u64> = changes.iter().map(|sql| steps(&mut s, sql)).collect();
    feed_batch(&mut s, "f1", 1, &packages(5_000));
    feed(&mut s, "f1", 1, &[("alpha", "0 1")]);
    let full: Vec<u64> = changes.iter().map(|sql| steps(&mut s, sql)).collect();
    for (sql, (empty, full)) in changes.iter().zip(empty.iter().zip(&full)) {
        assert!(*full <= empty * 2, "{sql}: {empty} steps in an empty queue, {full} in a full one");
    }
}

#[test]
fn a_dequeue_repairs_groups_written_without_triggers() {
    let mut s = TestStore::new();
    feed(&mut s, "f1", 1, &["alpha", "bravo", "charlie", "delta"].map(|attr| (attr, "0 1")));
    s.foreign().set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false).unwrap();
    s.foreign()
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
fn a_dequeue_repairs_ten_thousand_wrong_groups() {
    let mut s = TestStore::new();
    feed_batch(&mut s, "f1", 1, &packages(3_000));
    s.foreign().set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false).unwrap();
    s.foreign().execute_batch("UPDATE queue SET is_dequeued = 1 WHERE attr_path <> 'pkg7'").unwrap();
    assert_eq!(next_attr(&mut s, 100).as_deref(), Some("pkg7"));
    assert_eq!(next(&mut s, 100), None);
    assert_eq!(s.number("SELECT count(*) FROM orchestrator_ready"), 0);
}
