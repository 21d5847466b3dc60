//! SQLite file of permanently refused rows for the embedded transport. It is separate from the
//! store, so that it works with every store.

use std::{path::Path, time::SystemTime};

use orchestrator_edge::{DatabaseFiles, LinkState, Reconnecting, RetryPolicy, check_database_files, timed};
use orchestrator_observe::{Metric, MetricKind};
use orchestrator_supervise::{Factory, Fault, Inbox, InboxSlot, StartCx};
use rusqlite::Connection;

use super::sqlite::{explain, identity_error};
use crate::{
    messages::{DeadLetter, DeadLetterRequest},
    store::StoreError,
};

/// A row that is refused again increments `times`, so a repeated import does not grow the file.
const TABLE: &str = "
    PRAGMA synchronous = FULL;
    CREATE TABLE IF NOT EXISTS dead_letter (
        id INTEGER PRIMARY KEY, line TEXT NOT NULL UNIQUE, reason TEXT NOT NULL, last_at INTEGER NOT NULL,
        times INTEGER NOT NULL DEFAULT 1) STRICT;";
const UPSERT: &str =
    "INSERT INTO dead_letter (line, reason, last_at) VALUES (?1, ?2, ?3) ON CONFLICT (line) DO UPDATE
    SET reason = excluded.reason, last_at = excluded.last_at, times = times + 1";
const LIST: &str =
    "SELECT line, reason, last_at, times FROM dead_letter ORDER BY last_at DESC, id DESC LIMIT ?1";

pub(crate) fn factory(path: &Path, slot: &InboxSlot<DeadLetterRequest>) -> Factory {
    let (path, requests) = (path.to_owned(), slot.clone());
    let factory = Factory::thread(move |cx| timed(run(&cx, &requests, &path)));
    factory.with_inbox("letters", slot)
}

async fn run(cx: &StartCx, slot: &InboxSlot<DeadLetterRequest>, path: &Path) -> Result<(), Fault> {
    let stored = cx.vitals.register(
        "dead_lettered",
        "rows",
        MetricKind::Counter,
        "Refused rows stored in the dead letter file, including repeated rows.",
    );
    let link = LinkState::new(cx, "sqlite", path.display().to_string(), RetryPolicy::LOCAL);
    let mut server = LetterServer { cx, path, inbox: slot.open(), stored, failed_request: None };
    server.run(&link).await;
    Ok(())
}

/// The open file.
struct OpenFile<'a> {
    path: &'a Path,
    conn: Connection,
    files: DatabaseFiles,
}

impl<'a> OpenFile<'a> {
    fn open(path: &'a Path) -> Result<Self, StoreError> {
        check_database_files(path).map_err(|error| StoreError::unavailable(error.to_string()))?;
        let conn = open(path).map_err(|error| explain(path, "opening", &error))?;
        let files = DatabaseFiles::at(path).map_err(|error| identity_error(path, &error))?;
        Ok(Self { path, conn, files })
    }

    fn keep(&self, letters: &[DeadLetter]) -> Result<(), StoreError> {
        keep(&self.conn, letters).map_err(|error| explain(self.path, "keeping dead letters in", &error))?;
        // Letters written to a file that was replaced are written again, to the new file.
        self.files.check_database().map_err(|lost| StoreError::unavailable(format!("{lost}: it is reopened")))
    }

    fn list(&self, limit: u32) -> Result<Vec<DeadLetter>, StoreError> {
        self.files
            .check_database()
            .map_err(|lost| StoreError::unavailable(format!("{lost}: it is reopened")))?;
        list(&self.conn, limit).map_err(|error| explain(self.path, "reading dead letters of", &error))
    }
}

fn open(path: &Path) -> rusqlite::Result<Connection> {
    let conn = Connection::open(path)?;
    conn.execute_batch(TABLE)?;
    Ok(conn)
}

/// Inbox of requests.
struct LetterServer<'a> {
    cx: &'a StartCx,
    path: &'a Path,
    inbox: Inbox<DeadLetterRequest>,
    stored: Metric,
    /// Request that failed while the file was unavailable.
    failed_request: Option<DeadLetterRequest>,
}

impl<'a> Reconnecting for LetterServer<'a> {
    type Connection = OpenFile<'a>;
    type Error = StoreError;

    async fn connect(&mut self) -> Result<OpenFile<'a>, StoreError> {
        OpenFile::open(self.path)
    }

    async fn serve(&mut self, file: OpenFile<'a>, link: &LinkState) -> Result<(), StoreError> {
        loop {
            let request = match self.failed_request.take() {
                Some(request) => request,
                None => match self.inbox.next(self.cx).await {
                    Some(request) => request,
                    None => return Ok(()),
                },
            };
            let _work = self.cx.vitals.begin_work("letters");
            // The caller may have given up.
            match request {
                DeadLetterRequest::Keep { letters, reply } => match file.keep(&letters) {
                    Ok(()) => {
                        link.succeeded();
                        self.stored.add(letters.len() as u64);
                        let _ = reply.send(());
                    }
                    Err(error) => {
                        self.failed_request = Some(DeadLetterRequest::Keep { letters, reply });
                        return Err(error);
                    }
                },
                DeadLetterRequest::List { limit, reply } => match file.list(limit) {
                    Ok(letters) => {
                        link.succeeded();
                        drop(reply.send(Ok(letters)));
                    }
                    Err(error) => {
                        self.failed_request = Some(DeadLetterRequest::List { limit, reply });
                        return Err(error);
                    }
                },
            }
        }
    }

    /// Answers list requests; letters to store wait.
    async fn refuse(&mut self, error: &StoreError, link: &LinkState) {
        while self.failed_request.is_none() {
            match self.inbox.next(self.cx).await {
                None => return,
                Some(DeadLetterRequest::List { reply, .. }) => drop(reply.send(Err(error.clone()))),
                keep => self.failed_request = keep,
            }
        }
        link.stopped().await;
    }
}

/// Stores all letters in one transaction.
fn keep(conn: &Connection, letters: &[DeadLetter]) -> rusqlite::Result<()> {
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_secs();
    let commit = conn.unchecked_transaction()?;
    for letter in letters {
        let line = letter.line.to_string();
        conn.prepare_cached(UPSERT)?.execute((line, &letter.reason, now as i64))?;
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
    fn a_repeated_row_is_counted() {
        let conn = open(Path::new(":memory:")).unwrap();
        let letter = |id: u32, reason: &str| DeadLetter::new(json!({ "id": id }), reason.to_owned());
        keep(&conn, &[letter(1, "long"), letter(2, "odd")]).unwrap();
        keep(&conn, &[letter(1, "longer")]).unwrap();
        let mut listed = list(&conn, 10).unwrap();
        listed.sort_by_key(|letter| letter.line["id"].as_u64());
        let found: Vec<_> =
            listed.iter().map(|letter| (&letter.line["id"], letter.reason.as_str(), letter.times)).collect();
        assert_eq!(found, [(&json!(1), "longer", 2), (&json!(2), "odd", 1)]);
        assert!(listed[0].last_at > 1_700_000_000);
        assert_eq!(list(&conn, 1).unwrap().len(), 1);
    }
}
