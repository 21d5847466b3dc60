//! A second connection to the queue's database, as another process would have it: foreign keys and triggers
//! on.

use std::{
    path::Path,
    thread::sleep,
    time::{Duration, Instant},
};

use rusqlite::Connection;

/// Connection of another process.
#[derive(Debug)]
pub struct Database {
    connection: Connection,
}

impl Database {
    /// Opens the database file.
    ///
    /// # Panics
    /// If it cannot be opened.
    pub fn open(path: &Path) -> Self {
        let connection = Connection::open(path).expect("open the database");
        connection.busy_timeout(Duration::from_secs(10)).expect("a busy time-out");
        connection.pragma_update(None, "foreign_keys", true).expect("foreign keys on");
        Self { connection }
    }

    /// The rusqlite connection.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Executes statements.
    ///
    /// # Panics
    /// If one fails.
    pub fn execute(&self, sql: &str) {
        self.connection.execute_batch(sql).expect("a statement that runs");
    }

    /// Rows of a query as text: columns joined by `|`, NULL as `NULL`.
    ///
    /// # Panics
    /// If it fails.
    pub fn rows(&self, sql: &str) -> Vec<String> {
        use rusqlite::types::ValueRef;
        let mut statement = self.connection.prepare(sql).expect("a query that parses");
        let columns = statement.column_count();
        let rows = statement.query_map([], |row| {
            let cells = (0..columns).map(|i| {
                Ok(match row.get_ref(i)? {
                    ValueRef::Null => "NULL".to_owned(),
                    ValueRef::Integer(n) => n.to_string(),
                    ValueRef::Real(x) => x.to_string(),
                    ValueRef::Text(t) => String::from_utf8_lossy(t).into_owned(),
                    ValueRef::Blob(b) => format!("{b:?}"),
                })
            });
            cells.collect::<rusqlite::Result<Vec<_>>>().map(|cells| cells.join("|"))
        });
        rows.and_then(Iterator::collect).expect("a query that runs")
    }

    /// `fetcher_id|run|attr_path|payload` of every queue row, ordered.
    pub fn queue(&self) -> Vec<String> {
        self.rows("SELECT fetcher_id, fetcher_run_started, attr_path, payload FROM queue ORDER BY 1, 2, 3")
    }

    /// Waits until [`Database::queue`] is `rows`.
    ///
    /// # Panics
    /// If they differ after the deadline.
    pub fn expect_queue(&self, rows: &[&str]) {
        self.expect(
            "SELECT fetcher_id, fetcher_run_started, attr_path, payload FROM queue ORDER BY 1, 2, 3",
            rows,
        );
    }

    /// Waits until the rows of `query` are `rows`.
    ///
    /// # Panics
    /// If they differ after the deadline.
    pub fn expect(&self, query: &str, rows: &[&str]) {
        let give_up = Instant::now() + crate::DEADLINE;
        while self.rows(query) != rows && Instant::now() < give_up {
            sleep(Duration::from_millis(2));
        }
        assert_eq!(self.rows(query), rows, "{query}");
    }
}
