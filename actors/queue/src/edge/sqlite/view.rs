//! View of the database in memory.

use super::attempts::Attempts;
use super::heads::Heads;
use super::runs::Runs;
use rusqlite::Connection;

/// View of the database in memory; exact until another process commits or the transaction is rolled
/// back.
#[derive(Debug)]
pub(super) struct View {
    pub(super) runs: Runs,
    pub(super) heads: Heads,
    pub(super) attempts: Attempts,
    /// Fetcher whose deleted runs block a new run.
    pub(super) urgent: Option<i64>,
}

impl View {
    /// Reads the runs, and one head per section. No other program writes attempts, so their state is
    /// taken over.
    pub(super) fn load(conn: &Connection, attempts: Attempts) -> rusqlite::Result<Self> {
        let runs = Runs::load(conn)?;
        let heads = Heads::load(conn, &|fetcher, run| runs.is_deleted(fetcher, run))?;
        Ok(Self { runs, heads, attempts, urgent: None })
    }

    /// Reads the view again after the tables were rebuilt.
    pub(super) fn reload(&mut self, conn: &Connection) -> rusqlite::Result<()> {
        *self = Self::load(conn, self.attempts)?;
        Ok(())
    }
}
