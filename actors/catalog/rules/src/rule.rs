//! A compiled rule: its paths, and the values that it writes.

mod compile;
mod recurrence;
mod settlement;

use std::time::Duration;

use jiff::Timestamp;
use orchestrator_text::sanitize_to;
use serde_json::Value;

pub use settlement::Settlement;

use crate::{
    cell::{Cell, NULL},
    definition::Guard,
    outcome_kind::OutcomeKind,
    path,
    rows::Row,
    template::{Template, Variables},
};

/// System column with the time of a row's last write (CONTRACT CD01).
pub const WRITTEN: &str = "RMT";
/// Maximum length of a column's name in an error text, in bytes.
const NAME_SHOWN: usize = 120;
/// Placeholder for the time in a filter.
const NOW: &str = "$now";

/// Columns with the templates of their values.
pub type Columns = Vec<(String, Template)>;

/// A compiled rule.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    /// Name of the rule.
    pub name: String,
    /// Maximum number of rows in one claim, and of claimed rows at any time.
    pub limit: usize,
    /// Number of attempts after which a row is dead.
    pub max_attempts: Option<u32>,
    /// Protection against two agents claiming the same row.
    pub guard: Guard,
    query: String,
    /// The query has no limit of its own.
    makes_limit: bool,
    update: String,
    /// `/attributegroup/TABLE/`, the prefix of all other writes.
    group: String,
    /// `/entity/TABLE`, the prefix of all other reads.
    entity: String,
    key: String,
    claim: Columns,
    /// Columns that a program writes with the claim.
    planned: Vec<String>,
    token: Option<String>,
    lease: Option<Lease>,
    attempts: Option<String>,
    done: Columns,
    fail: Columns,
    dead: Columns,
    /// Keys of outcomes after which a row is a candidate again, unless its handler changes it.
    likely_to_recur: Vec<&'static str>,
}

/// Duration of a lease, and the column of its end.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Lease {
    column: String,
    span: Duration,
}

impl Rule {
    /// Path of the query for candidates. The limit grows with `left_alone` rows, which would otherwise hide
    /// others.
    pub fn query(&self, now: Timestamp, left_alone: usize) -> String {
        let query = self.query.replace(NOW, &path::encode(&path::instant(now)));
        if !self.makes_limit {
            return query;
        }
        let more = if left_alone == 0 { 0 } else { left_alone.next_power_of_two() };
        format!("{query}?limit={}", self.limit + more)
    }

    /// Tells whether the response to the query depends on the catalog alone, not on the time.
    pub fn is_timeless(&self) -> bool {
        !self.query.contains(NOW)
    }

    /// Path of the claim.
    pub fn update(&self) -> &str {
        &self.update
    }

    /// Path of a write that takes claims over row by row, whatever the guard.
    pub fn take_over(&self) -> String {
        let keys = path::columns([self.key.as_str(), WRITTEN]);
        format!(
            "{}{keys};{}",
            self.group,
            path::columns(self.claim.iter().map(|(column, _)| column.as_str()))
        )
    }

    /// Table of the writes, as in paths.
    pub fn table(&self) -> &str {
        self.entity.trim_start_matches("/entity/")
    }

    /// Column that identifies a row.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Value of the key column.
    pub fn id(&self, row: &Row) -> Cell {
        row.get(&self.key).cloned().unwrap_or_default()
    }

    /// Tells whether a claim writes a token.
    pub fn has_token(&self) -> bool {
        self.token.is_some()
    }

    /// Duration of a lease.
    pub fn lease(&self) -> Option<Duration> {
        self.lease.as_ref().map(|lease| lease.span)
    }

    /// Path of the query for rows that are claimed, sorted by the end of the leases; None if the rule has no
    /// lease.
    pub fn held_query(&self) -> Option<String> {
        let lease = self.lease.as_ref()?;
        let mut filters: Vec<_> = self.plain_values().map(|(column, value)| equals(column, value)).collect();
        let column = path::encode(&lease.column);
        filters.push(format!("!{column}::null::"));
        // The key makes the order stable.
        let sort = path::columns([lease.column.as_str(), self.key.as_str()]);
        Some(format!("{}/{}@sort({sort})?limit={}", self.entity, filters.join("&"), self.limit))
    }

    /// End of the row's lease; None if it has none, or it cannot be parsed.
    pub fn lease_end(&self, row: &Row) -> Option<Timestamp> {
        path::parse_instant(row.get(&self.lease.as_ref()?.column)?.as_str()?)
    }

    fn plain_values(&self) -> impl Iterator<Item = (&String, &Value)> {
        self.claim.iter().filter_map(|(column, template)| Some((column, template.plain()?)))
    }

    /// Path of the query for the rows that a claim with `token` took; None: claims write no token.
    pub fn token_query(&self, token: &str) -> Option<String> {
        let token = (self.token.as_ref()?, &Value::from(token));
        let filters = std::iter::once(token).chain(self.plain_values());
        let filters: Vec<_> = filters.map(|(column, value)| equals(column, value)).collect();
        Some(format!("{}/{}", self.entity, filters.join("&")))
    }

    /// Token of the claim that holds `row`; None if it is not held.
    pub fn former_token(&self, row: &Row) -> Option<String> {
        self.lease_end(row)?;
        let is_held =
            self.plain_values().all(|(column, value)| row.get(column).is_some_and(|cell| cell == value));
        row.get(self.token.as_ref()?)?.as_str().filter(|_| is_held).map(str::to_owned)
    }

    /// False if `row` has another token than `token`.
    pub fn has_token_of(&self, row: &Row, token: &str) -> bool {
        let column = self.token.as_ref();
        column.is_none_or(|column| row.get(column).and_then(|value| value.as_str()) == Some(token))
    }

    /// Path of the query for the rows with these keys.
    pub fn rows_query<'a>(&self, ids: impl IntoIterator<Item = &'a Cell>) -> String {
        let ids: Vec<_> = ids.into_iter().map(|id| path::encode(&id.text())).collect();
        format!("{}/{}=any({})", self.entity, path::encode(&self.key), ids.join(","))
    }

    /// Path of the query for the row with this key, if it meets `filter`, at the time `now`.
    pub fn filtered_query(&self, id: &Cell, filter: &str, now: Timestamp) -> String {
        let filter = filter.replace(NOW, &path::encode(&path::instant(now)));
        format!("{}/{filter}", self.rows_query([id]))
    }

    /// Outcome whose constant values the row has; None if several or none could have been written.
    pub fn outcome_of(&self, row: &Row) -> Option<OutcomeKind> {
        let has = |columns: &Columns| {
            let mut plain =
                columns.iter().filter_map(|(name, value)| Some((name, value.plain()?))).peekable();
            plain.peek().is_some()
                && plain.all(|(name, value)| row.get(name).is_some_and(|cell| cell == value))
        };
        let kinds = [
            (OutcomeKind::Dead, &self.dead),
            (OutcomeKind::Done, &self.done),
            (OutcomeKind::Failed, &self.fail),
        ];
        kinds.into_iter().find(|(_, columns)| has(columns)).map(|(kind, _)| kind)
    }

    /// Number of attempts; 0 without a column for them.
    pub fn attempts(&self, row: &Row) -> u32 {
        let counted =
            self.attempts.as_ref().and_then(|column| row.get(column)).and_then(|value| value.as_u64());
        u32::try_from(counted.unwrap_or(0)).unwrap_or(u32::MAX)
    }

    /// Tells whether the claim writes the number of attempts.
    pub fn counts_attempts(&self) -> bool {
        self.attempts.is_some()
    }

    /// Update that claims `row`.
    ///
    /// # Errors
    /// A value cannot be computed from the row.
    pub fn claim(&self, row: &Row, token: &str, now: Timestamp) -> Result<Row, String> {
        self.claim_by(self.guard, row, token, now)
    }

    /// Update that takes `row` over after its lease has ended.
    ///
    /// # Errors
    /// As [`Rule::claim`].
    pub fn take_over_claim(&self, row: &Row, token: &str, now: Timestamp) -> Result<Row, String> {
        self.claim_by(Guard::RowCas, row, token, now)
    }

    /// Update that claims `row` with the columns of a program's `answer`. A column that it
    /// leaves out keeps its value.
    ///
    /// # Errors
    /// As [`Rule::claim`], or the answer has a column that the program may not write (CONTRACT CP17).
    pub fn planned_claim(&self, row: &Row, answer: &Row, token: &str, now: Timestamp) -> Result<Row, String> {
        // Whole rows are answers, too: what is unchanged is not written.
        let refused = |(name, value): &(&String, &Cell)| {
            !self.planned.contains(name) && row.get(*name).unwrap_or(&NULL) != *value
        };
        if let Some((name, _)) = answer.iter().find(refused) {
            let name = sanitize_to(name, NAME_SHOWN);
            return Err(format!("the plan writes {name}, which is not in plan.columns: nothing is written"));
        }
        let mut update = self.claim(row, token, now)?;
        for column in &self.planned {
            let value = answer.get(column).or_else(|| row.get(column)).cloned().unwrap_or_default();
            update.insert(column.clone(), value);
        }
        Ok(update)
    }

    fn claim_by(&self, guard: Guard, row: &Row, token: &str, now: Timestamp) -> Result<Row, String> {
        let variables = Variables { token, now, row, result: None, error: "" };
        let mut update = Row::from_iter([(self.key.clone(), self.id(row))]);
        if guard == Guard::RowCas {
            update.insert(WRITTEN.to_owned(), row.get(WRITTEN).cloned().unwrap_or_default());
        }
        for (column, template) in &self.claim {
            update.insert(column.clone(), template.value(&variables)?);
        }
        Ok(update)
    }

    /// Properties of the rule that are allowed but may leave rows behind.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.token.is_none() {
            warnings.push("claim.set has no column for $token: if the answer to a claim is lost, the owner of its rows is unknown".to_owned());
        }
        if self.lease.is_none() {
            warnings.push(
                "claim.set has no column for $now+..: rows of an agent that died stay claimed".to_owned(),
            );
        }
        if self.fail.is_empty() && !self.done.is_empty() {
            let until = if self.lease.is_some() { " until its lease ends" } else { "" };
            warnings.push(format!("fail is not given: a row that failed stays claimed{until}"));
        }
        if self.max_attempts.is_some() && self.attempts.is_none() {
            warnings.push("max_attempts counts nothing without attempts_column".to_owned());
        }
        for outcome in &self.likely_to_recur {
            warnings.push(format!(
                "{outcome}: what it writes meets the filter: unless the handler itself changes the row, it is claimed again and again"
            ));
        }
        warnings
    }
}

/// Filters by one column.
fn equals(column: &str, value: &Value) -> String {
    let column = path::encode(column);
    match value {
        Value::Null => format!("{column}::null::"),
        value => format!("{column}={}", path::encode(&plain_text(value))),
    }
}

/// Formats a value for a filter (CONTRACT CP02): text as it is, others as JSON.
fn plain_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests;
