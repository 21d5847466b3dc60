//! A rule, read once: which paths it asks and writes, and what it writes there.

mod compile;
mod recurrence;
mod settlement;

use std::time::Duration;

use jiff::Timestamp;
use orchestrator_supervise::Backoff;
use serde_json::Value;

pub use settlement::{Ending, Settlement};

use crate::{
    config::Guard,
    handling::Row,
    path,
    template::{Meaning, Template},
};

/// The column by which the server tells when a row was written last (CONTRACT CD01).
const WRITTEN: &str = "RMT";
/// What stands for the time in a filter.
const NOW: &str = "$now";

/// Columns and what is written into them.
pub type Columns = Vec<(String, Template)>;

/// A rule.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    /// Its name.
    pub name: String,
    /// Rows that are claimed at once, and that it has claimed at any time.
    pub limit: usize,
    /// Rows that are worked on at the same time.
    pub concurrency: usize,
    /// The greatest goes first.
    pub priority: i32,
    /// Attempts before a row is dead.
    pub max_attempts: Option<u32>,
    /// How long a row is left alone that failed.
    pub backoff: Backoff,
    /// Claim nothing.
    pub dry_run: bool,
    /// What keeps two agents from claiming one row.
    pub guard: Guard,
    query: String,
    /// Is the limit ours to add?
    makes_limit: bool,
    update: String,
    /// `/attributegroup/TABLE/` of all other writes.
    group: String,
    /// `/entity/TABLE` of all other questions.
    entity: String,
    key: String,
    claim: Columns,
    token: Option<String>,
    lease: Option<Lease>,
    attempts: Option<String>,
    done: Columns,
    fail: Columns,
    dead: Columns,
    /// Endings after which a row is a candidate again, unless its handler sees to it.
    likely_to_recur: Vec<&'static str>,
}

/// How long a claim holds, and which column says so.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Lease {
    column: String,
    span: Duration,
}

impl Rule {
    /// The question for candidates, of which `left_alone` are not to be claimed. It is the same each time, unless the filter has the
    /// time in it, or rows are left alone: they would hide others.
    pub fn query(&self, now: Timestamp, left_alone: usize) -> String {
        let query = self.query.replace(NOW, &path::encode(&path::instant(now)));
        if !self.makes_limit {
            return query;
        }
        let more = if left_alone == 0 { 0 } else { left_alone.next_power_of_two() };
        format!("{query}?limit={}", self.limit + more)
    }

    /// Does the answer to the question depend on the catalog alone?
    pub fn is_timeless(&self) -> bool {
        !self.query.contains(NOW)
    }

    /// Where a claim is written.
    pub fn update(&self) -> &str {
        &self.update
    }

    /// Where expired claims of others are taken over: row by row, whatever the guard.
    pub fn take_over(&self) -> String {
        let keys = path::columns([self.key.as_str(), WRITTEN]);
        format!(
            "{}{keys};{}",
            self.group,
            path::columns(self.claim.iter().map(|(column, _)| column.as_str()))
        )
    }

    /// The table of its writes, as it stands in paths.
    pub fn table(&self) -> &str {
        self.entity.trim_start_matches("/entity/")
    }

    /// The column that tells rows apart.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// What tells `row` apart.
    pub fn id(&self, row: &Row) -> Value {
        row.get(&self.key).cloned().unwrap_or_default()
    }

    /// Does a claim write what tells it from all others?
    pub fn has_token(&self) -> bool {
        self.token.is_some()
    }

    /// How long a claim holds.
    pub fn lease(&self) -> Option<Duration> {
        self.lease.as_ref().map(|lease| lease.span)
    }

    /// The question for rows that somebody holds, those first whose lease ends first. None: leases are not kept.
    pub fn held_query(&self) -> Option<String> {
        let lease = self.lease.as_ref()?;
        let mut filters: Vec<_> = self
            .claim
            .iter()
            .filter_map(|(column, template)| Some((column, template.plain()?)))
            .map(|(column, value)| equals(column, value))
            .collect();
        let column = path::encode(&lease.column);
        filters.push(format!("!{column}::null::"));
        // The lease ends first, then whatever makes it the same each time.
        let sort = path::columns([lease.column.as_str(), self.key.as_str()]);
        Some(format!("{}/{}@sort({sort})?limit={}", self.entity, filters.join("&"), self.limit))
    }

    /// When the lease of a row ends; None: it has none, or one that cannot be read.
    pub fn lease_end(&self, row: &Row) -> Option<Timestamp> {
        path::parse_instant(row.get(&self.lease.as_ref()?.column)?.as_str()?)
    }

    /// The question for rows that bear `token`.
    pub fn token_query(&self, token: &str) -> Option<String> {
        let column = path::encode(self.token.as_ref()?);
        Some(format!("{}/{column}={}", self.entity, path::encode(token)))
    }

    /// The question for rows by what tells them apart.
    pub fn rows_query<'a>(&self, ids: impl IntoIterator<Item = &'a Value>) -> String {
        let ids: Vec<_> = ids.into_iter().map(|id| path::encode(&plain_text(id))).collect();
        format!("{}/{}=any({})", self.entity, path::encode(&self.key), ids.join(","))
    }

    /// The attempts that a row has behind it; 0 without a column for them.
    pub fn attempts(&self, row: &Row) -> u32 {
        let counted = self.attempts.as_ref().and_then(|column| row.get(column)).and_then(Value::as_u64);
        u32::try_from(counted.unwrap_or(0)).unwrap_or(u32::MAX)
    }

    /// Are attempts counted?
    pub fn counts_attempts(&self) -> bool {
        self.attempts.is_some()
    }

    /// Has a row had all its attempts?
    pub fn is_exhausted(&self, row: &Row) -> bool {
        self.attempts.is_some() && self.max_attempts.is_some_and(|max| self.attempts(row) >= max)
    }

    /// What claims `row`: its keys as they were read, and the claim's columns.
    ///
    /// # Errors
    /// A value cannot be made of what the row has.
    pub fn claim(&self, row: &Row, token: &str, now: Timestamp) -> Result<Row, String> {
        self.claim_by(self.guard, row, token, now)
    }

    /// What claims `row` from somebody else whose lease has ended.
    ///
    /// # Errors
    /// As [`Rule::claim`].
    pub fn claim_over(&self, row: &Row, token: &str, now: Timestamp) -> Result<Row, String> {
        self.claim_by(Guard::RowCas, row, token, now)
    }

    fn claim_by(&self, guard: Guard, row: &Row, token: &str, now: Timestamp) -> Result<Row, String> {
        let meaning = Meaning { token, now, row, result: None, error: "" };
        let mut update = Row::from_iter([(self.key.clone(), self.id(row))]);
        if guard == Guard::RowCas {
            update.insert(WRITTEN.to_owned(), row.get(WRITTEN).cloned().unwrap_or_default());
        }
        for (column, template) in &self.claim {
            update.insert(column.clone(), template.value(&meaning)?);
        }
        Ok(update)
    }

    /// What people should think about: what is legal, but may leave rows behind.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.token.is_none() {
            warnings.push("claim.set has no column for $token: if the answer to a claim is lost, nobody can tell whose the rows are".to_owned());
        }
        if self.lease.is_none() {
            warnings.push(
                "claim.set has no column for $now+..: rows of an agent that died stay claimed".to_owned(),
            );
        }
        if self.fail.is_empty() && !self.done.is_empty() {
            warnings
                .push("fail is not given: a row that failed stays claimed until its lease ends".to_owned());
        }
        if self.max_attempts.is_some() && self.attempts.is_none() {
            warnings.push("max_attempts counts nothing without attempts_column".to_owned());
        }
        for ending in &self.likely_to_recur {
            warnings.push(format!(
                "{ending}: what it writes meets the filter: unless the handler itself changes the row, it is claimed again and again"
            ));
        }
        warnings
    }
}

/// A filter of one column.
fn equals(column: &str, value: &Value) -> String {
    let column = path::encode(column);
    match value {
        Value::Null => format!("{column}::null::"),
        value => format!("{column}={}", path::encode(&plain_text(value))),
    }
}

/// A value as filters have it (CONTRACT CP02): text as it is, all else as JSON.
fn plain_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests;
