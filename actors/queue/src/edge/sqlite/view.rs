//! What the store keeps in memory of the database.

use super::heads::Heads;
use super::runs::Runs;
use rusqlite::Connection;

/// What is kept in memory of the database; exact while no foreign commit and no rollback came between.
#[derive(Debug, Default)]
pub(super) struct View {
    pub(super) runs: Runs,
    pub(super) heads: Heads,
    /// Fetcher whose deleted runs stand in the way of a new one.
    pub(super) urgent: Option<i64>,
}

impl View {
    /// Reads it: the runs, and one seek for each section of groups.
    pub(super) fn load(conn: &Connection) -> rusqlite::Result<Self> {
        let runs = Runs::load(conn)?;
        let heads = Heads::load(conn, &|fetcher, run| runs.is_deleted(fetcher, run))?;
        Ok(Self { runs, heads, urgent: None })
    }
}
