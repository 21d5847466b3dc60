//! Bumps: attribute paths that an operator put before all others, each for one hand-out.
//!
//! A bump is kept as long as the record of its hand-out, so that an undone hand-out does not use it up.

use orchestrator_queue_rules::storage::{BUMPS_MAX, HandoutId};
use rusqlite::{Connection, params};
use std::collections::BTreeMap;

/// All bumps in memory.
#[derive(Debug, Default)]
pub(super) struct Bumps {
    /// Paths by their numbers, which give the order.
    waiting: BTreeMap<i64, String>,
    /// Bumps used by hand-outs that have a record.
    used: BTreeMap<HandoutId, (i64, String)>,
}

impl Bumps {
    pub(super) fn load(conn: &Connection) -> rusqlite::Result<Self> {
        let mut bumps = Self::default();
        let mut statement =
            conn.prepare_cached("SELECT number, attr_path, handout_id FROM orchestrator_bump")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let (number, attr_path) = (row.get(0)?, row.get(1)?);
            match row.get::<_, Option<i64>>(2)? {
                Some(handout) => drop(bumps.used.insert(HandoutId(handout), (number, attr_path))),
                None => drop(bumps.waiting.insert(number, attr_path)),
            }
        }
        Ok(bumps)
    }

    pub(super) fn waiting(&self) -> Vec<String> {
        self.waiting.values().cloned().collect()
    }

    /// Adds a bump behind the others. Returns false if there are too many; a path is bumped once.
    pub(super) fn add(&mut self, conn: &Connection, attr_path: &str) -> rusqlite::Result<bool> {
        if self.waiting.values().any(|known| known == attr_path) {
            return Ok(true);
        }
        if self.waiting.len() == BUMPS_MAX {
            return Ok(false);
        }
        self.used.retain(|_, (_, used)| used != attr_path);
        let used = self.used.values().map(|(number, _)| *number);
        let number = self.waiting.keys().copied().chain(used).max().unwrap_or(0) + 1;
        conn.prepare_cached("INSERT OR REPLACE INTO orchestrator_bump (attr_path, number) VALUES (?1, ?2)")?
            .execute(params![attr_path, number])?;
        self.waiting.insert(number, attr_path.to_owned());
        Ok(true)
    }

    /// Removes the bump of a path of which nothing waits.
    pub(super) fn remove(&mut self, conn: &Connection, attr_path: &str) -> rusqlite::Result<()> {
        self.waiting.retain(|_, known| known != attr_path);
        conn.prepare_cached("DELETE FROM orchestrator_bump WHERE attr_path = ?1")?.execute([attr_path])?;
        Ok(())
    }

    /// Uses the bump of a path, if any, for a hand-out.
    pub(super) fn use_up(
        &mut self,
        conn: &Connection,
        attr_path: &str,
        handout: HandoutId,
    ) -> rusqlite::Result<()> {
        let found = self.waiting.iter().find(|(_, known)| *known == attr_path).map(|(number, _)| *number);
        let Some(number) = found else { return Ok(()) };
        self.waiting.remove(&number);
        self.used.insert(handout, (number, attr_path.to_owned()));
        self.save(conn, attr_path, Some(handout))
    }

    /// Removes the bump that the last hand-out of a path used. One that waits stays.
    pub(super) fn forget(&mut self, conn: &Connection, attr_path: &str) -> rusqlite::Result<()> {
        let before = self.used.len();
        self.used.retain(|_, (_, used)| used != attr_path);
        if self.used.len() < before {
            conn.prepare_cached("DELETE FROM orchestrator_bump WHERE attr_path = ?1")?
                .execute([attr_path])?;
        }
        Ok(())
    }

    /// Restores the bump that an undone hand-out used.
    pub(super) fn undone(&mut self, conn: &Connection, handout: HandoutId) -> rusqlite::Result<()> {
        match self.used.remove(&handout) {
            Some((number, attr_path)) => {
                self.save(conn, &attr_path, None)?;
                self.waiting.insert(number, attr_path);
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn save(&self, conn: &Connection, attr_path: &str, handout: Option<HandoutId>) -> rusqlite::Result<()> {
        conn.prepare_cached("UPDATE orchestrator_bump SET handout_id = ?2 WHERE attr_path = ?1")?
            .execute(params![attr_path, handout.map(|handout| handout.0)])?;
        Ok(())
    }
}

/// Removes bumps whose hand-outs have no record any more.
pub(super) fn forget_used(conn: &Connection) -> rusqlite::Result<()> {
    conn.execute(
        delivery_sql!("DELETE FROM orchestrator_bump WHERE handout_id IS NOT NULL
                 AND handout_id NOT IN (SELECT handout_id FROM orchestrator_handout WHERE delivered = $pending)"),
        [],
    )?;
    Ok(())
}
