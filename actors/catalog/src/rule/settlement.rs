//! How a claim ends: what is written, and what keeps an agent from writing to a row that it has lost (the fence).

use jiff::Timestamp;
use serde_json::Value;

use super::{Columns, Rule};
use crate::{
    handling::Row,
    path,
    template::{Meaning, Template},
};

/// How a claim ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Ending {
    /// It is done.
    Done,
    /// It failed, and may be tried again.
    Failed,
    /// It failed for good.
    Dead,
    /// It was not tried: the row becomes what it was.
    Released,
    /// It does not end yet: its lease is longer.
    Renewed,
}

/// A write that ends claims, or makes their leases longer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settlement {
    /// Where it is written. Claims that end alike are written at once.
    pub path: String,
    /// What is written.
    pub update: Row,
}

impl Rule {
    /// What is written for a row that was `before` and was claimed by writing `claimed`. None: this ending writes nothing.
    ///
    /// # Errors
    /// A value cannot be made of what the row has.
    pub fn settle(
        &self,
        ending: Ending,
        before: &Row,
        claimed: &Row,
        meaning: &Meaning<'_>,
    ) -> Result<Option<Settlement>, String> {
        let targets = match ending {
            Ending::Done => values(&self.done, meaning)?,
            Ending::Dead if !self.dead.is_empty() => values(&self.dead, meaning)?,
            Ending::Failed | Ending::Dead => values(&self.fail, meaning)?,
            Ending::Released => self.as_before(before, claimed),
            Ending::Renewed => self.longer(meaning.now),
        };
        if targets.is_empty() {
            return Ok(None);
        }
        Ok(Some(self.fenced(before, claimed, targets)))
    }

    /// What was there before the claim, as far as it was read.
    fn as_before(&self, before: &Row, claimed: &Row) -> Vec<(String, Value)> {
        let written =
            self.claim.iter().map(|(column, _)| column).filter(|column| claimed.contains_key(*column));
        written.filter_map(|column| Some((column.clone(), before.get(column)?.clone()))).collect()
    }

    fn longer(&self, now: Timestamp) -> Vec<(String, Value)> {
        let lease = self.lease.iter();
        lease
            .map(|lease| {
                let end = path::after(now, path::signed(lease.span));
                (lease.column.clone(), Value::String(path::instant(end)))
            })
            .collect()
    }

    /// The row is written only if it still bears the claim: its token, or else the plain values that the claim wrote.
    fn fenced(&self, before: &Row, claimed: &Row, targets: Vec<(String, Value)>) -> Settlement {
        let fence: Vec<&String> = match &self.token {
            Some(token) => vec![token],
            None => self
                .claim
                .iter()
                .filter(|(_, value)| value.plain().is_some())
                .map(|(column, _)| column)
                .collect(),
        };
        let mut update = Row::from_iter([(self.key.clone(), self.id(before))]);
        let mut keys = vec![path::encode(&self.key)];
        for column in fence {
            let Some(value) = claimed.get(column) else { continue };
            // A column that is key and target needs two names.
            let name = unused(column, &targets);
            keys.push(format!("{}:={}", path::encode(&name), path::encode(column)));
            update.insert(name, value.clone());
        }
        let names = path::columns(targets.iter().map(|(column, _)| column.as_str()));
        update.extend(targets);
        Settlement { path: format!("{}{};{names}", self.group, keys.join(",")), update }
    }
}

fn values(columns: &Columns, meaning: &Meaning<'_>) -> Result<Vec<(String, Value)>, String> {
    let value = |(column, template): &(String, Template)| Ok((column.clone(), template.value(meaning)?));
    columns.iter().map(value).collect()
}

/// A name for the claimed value of `column` that no target has.
fn unused(column: &str, targets: &[(String, Value)]) -> String {
    let mut name = format!("claimed_{column}");
    while targets.iter().any(|(target, _)| *target == name) {
        name.push('_');
    }
    name
}
