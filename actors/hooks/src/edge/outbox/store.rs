//! Database of the occurrences that wait for hooks.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    time::Duration,
};

use orchestrator_edge::{DatabaseFiles, DatabaseLock};
use rusqlite::{Connection, OptionalExtension, params};

use super::hook_queue::HookQueue;
use crate::{messages::Waiting, occurrence::Occurrence};

/// Maximum size of the JSON that waits for one hook, in bytes.
const HOOK_BYTES_MAX: u64 = 16 << 20;
/// Version of the tables, in `user_version`.
const VERSION: i64 = 1;
const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS waiting (
        number INTEGER PRIMARY KEY AUTOINCREMENT, hook TEXT NOT NULL, id TEXT NOT NULL, json TEXT NOT NULL) STRICT;
    CREATE INDEX IF NOT EXISTS waiting_hook ON waiting (hook, number);
    CREATE TABLE IF NOT EXISTS position (only_one INTEGER PRIMARY KEY CHECK (only_one = 1), number INTEGER NOT NULL) STRICT;
    PRAGMA user_version = 1;";

/// Error of the outbox.
#[derive(Debug, thiserror::Error)]
pub enum OutboxError {
    /// Another instance uses it.
    #[error("the outbox {path} of the hooks is used by another instance: stop that one, or start this one in another directory", path = .path.display())]
    Locked {
        /// Path of the database.
        path: PathBuf,
    },
    /// A newer program wrote it.
    #[error("the outbox {path} of the hooks is that of a newer version: run that one, or move the file away", path = .path.display())]
    Newer {
        /// Path of the database.
        path: PathBuf,
    },
    /// Its directory cannot be created.
    #[error("cannot create directory {path} for the outbox of the hooks: {source}", path = .path.display())]
    Directory {
        /// Path of the directory.
        path: PathBuf,
        /// Error of the system.
        source: std::io::Error,
    },
    /// The file cannot be used.
    #[error("the outbox {path} cannot be used: {reason}: check the disk and the permissions", path = .path.display())]
    Unavailable {
        /// Path of the database.
        path: PathBuf,
        /// Error of SQLite or the system.
        reason: String,
    },
}

/// Open database.
#[derive(Debug)]
pub(super) struct Store<'a> {
    path: &'a Path,
    conn: Connection,
    files: DatabaseFiles,
    _lock: DatabaseLock,
    hooks: &'a [HookQueue],
    /// Occurrences that wait for each hook, in the order of `hooks`.
    loads: Vec<Load>,
    dropped: HashMap<&'a str, u64>,
}

/// Number and size of the occurrences that wait for a hook.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Load {
    occurrences: u64,
    bytes: u64,
}

impl<'a> Store<'a> {
    /// Opens or creates the database at `path`, and removes what waits for hooks that are not configured any more, unless there are none.
    pub(super) fn open(path: &'a Path, hooks: &'a [HookQueue]) -> Result<Self, OutboxError> {
        let lock = DatabaseLock::take(path).map_err(|error| match error.kind() {
            std::io::ErrorKind::WouldBlock => OutboxError::Locked { path: path.to_owned() },
            _ => unavailable(path)(error),
        })?;
        let conn = Connection::open(path).map_err(unavailable(path))?;
        conn.busy_timeout(Duration::from_secs(5)).map_err(unavailable(path))?;
        let version: i64 =
            conn.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(unavailable(path))?;
        if version > VERSION {
            return Err(OutboxError::Newer { path: path.to_owned() });
        }
        let prepare = || -> rusqlite::Result<Vec<Load>> {
            conn.execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;")?;
            conn.execute_batch(TABLES)?;
            if !hooks.is_empty() {
                remove_others(&conn, hooks)?;
            }
            hooks.iter().map(|hook| load(&conn, &hook.name)).collect()
        };
        let loads = prepare().map_err(unavailable(path))?;
        let files = DatabaseFiles::at(path).map_err(unavailable(path))?;
        let store = Self { path, conn, files, _lock: lock, hooks, loads, dropped: HashMap::new() };
        store.report();
        Ok(store)
    }

    /// Returns the position that was stored last.
    pub(super) fn position(&self) -> Result<Option<i64>, OutboxError> {
        let read = self.conn.query_row("SELECT number FROM position", [], |row| row.get(0)).optional();
        read.map_err(unavailable(self.path))
    }

    /// Stores occurrences for their hooks, and a position. Drops the oldest ones of a hook that has too many.
    pub(super) fn append(
        &mut self,
        occurrences: &[Occurrence],
        position: Option<i64>,
    ) -> Result<(), OutboxError> {
        let mut loads = self.loads.clone();
        let mut dropped = vec![0; loads.len()];
        let mut store = || -> rusqlite::Result<()> {
            let tx = self.conn.unchecked_transaction()?;
            for (i, hook) in self.hooks.iter().enumerate() {
                for occurrence in occurrences.iter().filter(|occurrence| occurrence.on == hook.on) {
                    tx.prepare_cached("INSERT INTO waiting (hook, id, json) VALUES (?1, ?2, ?3)")?
                        .execute(params![hook.name, occurrence.id, occurrence.json])?;
                    loads[i].occurrences += 1;
                    loads[i].bytes += occurrence.json.len() as u64;
                }
                while loads[i].bytes > HOOK_BYTES_MAX {
                    let removed = remove_oldest(&tx, &hook.name)?;
                    loads[i].occurrences = loads[i].occurrences.saturating_sub(1);
                    loads[i].bytes = loads[i].bytes.saturating_sub(removed);
                    dropped[i] += 1;
                }
            }
            if let Some(position) = position {
                tx.prepare_cached("INSERT OR REPLACE INTO position (only_one, number) VALUES (1, ?1)")?
                    .execute([position])?;
            }
            tx.commit()
        };
        store().map_err(unavailable(self.path))?;
        // What was written to a file that is not at the path any more is written again, to the new one.
        self.files.check_database().map_err(unavailable(self.path))?;
        self.loads = loads;
        for (hook, dropped) in self.hooks.iter().zip(dropped).filter(|(_, dropped)| *dropped > 0) {
            *self.dropped.entry(&hook.name).or_default() += dropped;
        }
        self.report();
        Ok(())
    }

    /// Returns the oldest occurrence that waits for `hook`.
    pub(super) fn oldest(&self, hook: &str) -> Result<Option<Waiting>, OutboxError> {
        let read = || {
            self.conn
                .prepare_cached(
                    "SELECT number, id, json FROM waiting WHERE hook = ?1 ORDER BY number LIMIT 1",
                )?
                .query_row([hook], |row| {
                    Ok(Waiting { number: row.get(0)?, id: row.get(1)?, json: row.get(2)? })
                })
                .optional()
        };
        read().map_err(unavailable(self.path))
    }

    /// Removes an occurrence that `hook` has delivered. It may have been dropped meanwhile.
    pub(super) fn remove(&mut self, hook: &str, number: i64) -> Result<(), OutboxError> {
        let removed = || {
            self.conn
                .prepare_cached(
                    "DELETE FROM waiting WHERE hook = ?1 AND number = ?2 RETURNING octet_length(json)",
                )?
                .query_row(params![hook, number], |row| row.get::<_, i64>(0))
                .optional()
        };
        let removed = removed().map_err(unavailable(self.path))?;
        let at = self.hooks.iter().position(|known| known.name == hook);
        if let Some((bytes, load)) = removed.zip(at.and_then(|at| self.loads.get_mut(at))) {
            load.occurrences = load.occurrences.saturating_sub(1);
            load.bytes = load.bytes.saturating_sub(bytes.unsigned_abs());
        }
        self.report();
        Ok(())
    }

    /// Returns the numbers of occurrences that were dropped since the last call, by hook.
    pub(super) fn take_dropped(&mut self) -> HashMap<&'a str, u64> {
        std::mem::take(&mut self.dropped)
    }

    /// Reports the backlogs to the children of the hooks.
    fn report(&self) {
        for (hook, load) in self.hooks.iter().zip(&self.loads) {
            hook.backlog.send_replace(load.occurrences);
        }
    }
}

fn unavailable<E: std::fmt::Display>(path: &Path) -> impl FnOnce(E) -> OutboxError {
    move |error| OutboxError::Unavailable { path: path.to_owned(), reason: error.to_string() }
}

fn load(conn: &Connection, hook: &str) -> rusqlite::Result<Load> {
    conn.query_row(
        "SELECT count(*), ifnull(sum(octet_length(json)), 0) FROM waiting WHERE hook = ?1",
        [hook],
        |row| {
            let (occurrences, bytes): (i64, i64) = (row.get(0)?, row.get(1)?);
            Ok(Load { occurrences: occurrences.unsigned_abs(), bytes: bytes.unsigned_abs() })
        },
    )
}

/// Removes what waits for hooks that are not in `hooks`.
fn remove_others(conn: &Connection, hooks: &[HookQueue]) -> rusqlite::Result<()> {
    let stored: Vec<String> = conn
        .prepare("SELECT DISTINCT hook FROM waiting")?
        .query_map([], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    for gone in stored.iter().filter(|stored| hooks.iter().all(|hook| hook.name != **stored)) {
        let removed = conn.execute("DELETE FROM waiting WHERE hook = ?1", [gone])?;
        tracing::warn!(
            hook = gone,
            removed,
            "removed the occurrences of a hook that is not configured any more"
        );
    }
    Ok(())
}

/// Removes the oldest occurrence of a hook and returns the size of its JSON, in bytes.
fn remove_oldest(conn: &Connection, hook: &str) -> rusqlite::Result<u64> {
    conn.prepare_cached(
        "DELETE FROM waiting WHERE number = (SELECT min(number) FROM waiting WHERE hook = ?1)
         RETURNING octet_length(json)",
    )?
    .query_row([hook], |row| row.get::<_, i64>(0))
    .map(i64::unsigned_abs)
}

#[cfg(test)]
mod tests {
    use tokio::sync::watch;

    use super::*;
    use crate::config::Occasion;

    fn hook(name: &str, on: Occasion) -> HookQueue {
        HookQueue { name: name.to_owned(), on, backlog: watch::channel(0).0 }
    }

    fn occurrence(id: &str, json: String) -> Occurrence {
        Occurrence { on: Occasion::QueueFailed, id: id.to_owned(), json }
    }

    #[test]
    fn each_hook_has_a_copy_until_it_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("hooks.db");
        let hooks = [
            hook("a", Occasion::QueueFailed),
            hook("b", Occasion::QueueFailed),
            hook("c", Occasion::SubsystemGaveUp),
        ];
        let backlogs = || hooks.each_ref().map(|hook| *hook.backlog.borrow());
        let mut store = Store::open(&path, &hooks).unwrap();
        assert_eq!(store.position().unwrap(), None);
        store
            .append(&[occurrence("1", "one".to_owned()), occurrence("2", "two".to_owned())], Some(7))
            .unwrap();
        assert_eq!((backlogs(), store.position().unwrap()), ([2, 2, 0], Some(7)));
        let first = store.oldest("a").unwrap().unwrap();
        assert_eq!((first.id.as_str(), first.json.as_str()), ("1", "one"));
        assert!(matches!(Store::open(&path, &hooks), Err(OutboxError::Locked { .. })));
        drop(store);
        let mut store = Store::open(&path, &hooks).unwrap();
        store.remove("a", first.number).unwrap();
        store.remove("a", first.number).unwrap();
        assert_eq!(store.oldest("a").unwrap().unwrap().id, "2");
        assert_eq!((store.oldest("b").unwrap().unwrap().id.as_str(), backlogs()), ("1", [1, 2, 0]));
        assert_eq!(store.oldest("c").unwrap(), None);
        drop(store);
        let left = [hook("b", Occasion::QueueFailed)];
        let store = Store::open(&path, &left).unwrap();
        assert_eq!((store.oldest("a").unwrap(), *left[0].backlog.borrow()), (None, 2));
        assert_eq!(store.position().unwrap(), Some(7));
    }

    #[test]
    fn the_oldest_are_dropped_beyond_the_limit() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("hooks.db");
        let hooks = [hook("a", Occasion::QueueFailed)];
        let mut store = Store::open(&path, &hooks).unwrap();
        for i in 0..70 {
            store.append(&[occurrence(&i.to_string(), "x".repeat(256 << 10))], None).unwrap();
        }
        assert_eq!(store.take_dropped(), HashMap::from([("a", 6)]));
        assert_eq!((store.oldest("a").unwrap().unwrap().id.as_str(), *hooks[0].backlog.borrow()), ("6", 64));
        assert!(store.take_dropped().is_empty());
    }
}
