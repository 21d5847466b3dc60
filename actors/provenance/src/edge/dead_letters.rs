//! Where rows go that can never be stored when there is no broker to keep them: a table in a file of its own, so that it is
//! there whatever holds the store.

use std::{path::Path, time::SystemTime};

use orchestrator_edge::{DatabaseFiles, Reconnect};
use orchestrator_supervise::{Factory, Fault, Inbox, InboxSlot, Metric, MetricKind, StartCx};
use rusqlite::Connection;
use tokio::time::{Instant, timeout_at};

use super::{
    RETRY,
    sqlite::{explain, unobserved},
    timed,
};
use crate::{
    messages::{DeadLetter, DeadLetterRequest},
    store::StoreError,
};

/// A row that comes again is counted, not kept twice: an import that is repeated fills no disk.
const TABLE: &str = "
    PRAGMA synchronous = FULL;
    CREATE TABLE IF NOT EXISTS dead_letter (
        id INTEGER PRIMARY KEY, line TEXT NOT NULL UNIQUE, reason TEXT NOT NULL, last_at INTEGER NOT NULL,
        times INTEGER NOT NULL DEFAULT 1) STRICT;";
const BURY: &str =
    "INSERT INTO dead_letter (line, reason, last_at) VALUES (?1, ?2, ?3) ON CONFLICT (line) DO UPDATE
    SET reason = excluded.reason, last_at = excluded.last_at, times = times + 1";
const LIST: &str =
    "SELECT line, reason, last_at, times FROM dead_letter ORDER BY last_at DESC, id DESC LIMIT ?1";

/// The child that keeps them in the file at `path`.
pub(crate) fn factory(path: &Path, slot: &InboxSlot<DeadLetterRequest>) -> Factory {
    let (path, requests) = (path.to_owned(), slot.clone());
    let factory = Factory::thread(move |cx| timed(run(&cx, &requests, &path)));
    factory.with_inbox("letters", slot)
}

async fn run(cx: &StartCx, slot: &InboxSlot<DeadLetterRequest>, path: &Path) -> Result<(), Fault> {
    let mut tries = Reconnect::new(cx.vitals.link("sqlite", path.display().to_string()), RETRY);
    let kept = cx.vitals.register(
        "kept",
        "rows",
        MetricKind::Counter,
        "Rows kept as dead letters where there is no broker, repeated ones included.",
    );
    let mut desk = Desk { cx, inbox: slot.open(), kept, waiting: None };
    loop {
        let served = match File::open(path) {
            Ok(file) => {
                tries.connected();
                desk.serve(&file, &mut tries).await
            }
            Err(error) => Err(error),
        };
        let Err(error) = served else { return Ok(()) };
        if desk.wait(Instant::now() + tries.failed(error.to_string()), &error).await.is_none() {
            return Ok(());
        }
    }
}

/// The file, open.
struct File<'a> {
    path: &'a Path,
    conn: Connection,
    files: DatabaseFiles,
}

impl<'a> File<'a> {
    fn open(path: &'a Path) -> Result<Self, StoreError> {
        let conn = open(path).map_err(|error| explain(path, "opening", &error))?;
        let files = DatabaseFiles::at(path).map_err(|error| unobserved(path, &error))?;
        Ok(Self { path, conn, files })
    }

    fn keep(&self, letters: &[DeadLetter]) -> Result<(), StoreError> {
        keep(&self.conn, letters).map_err(|error| explain(self.path, "keeping dead letters in", &error))?;
        // What is in no file at the path is kept again, in the file that is there.
        self.files.check_database().map_err(|lost| StoreError::Away(format!("{lost}: it is opened anew")))
    }

    fn list(&self, limit: u32) -> Result<Vec<DeadLetter>, StoreError> {
        self.files.check_database().map_err(|lost| StoreError::Away(format!("{lost}: it is opened anew")))?;
        list(&self.conn, limit).map_err(|error| explain(self.path, "reading dead letters of", &error))
    }
}

fn open(path: &Path) -> rusqlite::Result<Connection> {
    let conn = Connection::open(path)?;
    conn.execute_batch(TABLE)?;
    Ok(conn)
}

/// Where letters come in.
struct Desk<'a> {
    cx: &'a StartCx,
    inbox: Inbox<DeadLetterRequest>,
    kept: Metric,
    /// Not carried out yet: the file was away.
    waiting: Option<DeadLetterRequest>,
}

impl Desk<'_> {
    /// Keeps and lists until asked to stop.
    async fn serve(&mut self, file: &File<'_>, tries: &mut Reconnect) -> Result<(), StoreError> {
        loop {
            let request = match self.waiting.take() {
                Some(request) => request,
                None => match self.inbox.next(self.cx).await {
                    Some(request) => request,
                    None => return Ok(()),
                },
            };
            let _in_hand = self.cx.vitals.begin_work("letters");
            // Whoever asked may have given up.
            match request {
                DeadLetterRequest::Keep { letters, reply } => match file.keep(&letters) {
                    Ok(()) => {
                        tries.succeeded();
                        self.kept.add(letters.len() as u64);
                        let _ = reply.send(());
                    }
                    Err(error) => {
                        self.waiting = Some(DeadLetterRequest::Keep { letters, reply });
                        return Err(error);
                    }
                },
                DeadLetterRequest::List { limit, reply } => match file.list(limit) {
                    Ok(letters) => {
                        tries.succeeded();
                        drop(reply.send(Ok(letters)));
                    }
                    Err(error) => {
                        self.waiting = Some(DeadLetterRequest::List { limit, reply });
                        return Err(error);
                    }
                },
            }
        }
    }

    /// Waits until `retry_at`; who asks meanwhile is told `error`, and what is to be kept waits. None when asked to stop.
    async fn wait(&mut self, retry_at: Instant, error: &StoreError) -> Option<()> {
        while self.waiting.is_none() {
            match timeout_at(retry_at, self.inbox.next(self.cx)).await {
                Err(_elapsed) => return Some(()),
                Ok(None) => return None,
                Ok(Some(DeadLetterRequest::List { reply, .. })) => drop(reply.send(Err(error.clone()))),
                Ok(keep) => self.waiting = keep,
            }
        }
        timeout_at(retry_at, self.cx.stop.cancelled()).await.is_err().then_some(())
    }
}

/// All of them, durably.
fn keep(conn: &Connection, letters: &[DeadLetter]) -> rusqlite::Result<()> {
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_secs();
    let commit = conn.unchecked_transaction()?;
    for letter in letters {
        let line = letter.line.to_string();
        conn.prepare_cached(BURY)?.execute((line, &letter.reason, now as i64))?;
    }
    commit.commit()
}

fn list(conn: &Connection, limit: u32) -> rusqlite::Result<Vec<DeadLetter>> {
    let mut statement = conn.prepare_cached(LIST)?;
    let rows = statement.query_map([limit], |row| {
        Ok(DeadLetter {
            line: row.get::<_, String>(0)?.parse().unwrap_or_default(),
            reason: row.get(1)?,
            last_at: row.get(2)?,
            times: row.get(3)?,
        })
    })?;
    rows.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_row_that_comes_again_is_counted() {
        let conn = open(Path::new(":memory:")).unwrap();
        let letter = |id: u32, reason: &str| DeadLetter::new(json!({ "id": id }), reason.to_owned());
        keep(&conn, &[letter(1, "long"), letter(2, "odd")]).unwrap();
        keep(&conn, &[letter(1, "longer")]).unwrap();
        let mut listed = list(&conn, 10).unwrap();
        listed.sort_by_key(|letter| letter.line["id"].as_u64());
        let told: Vec<_> =
            listed.iter().map(|letter| (&letter.line["id"], letter.reason.as_str(), letter.times)).collect();
        assert_eq!(told, [(&json!(1), "longer", 2), (&json!(2), "odd", 1)]);
        assert!(listed[0].last_at > 1_700_000_000);
        assert_eq!(list(&conn, 1).unwrap().len(), 1);
    }
}
