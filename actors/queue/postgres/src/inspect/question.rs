//! Transaction of a question, and columns of its answers.

use std::borrow::Cow;

use orchestrator_edge::postgres::{
    Params, Row,
    types::{ToSql, Type},
};
use orchestrator_queue_rules::storage::{HandoutSettings, StorageError};
use orchestrator_queue_store::{
    migration::Value,
    questions::{Param, Query},
};

use super::sql::views;
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

    /// Answers a question that both stores have.
    pub(super) async fn answer<T>(&mut self, query: &Query<T>) -> Result<Vec<T>, StorageError> {
        let params = query.params.iter().map(bound).collect();
        self.rows(query.sql_within(&views()), params, |row| query.read(values(row)?).map_err(altered)).await
    }

    /// Answers one whose answer has one row.
    pub(super) async fn single<T>(&mut self, query: &Query<T>) -> Result<T, StorageError> {
        self.answer(query).await?.pop().ok_or_else(|| altered("an answer is empty"))
    }

    /// Returns the earliest start of a job whose hold is not over at `now`; at exactly `started + hold` it is
    /// still held (CONTRACT QO02).
    pub(super) fn held_since(&self, now: i64) -> i64 {
        now.saturating_sub(self.settings.hold_secs)
    }
}

fn bound(param: &Param) -> Box<dyn ToSql + Sync> {
    match param {
        Param::Integer(number) => Box::new(*number),
        Param::Text(text) => Box::new(text.clone()),
    }
}

fn values(row: &Row) -> Result<Vec<Value>, StorageError> {
    let value = |at: usize| {
        let value = match *row.columns()[at].type_() {
            Type::TEXT => get::<Option<String>>(row, at)?.map(Value::Text),
            Type::BOOL => get::<Option<bool>>(row, at)?.map(|is_true| Value::Integer(is_true.into())),
            _ => get::<Option<i64>>(row, at)?.map(Value::Integer),
        };
        Ok(value.unwrap_or(Value::Null))
    };
    (0..row.len()).map(value).collect()
}

pub(super) fn count(row: &Row, column: usize) -> Result<u64, StorageError> {
    get::<i64>(row, column).map(i64::unsigned_abs)
}

pub(super) fn rows(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}
