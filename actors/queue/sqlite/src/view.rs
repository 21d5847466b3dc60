//! View of the database in memory.

use super::attempts::Attempts;
use super::bumps::Bumps;
use super::heads::Heads;
use super::limited::Limited;
use super::removal::Removal;
use super::runs::Runs;
use orchestrator_queue_rules::storage::{Class, Limits};
use rusqlite::Connection;
use std::sync::Arc;

/// View of the database in memory; exact until another process commits or the transaction is rolled
/// back.
#[derive(Debug)]
pub(super) struct View {
    pub(super) runs: Runs,
    pub(super) heads: Heads,
    pub(super) attempts: Attempts,
    pub(super) bumps: Bumps,
    pub(super) limited: Limited,
    /// Fetcher whose deleted runs block a new run.
    pub(super) urgent: Option<i64>,
    pub(super) removal: Removal,
}

impl View {
    /// Reads the runs, one head per section, the bumps and the limited
    /// jobs. No other program writes attempts, so their state is
    /// taken over.
    pub(super) fn load(
        conn: &Connection,
        attempts: Attempts,
        limits: &Arc<Limits>,
    ) -> rusqlite::Result<Self> {
        let runs = Runs::load(conn)?;
        let heads = Heads::load(conn, &runs)?;
        let (bumps, limited) = (Bumps::load(conn)?, Limited::load(conn, limits)?);
        Ok(Self { runs, heads, attempts, bumps, limited, urgent: None, removal: Removal::default() })
    }

    /// Reads the view again after the tables were rebuilt.
    pub(super) fn reload(&mut self, conn: &Connection) -> rusqlite::Result<()> {
        *self = Self::load(conn, self.attempts, &self.limited.limits)?;
        Ok(())
    }

    pub(super) fn class(&self, fetcher_id: i64, attr_path: &str) -> Class {
        if self.limited.limits.0.is_empty() {
            return 0;
        }
        self.limited.limits.class(attr_path, self.runs.name(fetcher_id))
    }
}
