//! Statements of other processes, with triggers on (CONTRACT QD13).

use super::World;
use super::model::Picked;
use rusqlite::Connection;

/// Creates the contract's triggers again, behind ours, because SQLite does not define which of two
/// triggers fires first.
pub(crate) fn recreate_triggers(conn: &Connection) {
    let mut statement = conn
        .prepare(
            "SELECT name, sql FROM sqlite_schema WHERE type = 'trigger' AND name NOT LIKE 'orchestrator%'",
        )
        .unwrap();
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    let triggers: Vec<(String, String)> = rows.map(Result::unwrap).collect();
    assert_eq!(triggers.len(), 4);
    for (name, sql) in triggers {
        conn.execute_batch(&format!("DROP TRIGGER {name}; {sql};")).unwrap();
    }
}

impl World {
    pub(crate) fn foreign_write(&mut self) {
        let attr = self.attr();
        let (a, b) = (self.rng.i64(900..1_100), self.rng.i64(900..1_100));
        let run = self.run();
        let conn = &self.store.foreign();
        match self.rng.u8(..9) {
            0 => {
                conn.execute("INSERT OR IGNORE INTO log (attr_path, started) VALUES (?1, ?2)", (&attr, a))
                    .unwrap();
                self.model.foreign_log(&attr, false, |log| *log = Some((a, None, None)));
            }
            1 => {
                conn.execute("INSERT OR REPLACE INTO log VALUES (?1, ?2, ?3, 0)", (&attr, a, b)).unwrap();
                self.model.foreign_log(&attr, true, |log| *log = Some((a, Some(b), Some(0))));
            }
            2 => {
                conn.execute("UPDATE log SET started = ?2 WHERE attr_path = ?1", (&attr, a)).unwrap();
                self.model.foreign_log(&attr, true, |log| *log = log.map(|old| (a, old.1, old.2)));
            }
            3 => {
                let finished = (b % 2 == 0).then_some(b);
                conn.execute("UPDATE log SET finished = ?2 WHERE attr_path = ?1", (&attr, finished)).unwrap();
                self.model.foreign_log(&attr, true, |log| *log = log.map(|old| (old.0, finished, old.2)));
            }
            4 => {
                conn.execute("DELETE FROM log WHERE attr_path = ?1", [&attr]).unwrap();
                self.model.foreign_log(&attr, true, |log| *log = None);
            }
            5 if self.model.marked() == 0 => {
                let flag = b % 2;
                conn.execute("UPDATE queue SET is_dequeued = ?2 WHERE attr_path = ?1", (&attr, flag))
                    .unwrap();
                self.model.foreign_mark(&attr, flag != 0);
            }
            6 => {
                let jitter = (b % 2 == 0).then_some(b);
                let sql = "INSERT OR IGNORE INTO queue (fetcher_id, fetcher_run_started, attr_path, payload, order_jitter)
                           SELECT fetcher_id, ?2, ?3, 'foreign 1', ?4 FROM fetchers WHERE name = ?1";
                if self.model.is_live(&run.fetcher, run.started) {
                    conn.execute(sql, (&run.fetcher, run.started, &attr, jitter)).unwrap();
                    self.model.foreign_row(&run.fetcher, run.started, &attr, jitter);
                }
            }
            7 if self.model.marked() == 0 => {
                let sql = "DELETE FROM fetcher_runs WHERE run_started = ?2
                           AND fetcher_id = (SELECT fetcher_id FROM fetchers WHERE name = ?1)";
                conn.execute(sql, (&run.fetcher, run.started)).unwrap();
                self.model.mark_deleted(&run.fetcher, run.started);
                self.model.deleted(&run.fetcher, run.started);
            }
            _ if self.model.marked() == 0 => {
                let sql = "DELETE FROM queue WHERE attr_path = ?1 AND fetcher_run_started = ?2";
                conn.execute(sql, (&attr, run.started)).unwrap();
                self.model.foreign_delete(&attr, run.started);
            }
            _ => {}
        }
    }

    /// Runs the original's dequeue.
    pub(crate) fn foreign_dequeue(&mut self, now: i64) {
        let Some((fetcher, attr, payload)) = self.model.peek(now) else { return };
        self.store
            .foreign()
            .execute_batch(&format!(
                "BEGIN;
                 UPDATE queue SET is_dequeued = 1 WHERE attr_path = '{attr}'
                     AND fetcher_id = (SELECT fetcher_id FROM fetchers WHERE name = '{fetcher}');
                 INSERT INTO log (attr_path, started) VALUES ('{attr}', {now})
                     ON CONFLICT DO UPDATE SET started = excluded.started, finished = NULL, exit_code = NULL;
                 COMMIT;"
            ))
            .unwrap();
        assert!(matches!(self.model.dequeue_unrecorded(now, Some((&attr, &payload))), Picked::Right));
    }
}
