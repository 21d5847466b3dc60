//! Settlement of claims: the columns written, and the fence that protects rows of other agents.

use jiff::Timestamp;
use serde_json::Value;

use super::{Columns, Rule, WRITTEN};
use crate::{
    cell::Cell,
    outcome_kind::OutcomeKind,
    path,
    rows::Row,
    template::{Template, Variables},
};

/// A write that ends a claim or renews its lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settlement {
    /// Path of the write. Settlements with the same path are written together.
    pub path: String,
    /// Row of the write.
    pub update: Row,
}

impl Settlement {
    /// Makes the write depend on the row's last change, as it was read.
    pub fn require_unchanged(&mut self, last_change: &Cell) {
        let before = self.update.insert(WRITTEN.to_owned(), last_change.clone());
        if before.is_none()
            && let Some((keys, names)) = self.path.rsplit_once(';')
        {
            self.path = format!("{keys},{WRITTEN};{names}");
        }
    }

    /// Last change of the row, if the write depends on it.
    pub fn last_change(&self) -> Option<&Cell> {
        self.update.get(WRITTEN)
    }
}

impl Rule {
    /// Write for a claim that ended with `outcome`. `before` is the row before the claim,
    /// `claimed` the update that claimed it. None: this outcome writes nothing.
    ///
    /// # Errors
    /// A value cannot be computed from the row.
    pub fn settle(
        &self,
        outcome: OutcomeKind,
        before: &Row,
        claimed: &Row,
        variables: &Variables<'_>,
    ) -> Result<Option<Settlement>, String> {
        let targets = match outcome {
            OutcomeKind::Done => values(&self.done, variables)?,
            OutcomeKind::Dead if !self.dead.is_empty() => values(&self.dead, variables)?,
            OutcomeKind::Failed | OutcomeKind::Dead => values(&self.fail, variables)?,
            OutcomeKind::Later => self.values_before(before, claimed),
        };
        Ok(self.fenced(before, claimed, targets))
    }

    /// Write that extends the lease to a full one from `now`. None: the rule has no lease.
    pub fn renew(&self, before: &Row, claimed: &Row, now: Timestamp) -> Option<Settlement> {
        self.fenced(before, claimed, self.renewed_lease(now))
    }

    /// As far as the values were read.
    fn values_before(&self, before: &Row, claimed: &Row) -> Vec<(String, Cell)> {
        let columns = self.claim.iter().map(|(column, _)| column).chain(&self.planned);
        let written = columns.filter(|column| claimed.contains_key(*column));
        written.filter_map(|column| Some((column.clone(), before.get(column)?.clone()))).collect()
    }

    fn renewed_lease(&self, now: Timestamp) -> Vec<(String, Cell)> {
        let lease = self.lease.iter();
        lease
            .map(|lease| {
                let end = path::saturating_add(now, path::signed(lease.span));
                (lease.column.clone(), Value::from(path::instant(end)).into())
            })
            .collect()
    }

    /// Builds a write that applies only while the row has the claim's token and the plain values that the
    /// claim wrote. Without a token column, values of a program's plan count, too.
    fn fenced(&self, before: &Row, claimed: &Row, targets: Vec<(String, Cell)>) -> Option<Settlement> {
        if targets.is_empty() {
            return None;
        }
        let plain = self.plain_values().map(|(column, _)| column);
        let fence: Vec<&String> = match &self.token {
            Some(token) => std::iter::once(token).chain(plain).collect(),
            None => plain.chain(&self.planned).collect(),
        };
        let mut update = Row::from_iter([(self.key.clone(), self.id(before))]);
        let mut keys = vec![path::encode(&self.key)];
        for column in fence {
            let Some(value) = claimed.get(column) else { continue };
            // A column that is both key and target needs two names.
            let name = unused_name(column, &targets);
            keys.push(format!("{}:={}", path::encode(&name), path::encode(column)));
            update.insert(name, value.clone());
        }
        let names = path::columns(targets.iter().map(|(column, _)| column.as_str()));
        update.extend(targets);
        Some(Settlement { path: format!("{}{};{names}", self.group, keys.join(",")), update })
    }
}

fn values(columns: &Columns, variables: &Variables<'_>) -> Result<Vec<(String, Cell)>, String> {
    let value = |(column, template): &(String, Template)| Ok((column.clone(), template.value(variables)?));
    columns.iter().map(value).collect()
}

fn unused_name(column: &str, targets: &[(String, Cell)]) -> String {
    let mut name = format!("claimed_{column}");
    while targets.iter().any(|(target, _)| *target == name) {
        name.push('_');
    }
    name
}
