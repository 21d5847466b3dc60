//! View of the database in memory.

use super::heads::Heads;
use super::runs::Runs;
use rusqlite::Connection;

/// View of the database in memory; exact until another process commits or the transaction is rolled
/// back.
#[derive(Debug, Default)]
pub(super) struct View {
    pub(super) runs: Runs,
    pub(super) heads: Heads,
    /// Fetcher whose deleted runs block a new run.
    pub(super) urgent: Option<i64>,
}

impl View {
    /// Reads the runs, and one head per section.
    pub(super) fn load(conn: &Connection) -> rusqlite::Result<Self> {
        let runs = Runs::load(conn)?;
        let heads = Heads::load(conn, &|fetcher, run| runs.is_deleted(fetcher, run))?;
        Ok(Self { runs, heads, urgent: None })
    }
}
