//! SQLite file: owner, version, kills, concurrent readers.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use rusqlite::Connection;

use crate::{
    edge::sqlite::{Options, SqliteReader, SqliteStore},
    listing::Listing,
    method::Entity,
    row::Rows,
    store::{ListedRows, Page, Query, QueryResult, Store, StoreError, StoreReader},
    tests::conformance::{at, content},
};

/// Variable that names the file of the other process.
const FILE: &str = "ORCHESTRATOR_TEST_FILE";

fn rows(number: u8) -> [Rows; 1] {
    [Rows::Contents(vec![(content(number), at(i64::from(number)))])]
}

/// All contents, in one page.
fn contents() -> Query {
    Query::Page { listing: Listing::Entities(Entity::Content), after: None, limit: 100 }
}

fn stored(found: Result<QueryResult, StoreError>) -> usize {
    let Ok(QueryResult::Page(Page { rows: ListedRows::Ids(ids), .. })) = found else {
        panic!("no identifiers but {found:?}")
    };
    ids.len()
}

/// Runs a test in another process, on `file`.
fn in_another_process(test: &str, file: &Path) -> Output {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(FILE, file)
        .output()
        .unwrap()
}

fn file_of_parent() -> Option<PathBuf> {
    std::env::var_os(FILE).map(PathBuf::from)
}

fn refused_reason(opened: Result<SqliteStore, StoreError>) -> String {
    match opened {
        Err(StoreError::Refused(reason)) => reason,
        other => panic!("not refused: {other:?}"),
    }
}

fn unavailable_reason(opened: Result<SqliteStore, StoreError>) -> String {
    match opened {
        Err(StoreError::Unavailable(failure)) => failure.reason,
        other => panic!("not away: {other:?}"),
    }
}

#[tokio::test]
async fn a_file_has_one_owner() {
    if let Some(path) = file_of_parent() {
        assert!(unavailable_reason(SqliteStore::open(&path)).contains("open in another store"));
        assert!(SqliteReader::open(&path).is_ok(), "reading is free");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("p.db");
    let mut store = SqliteStore::open(&path).unwrap();
    assert!(unavailable_reason(SqliteStore::open(&path)).contains("open in another store"));
    let output = in_another_process("tests::sqlite_store::file::a_file_has_one_owner", &path);
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"), "{output:?}");
    store.write(&rows(1)).await.unwrap();
    drop(store);
    let mut store = SqliteStore::open_with(&path, Options::default()).unwrap();
    assert_eq!(stored(store.read(&contents()).await), 1);
}

#[test]
fn a_newer_version_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("p.db");
    drop(SqliteStore::open(&path).unwrap());
    Connection::open(&path).unwrap().pragma_update(None, "user_version", 2).unwrap();
    let reason = refused_reason(SqliteStore::open(&path));
    assert!(
        reason.ends_with("is of version 2 and this program knows 1 at most: use a newer one"),
        "{reason}"
    );
    assert!(SqliteReader::open(&path).is_err());
}

#[test]
fn a_foreign_file_is_refused_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let makers: [(&str, &str); 3] = [
        ("tables", "CREATE TABLE theirs (x)"),
        ("application", "PRAGMA application_id = 7"),
        ("version", "PRAGMA user_version = 1"),
    ];
    for (name, sql) in makers {
        let path = dir.path().join(name);
        let conn = Connection::open(&path).unwrap();
        conn.execute_batch(sql).unwrap();
        drop(conn);
        let before = fs::read(&path).unwrap();
        assert!(refused_reason(SqliteStore::open(&path)).contains("not a provenance store"), "{name}");
        assert!(SqliteReader::open(&path).is_err());
        assert_eq!(fs::read(&path).unwrap(), before, "{name}");
    }
    let text = dir.path().join("text");
    fs::write(&text, "no database at all, and long enough to be looked at".repeat(50)).unwrap();
    assert!(refused_reason(SqliteStore::open(&text)).contains("not a provenance store"));
}

#[test]
fn a_file_that_cannot_be_opened_is_unavailable() {
    let dir = tempfile::tempdir().unwrap();
    unavailable_reason(SqliteStore::open(&dir.path().join("no such folder/p.db")));
    let path = dir.path().join("p.db");
    assert!(matches!(SqliteReader::open(&path), Err(StoreError::Unavailable(_))), "it is not there");
    fs::write(&path, "").unwrap();
    assert!(matches!(SqliteReader::open(&path), Err(StoreError::Unavailable(_))), "it has no tables yet");
    assert!(SqliteStore::open(&path).is_ok());
}

#[tokio::test]
async fn a_reader_on_another_thread_sees_what_was_written() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("p.db");
    let mut store = SqliteStore::open(&path).unwrap();
    let (ask, asked) = std::sync::mpsc::channel::<Query>();
    let (answer, answers) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        let mut reader = SqliteReader::open(&path).unwrap();
        for query in asked {
            // The future is ready at the first poll.
            answer.send(orchestrator_supervise::block_on(None, reader.read(&query)).unwrap()).unwrap();
        }
    });
    for number in 1..20 {
        store.write(&rows(number)).await.unwrap();
        ask.send(contents()).unwrap();
        assert_eq!(stored(answers.recv().unwrap()), usize::from(number));
    }
    drop(ask);
    thread.join().unwrap();
}
