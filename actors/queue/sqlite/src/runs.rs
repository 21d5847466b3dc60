//! Fetchers and runs in memory: a few dozen rows that every operation needs.

use orchestrator_queue_rules::storage::{RunId, RunState, is_owner};
use rusqlite::{Connection, params};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Contents of `fetchers`, `fetcher_runs` and `orchestrator_deleted_run`.
#[derive(Debug, Default)]
pub(super) struct Runs {
    ids: HashMap<String, i64>,
    names: HashMap<i64, String>,
    /// `is_complete` by fetcher and run.
    known: BTreeMap<(i64, i64), bool>,
    deleted: HashSet<(i64, i64)>,
    /// Fetchers that are other subsystems.
    owners: HashSet<i64>,
}

impl Runs {
    pub(super) fn load(conn: &Connection) -> rusqlite::Result<Self> {
        let mut runs = Self::default();
        let mut statement = conn.prepare_cached("SELECT fetcher_id, name FROM fetchers")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let (id, name): (i64, String) = (row.get(0)?, row.get(1)?);
            runs.insert(id, &name);
        }
        let mut statement =
            conn.prepare_cached("SELECT fetcher_id, run_started, is_complete FROM fetcher_runs")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            runs.known.insert((row.get(0)?, row.get(1)?), row.get::<_, i64>(2)? != 0);
        }
        let mut statement =
            conn.prepare_cached("SELECT fetcher_id, run_started FROM orchestrator_deleted_run")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            runs.deleted.insert((row.get(0)?, row.get(1)?));
        }
        Ok(runs)
    }

    pub(super) fn fetcher_id(&self, fetcher: &str) -> Option<i64> {
        self.ids.get(fetcher).copied()
    }

    pub(super) fn name(&self, fetcher_id: i64) -> Option<&str> {
        self.names.get(&fetcher_id).map(String::as_str)
    }

    /// Returns true if another subsystem has offered jobs.
    pub(super) fn has_owners(&self) -> bool {
        !self.owners.is_empty()
    }

    pub(super) fn is_owner(&self, fetcher_id: i64) -> bool {
        self.owners.contains(&fetcher_id)
    }

    fn insert(&mut self, id: i64, name: &str) {
        self.ids.insert(name.to_owned(), id);
        self.names.insert(id, name.to_owned());
        if is_owner(name) {
            self.owners.insert(id);
        }
    }

    pub(super) fn is_deleted(&self, fetcher_id: i64, run_started: i64) -> bool {
        !self.deleted.is_empty() && self.deleted.contains(&(fetcher_id, run_started))
    }

    pub(super) fn has_deleted_of(&self, fetcher_id: i64) -> bool {
        self.deleted.iter().any(|run| run.0 == fetcher_id)
    }

    /// Prefers a run of `fetcher_id`.
    pub(super) fn next_deleted(&self, fetcher_id: Option<i64>) -> Option<(i64, i64)> {
        self.deleted.iter().copied().min_by_key(|run| (Some(run.0) != fetcher_id, *run))
    }

    pub(super) fn is_live(&self, fetcher_id: i64, run_started: i64) -> bool {
        self.known.contains_key(&(fetcher_id, run_started)) && !self.is_deleted(fetcher_id, run_started)
    }

    /// Newest first.
    pub(super) fn live_runs(&self, fetcher_id: i64) -> Vec<i64> {
        self.of_fetcher(fetcher_id).rev().filter(|run| !self.is_deleted(fetcher_id, *run)).collect()
    }

    /// Returns the runs of files that are not deleted.
    pub(super) fn states(&self) -> Vec<RunState> {
        let live = self
            .known
            .iter()
            .filter(|((fetcher, run), _)| !self.is_deleted(*fetcher, *run) && !self.owners.contains(fetcher));
        live.filter_map(|(&(fetcher, started), &complete)| {
            let run = RunId::new(self.names.get(&fetcher)?, started);
            Some(RunState { run, complete })
        })
        .collect()
    }

    /// Adds the fetcher and the run, or sets `is_complete`.
    pub(super) fn upsert(&mut self, conn: &Connection, run: &RunId, complete: bool) -> rusqlite::Result<()> {
        let fetcher_id = match self.fetcher_id(&run.fetcher) {
            Some(id) => id,
            None => {
                conn.prepare_cached("INSERT INTO fetchers (name) VALUES (?1)")?.execute([&run.fetcher])?;
                let id = conn.last_insert_rowid();
                self.insert(id, &run.fetcher);
                id
            }
        };
        if self.known.get(&(fetcher_id, run.started)) != Some(&complete) {
            conn.prepare_cached(
                "INSERT INTO fetcher_runs (fetcher_id, run_started, is_complete) VALUES (?1, ?2, ?3)
                 ON CONFLICT DO UPDATE SET is_complete = excluded.is_complete",
            )?
            .execute(params![fetcher_id, run.started, complete])?;
            conn.prepare_cached(
                "INSERT INTO orchestrator_run (fetcher_id, run_started, added) VALUES (?1, ?2, unixepoch())
                 ON CONFLICT DO NOTHING",
            )?
            .execute([fetcher_id, run.started])?;
            self.known.insert((fetcher_id, run.started), complete);
        }
        Ok(())
    }

    /// Marks a run as deleted.
    pub(super) fn mark(
        &mut self,
        conn: &Connection,
        fetcher_id: i64,
        run_started: i64,
    ) -> rusqlite::Result<()> {
        conn.prepare_cached(
            "INSERT INTO orchestrator_deleted_run (fetcher_id, run_started) VALUES (?1, ?2)",
        )?
        .execute([fetcher_id, run_started])?;
        self.deleted.insert((fetcher_id, run_started));
        Ok(())
    }

    /// Removes a run without rows and its mark, and its fetcher with its last run (CONTRACT QC03).
    pub(super) fn remove(
        &mut self,
        conn: &Connection,
        fetcher_id: i64,
        run_started: i64,
    ) -> rusqlite::Result<RunId> {
        conn.prepare_cached("DELETE FROM fetcher_runs WHERE fetcher_id = ?1 AND run_started = ?2")?
            .execute([fetcher_id, run_started])?;
        for table in ["orchestrator_deleted_run", "orchestrator_run"] {
            conn.prepare_cached(&format!("DELETE FROM {table} WHERE fetcher_id = ?1 AND run_started = ?2"))?
                .execute([fetcher_id, run_started])?;
        }
        self.known.remove(&(fetcher_id, run_started));
        self.deleted.remove(&(fetcher_id, run_started));
        let run = RunId::new(self.names.get(&fetcher_id).cloned().unwrap_or_default(), run_started);
        if self.of_fetcher(fetcher_id).next().is_none() {
            conn.prepare_cached("DELETE FROM fetchers WHERE fetcher_id = ?1")?.execute([fetcher_id])?;
            self.names.remove(&fetcher_id);
            self.owners.remove(&fetcher_id);
            self.ids.remove(&run.fetcher);
        }
        Ok(run)
    }

    fn of_fetcher(&self, fetcher_id: i64) -> impl DoubleEndedIterator<Item = i64> {
        self.known.range((fetcher_id, i64::MIN)..=(fetcher_id, i64::MAX)).map(|((_, run), _)| *run)
    }
}
