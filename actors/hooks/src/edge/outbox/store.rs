//! Database of the occurrences that wait for hooks.

use std::{collections::HashMap, path::Path, time::Duration};

use orchestrator_edge::{DatabaseFiles, DatabaseLock};
use rusqlite::{Connection, OptionalExtension, params};

use super::{error::OutboxError, hook_queue::HookQueue};
use crate::{
    messages::{Kept, Waiting},
    outbox_event::OutboxEvent,
};

/// Maximum size of the JSON that waits for one hook, in bytes.
const HOOK_BYTES_MAX: u64 = 16 << 20;
/// Maximum number of occurrences of one hook that are put aside.
const PUT_ASIDE_MAX: i64 = 1_000;
/// Version of the tables, in `user_version`. A program that does not know the table `put_aside` can use the
/// others.
const VERSION: i64 = 1;
const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS waiting (
        number INTEGER PRIMARY KEY AUTOINCREMENT, hook TEXT NOT NULL, id TEXT NOT NULL, json TEXT NOT NULL) STRICT;
    CREATE INDEX IF NOT EXISTS waiting_hook ON waiting (hook, number);
    CREATE TABLE IF NOT EXISTS put_aside (
        number INTEGER PRIMARY KEY, hook TEXT NOT NULL, id TEXT NOT NULL, json TEXT NOT NULL, reason TEXT NOT NULL) STRICT;
    CREATE INDEX IF NOT EXISTS put_aside_hook ON put_aside (hook, number);
    CREATE TABLE IF NOT EXISTS position (only_one INTEGER PRIMARY KEY CHECK (only_one = 1), number INTEGER NOT NULL) STRICT;
    PRAGMA user_version = 1;";

/// Open database.
#[derive(Debug)]
pub(super) struct Store<'a> {
    path: &'a Path,
    conn: Connection,
    files: DatabaseFiles,
    _lock: DatabaseLock,
    hooks: &'a [HookQueue],
    /// Occurrences of each hook, in the order of `hooks`.
    loads: Vec<Load>,
    dropped: HashMap<&'a str, u64>,
}

/// Occurrences of a hook, and the size of those that wait.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Load {
    kept: Kept,
    bytes: u64,
}

impl<'a> Store<'a> {
    /// Opens or creates the database at `path`, and removes what waits for hooks that are not configured any
    /// more, unless there are none.
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

    /// Position of the last [`Self::append`] that had one.
    pub(super) fn position(&self) -> Result<Option<i64>, OutboxError> {
        let read = self.conn.query_row("SELECT number FROM position", [], |row| row.get(0)).optional();
        read.map_err(unavailable(self.path))
    }

    /// Stores occurrences for their hooks, and a position. Drops the oldest ones of a hook that has too many.
    pub(super) fn append(
        &mut self,
        events: &[OutboxEvent],
        position: Option<i64>,
    ) -> Result<(), OutboxError> {
        let mut loads = self.loads.clone();
        let mut dropped = vec![0; loads.len()];
        let mut store = || -> rusqlite::Result<()> {
            let tx = self.conn.unchecked_transaction()?;
            for (i, hook) in self.hooks.iter().enumerate() {
                for event in events.iter().filter(|event| event.on == hook.on) {
                    tx.prepare_cached("INSERT INTO waiting (hook, id, json) VALUES (?1, ?2, ?3)")?
                        .execute(params![hook.name, event.id, event.json])?;
                    loads[i].kept.waiting += 1;
                    loads[i].bytes += event.json.len() as u64;
                }
                while loads[i].bytes > HOOK_BYTES_MAX {
                    let removed = remove_oldest(&tx, &hook.name)?;
                    loads[i].kept.waiting = loads[i].kept.waiting.saturating_sub(1);
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
        // Rows in a file that is no longer at the path are written again, to the new file.
        self.files.check_database().map_err(|lost| unavailable(self.path)(lost.to_string()))?;
        self.loads = loads;
        for (hook, dropped) in self.hooks.iter().zip(dropped).filter(|(_, dropped)| *dropped > 0) {
            *self.dropped.entry(&hook.name).or_default() += dropped;
        }
        self.report();
        Ok(())
    }

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
            load.kept.waiting = load.kept.waiting.saturating_sub(1);
            load.bytes = load.bytes.saturating_sub(bytes.unsigned_abs());
        }
        self.report();
        Ok(())
    }

    /// Puts an occurrence of `hook` aside for `reason`. It may have been dropped meanwhile. Drops the oldest
    /// one beyond [`PUT_ASIDE_MAX`].
    pub(super) fn put_aside(&mut self, hook: &str, number: i64, reason: &str) -> Result<(), OutboxError> {
        let moved = || -> rusqlite::Result<usize> {
            let tx = self.conn.unchecked_transaction()?;
            tx.prepare_cached(
                "INSERT INTO put_aside SELECT number, hook, id, json, ?3 FROM waiting WHERE hook = ?1 AND number = ?2",
            )?
            .execute(params![hook, number, reason])?;
            tx.prepare_cached("DELETE FROM waiting WHERE hook = ?1 AND number = ?2")?
                .execute(params![hook, number])?;
            let dropped = tx
                .prepare_cached(
                    "DELETE FROM put_aside WHERE hook = ?1 AND number <= (
                         SELECT number FROM put_aside WHERE hook = ?1 ORDER BY number DESC LIMIT 1 OFFSET ?2)",
                )?
                .execute(params![hook, PUT_ASIDE_MAX])?;
            tx.commit()?;
            Ok(dropped)
        };
        let dropped = moved().map_err(unavailable(self.path))?;
        self.reload(hook, dropped as u64)
    }

    /// Lets the occurrences of `hook` that were put aside wait again, behind the others.
    pub(super) fn send_again(&mut self, hook: &str) -> Result<(), OutboxError> {
        let moved = || -> rusqlite::Result<()> {
            let tx = self.conn.unchecked_transaction()?;
            tx.execute(
                "INSERT INTO waiting (hook, id, json) SELECT hook, id, json FROM put_aside WHERE hook = ?1 ORDER BY number",
                [hook],
            )?;
            tx.execute("DELETE FROM put_aside WHERE hook = ?1", [hook])?;
            tx.commit()
        };
        moved().map_err(unavailable(self.path))?;
        self.reload(hook, 0)
    }

    /// Reads again what is kept for `hook`, and reports it.
    fn reload(&mut self, hook: &str, dropped: u64) -> Result<(), OutboxError> {
        if let Some(i) = self.hooks.iter().position(|known| known.name == hook) {
            self.loads[i] = load(&self.conn, hook).map_err(unavailable(self.path))?;
            if dropped > 0 {
                *self.dropped.entry(&self.hooks[i].name).or_default() += dropped;
            }
        }
        self.report();
        Ok(())
    }

    /// Number of occurrences dropped since the last call, by hook.
    pub(super) fn take_dropped(&mut self) -> HashMap<&'a str, u64> {
        std::mem::take(&mut self.dropped)
    }

    /// Reports the backlogs to the children of the hooks.
    fn report(&self) {
        for (hook, load) in self.hooks.iter().zip(&self.loads) {
            hook.kept.send_replace(load.kept.clone());
        }
    }
}

fn unavailable<E>(path: &Path) -> impl FnOnce(E) -> OutboxError
where
    E: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    move |error| OutboxError::Unavailable { path: path.to_owned(), source: error.into() }
}

fn load(conn: &Connection, hook: &str) -> rusqlite::Result<Load> {
    let (waiting, bytes): (i64, i64) = conn.query_row(
        "SELECT count(*), ifnull(sum(octet_length(json)), 0) FROM waiting WHERE hook = ?1",
        [hook],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    let put_aside: i64 =
        conn.query_row("SELECT count(*) FROM put_aside WHERE hook = ?1", [hook], |row| row.get(0))?;
    let last = conn
        .query_row(
            "SELECT id, reason FROM put_aside WHERE hook = ?1 ORDER BY number DESC LIMIT 1",
            [hook],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .optional()?;
    let kept = Kept { waiting: waiting.unsigned_abs(), put_aside: put_aside.unsigned_abs(), last };
    Ok(Load { kept, bytes: bytes.unsigned_abs() })
}

/// Removes the occurrences of hooks that are not in `hooks`.
fn remove_others(conn: &Connection, hooks: &[HookQueue]) -> rusqlite::Result<()> {
    let stored: Vec<String> = conn
        .prepare("SELECT hook FROM waiting UNION SELECT hook FROM put_aside")?
        .query_map([], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    for gone in stored.iter().filter(|stored| hooks.iter().all(|hook| hook.name != **stored)) {
        let removed = conn.execute("DELETE FROM waiting WHERE hook = ?1", [gone])?
            + conn.execute("DELETE FROM put_aside WHERE hook = ?1", [gone])?;
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
    use crate::config::HookEventKind;

    fn hook(name: &str, on: HookEventKind) -> HookQueue {
        HookQueue { name: name.to_owned(), on, kept: watch::channel(Kept::default()).0 }
    }

    fn event(id: &str, json: String) -> OutboxEvent {
        OutboxEvent { on: HookEventKind::QueueFailed, id: id.to_owned(), json }
    }

    #[test]
    fn each_hook_has_a_copy_until_it_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("hooks.db");
        let hooks = [
            hook("a", HookEventKind::QueueFailed),
            hook("b", HookEventKind::QueueFailed),
            hook("c", HookEventKind::SubsystemGaveUp),
        ];
        let backlogs = || hooks.each_ref().map(|hook| hook.kept.borrow().waiting);
        let mut store = Store::open(&path, &hooks).unwrap();
        assert_eq!(store.position().unwrap(), None);
        store.append(&[event("1", "one".to_owned()), event("2", "two".to_owned())], Some(7)).unwrap();
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
        let left = [hook("b", HookEventKind::QueueFailed)];
        let store = Store::open(&path, &left).unwrap();
        assert_eq!((store.oldest("a").unwrap(), left[0].kept.borrow().waiting), (None, 2));
        assert_eq!(store.position().unwrap(), Some(7));
    }

    #[test]
    fn the_oldest_are_dropped_beyond_the_limit() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("hooks.db");
        let hooks = [hook("a", HookEventKind::QueueFailed)];
        let mut store = Store::open(&path, &hooks).unwrap();
        for i in 0..70 {
            store.append(&[event(&i.to_string(), "x".repeat(256 << 10))], None).unwrap();
        }
        assert_eq!(store.take_dropped(), HashMap::from([("a", 6)]));
        let oldest = store.oldest("a").unwrap().unwrap().id;
        assert_eq!((oldest.as_str(), hooks[0].kept.borrow().waiting), ("6", 64));
        assert!(store.take_dropped().is_empty());
    }

    #[test]
    fn one_that_is_put_aside_is_kept_until_it_is_sent_again_at_the_end() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("hooks.db");
        let hooks = [hook("a", HookEventKind::QueueFailed), hook("b", HookEventKind::QueueFailed)];
        let kept = || hooks.each_ref().map(|hook| (hook.kept.borrow().waiting, hook.kept.borrow().put_aside));
        let mut store = Store::open(&path, &hooks).unwrap();
        store.append(&["1", "2"].map(|id| event(id, id.to_owned())), None).unwrap();
        let first = store.oldest("a").unwrap().unwrap();
        for _ in 0..2 {
            store.put_aside("a", first.number, "too large").unwrap();
        }
        assert_eq!((kept(), store.oldest("a").unwrap().unwrap().id.as_str()), ([(1, 1), (2, 0)], "2"));
        drop(store);
        let mut store = Store::open(&path, &hooks).unwrap();
        let last = Some(("1".to_owned(), "too large".to_owned()));
        assert_eq!((kept(), &hooks[0].kept.borrow().last), ([(1, 1), (2, 0)], &last));
        store.send_again("b").unwrap();
        store.send_again("a").unwrap();
        assert_eq!((kept(), store.oldest("a").unwrap().unwrap().id.as_str()), ([(2, 0), (2, 0)], "2"));
        store.remove("a", store.oldest("a").unwrap().unwrap().number).unwrap();
        let again = store.oldest("a").unwrap().unwrap();
        assert_eq!((again.id.as_str(), again.json.as_str()), ("1", "1"));
    }

    #[test]
    fn the_oldest_that_were_put_aside_are_dropped_beyond_the_limit() {
        let directory = tempfile::tempdir().unwrap();
        let hooks = [hook("a", HookEventKind::QueueFailed)];
        let path = directory.path().join("hooks.db");
        let mut store = Store::open(&path, &hooks).unwrap();
        store.append(&[event("last", "{}".to_owned())], None).unwrap();
        store
            .conn
            .execute_batch(
                "WITH RECURSIVE n (i) AS (SELECT -1000 UNION ALL SELECT i + 1 FROM n WHERE i < -1)
                 INSERT INTO put_aside SELECT i, 'a', i, '{}', 'no' FROM n;",
            )
            .unwrap();
        store.put_aside("a", store.oldest("a").unwrap().unwrap().number, "no").unwrap();
        assert_eq!(store.take_dropped(), HashMap::from([("a", 1)]));
        assert_eq!((hooks[0].kept.borrow().put_aside, hooks[0].kept.borrow().waiting), (1_000, 0));
        let oldest: i64 =
            store.conn.query_row("SELECT min(number) FROM put_aside", [], |row| row.get(0)).unwrap();
        assert_eq!(oldest, -999);
    }
}
