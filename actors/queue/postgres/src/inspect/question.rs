//! Transaction of a question, and columns of its answers.

use std::borrow::Cow;

use orchestrator_edge::postgres::{Params, Row};
use orchestrator_queue_rules::storage::{HandoutSettings, StorageError};

use crate::{error::altered, server_session::Session, session::get};

/// Transaction of a question.
pub(super) struct Question<'a> {
    pub(super) session: &'a mut Session,
    pub(super) action: &'static str,
    pub(super) settings: &'a HandoutSettings,
}

impl Question<'_> {
    /// Runs a query and converts its rows.
    pub(super) async fn rows<T>(
        &mut self,
        sql: impl Into<Cow<'static, str>>,
        params: Params<'_>,
        read: impl Fn(&Row) -> Result<T, StorageError>,
    ) -> Result<Vec<T>, StorageError> {
        self.session.query(self.action, sql, params).await?.iter().map(read).collect()
    }

    /// Runs a query that has one row.
    pub(super) async fn row<T>(
        &mut self,
        sql: impl Into<Cow<'static, str>>,
        params: Params<'_>,
        read: impl Fn(&Row) -> Result<T, StorageError>,
    ) -> Result<T, StorageError> {
        let found = self.rows(sql, params, read).await?;
        found.into_iter().next().ok_or_else(|| altered("an answer is empty"))
    }

    /// Returns the earliest start of a job whose hold is not over at `now`; at exactly `started + hold` it is
    /// still held (CONTRACT QO02).
    pub(super) fn held_since(&self, now: i64) -> i64 {
        now.saturating_sub(self.settings.hold_secs)
    }
}

pub(super) fn count(row: &Row, column: usize) -> Result<u64, StorageError> {
    get::<i64>(row, column).map(i64::unsigned_abs)
}

pub(super) fn rows(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}
