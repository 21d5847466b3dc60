//! Verbs of the console, their arguments, and the text of their answers. Pure.

use std::collections::BTreeMap;

use orchestrator_subsystem::{ConsoleError, verb};
use orchestrator_text::sanitize;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    json::{self, Attributes, OccurrenceRow},
    messages::{DeadLetter, Refusal},
    method::Entity,
    row::{Rows, Sha1Git},
    store::{Query, check},
};

/// Maximum number of identifiers in one `get`.
const IDS_MAX: usize = 1_000;
/// Maximum number of dead letters in one answer; their paths are long.
const LETTERS_MAX: u32 = 200;
/// Maximum number of rows in a message, as in the configuration.
const BATCH_MAX: usize = 10_000;

verb! {
    "add", Delivers -> Added;
    /// Add rows; rows that are already stored stay as they are
    pub(crate) struct Add {
        /// Rows, as in the lines of an import
        #[arg(skip)]
        pub(crate) rows: Vec<Value>,
        /// Maximum number of rows in a message, if not as configured
        #[arg(skip)]
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub(crate) batch: Option<u32>,
        /// Answer before the rows are stored if that takes longer; `added` then waits for them
        #[arg(skip)]
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        pub(crate) wait: bool,
    }
}

verb! {
    "added", Reads -> Added;
    /// Wait for rows of an `add` that was answered before they were stored
    pub(crate) struct WaitAdded {
        /// Number of the call, from the answer to `add`
        pub(crate) call: u64,
    }
}

/// Answer to [`Add`] and [`WaitAdded`].
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Added {
    /// Number of rows that are stored.
    pub(crate) stored: u64,
    /// Rows that are malformed or refused.
    pub(crate) bad: Vec<Refusal>,
    /// Number of a call whose rows are not stored yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) pending: Option<u64>,
}

verb! {
    "get", Reads -> Attributes, empty "nothing is stored about it\n";
    /// Show the stored attributes of contents, directories, revisions or origins
    ///
    /// Example: orchestrator provenance get origin 3acef14580ea7fd42840ee905c5ce2b0ef9e8175
    pub(crate) struct Get {
        /// Kind of entity
        #[arg(value_parser = ["content", "directory", "revision", "origin"])]
        pub(crate) kind: String,
        /// Identifiers, 40 hex digits
        #[arg(required = true, value_name = "ID")]
        pub(crate) ids: Vec<String>,
    }
}

verb! {
    "find-first", Reads -> Vec<OccurrenceRow>, empty "nothing is stored about it\n";
    /// Show the earliest occurrence of a content
    ///
    /// Example: orchestrator provenance find-first 20329687bb9c1231a7e05afe86160343ad49b494
    pub(crate) struct FindFirst {
        /// Identifier of the content, 40 hex digits
        #[arg(value_name = "ID")]
        pub(crate) id: String,
        /// Not used; clients of former versions send it
        #[arg(skip)]
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub(crate) limit: Option<u64>,
    }
}

verb! {
    "find-all", Reads -> Vec<OccurrenceRow>, empty "nothing is stored about it\n";
    /// Show all occurrences of a content, earliest first
    ///
    /// Example: orchestrator provenance find-all 20329687bb9c1231a7e05afe86160343ad49b494 --limit 10
    pub(crate) struct FindAll {
        /// Identifier of the content, 40 hex digits
        #[arg(value_name = "ID")]
        pub(crate) id: String,
        /// Maximum number of occurrences
        #[arg(long, value_name = "N")]
        pub(crate) limit: Option<u64>,
    }
}

verb! {
    "stats", Reads -> BTreeMap<String, u64>;
    /// Show the number of rows of each table
    ///
    /// Example: orchestrator provenance stats
    pub(crate) struct Stats {}
}

verb! {
    "dead-letters", Reads -> Vec<DeadLetter>;
    /// Show the dead letters: permanently refused rows with the reason, latest first
    ///
    /// Works with provenance.transport = "embedded". With RabbitMQ, read them from the queue
    /// orchestrator.provenance.dead_letter. Corrected rows can be imported again.
    ///
    /// Example: orchestrator provenance dead-letters --limit 10
    pub(crate) struct ListDeadLetters {
        /// Maximum number of rows [default: 200]
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=200))]
        pub(crate) limit: Option<u32>,
    }
}

/// Parsed arguments of `add`.
#[derive(Debug)]
pub(crate) struct AddArguments {
    /// Rows by method: origins first, relations last, since a relation with an unregistered end is
    /// left out.
    pub(crate) groups: Vec<MethodRows>,
    /// Rows that are malformed or refused.
    pub(crate) bad: Vec<Refusal>,
    /// Maximum number of rows in a message, if not as configured.
    pub(crate) batch: Option<usize>,
}

/// Rows of one method, with their positions in the arguments.
#[derive(Debug)]
pub(crate) struct MethodRows {
    pub(crate) rows: Rows,
    pub(crate) positions: Vec<u32>,
}

/// Parses the arguments of `add`.
pub(crate) fn add(Add { rows, batch, .. }: Add) -> Result<AddArguments, ConsoleError> {
    let batch = batch.map(|batch| batch as usize);
    if batch.is_some_and(|batch| !(1..=BATCH_MAX).contains(&batch)) {
        return Err(bad(format!("batch: give 1 to {BATCH_MAX} rows")));
    }
    let (mut groups, mut bad_rows) = (Vec::<MethodRows>::new(), Vec::new());
    for (index, value) in (0..).zip(rows) {
        let checked = |row: Rows| check(&row).map(|()| row).map_err(|error| error.to_string());
        match json::read(value).and_then(checked) {
            Err(reason) => bad_rows.push(Refusal { index, reason: sanitize(reason) }),
            Ok(row) => match groups.iter_mut().find(|group| group.rows.method() == row.method()) {
                Some(group) => {
                    // Both have the same method, so this succeeds.
                    drop(group.rows.append(row));
                    group.positions.push(index);
                }
                None => groups.push(MethodRows { rows: row, positions: vec![index] }),
            },
        }
    }
    groups.sort_by_key(|group| match group.rows {
        Rows::Origins(_) => 0,
        Rows::Relations(..) => 2,
        _ => 1,
    });
    Ok(AddArguments { groups, bad: bad_rows, batch })
}

/// Parses the arguments of `get`.
pub(crate) fn get(Get { kind, ids }: Get) -> Result<Query, ConsoleError> {
    if ids.len() > IDS_MAX {
        return Err(bad(format!("{} identifiers: ask for {IDS_MAX} at most", ids.len())));
    }
    let ids = ids.iter().map(|id| id.parse().map_err(|error| bad(format!("{id}: {error}"))));
    let ids: Vec<Sha1Git> = ids.collect::<Result<_, _>>()?;
    let entity = Entity::ALL.into_iter().find(|entity| entity.value() == kind);
    match entity
        .ok_or_else(|| bad(format!("{kind} is not a kind: use content, directory, revision or origin")))?
    {
        Entity::Content => Ok(Query::Contents(ids)),
        Entity::Directory => Ok(Query::Directories(ids)),
        Entity::Revision => Ok(Query::Revisions(ids)),
        Entity::Origin => Ok(Query::Origins(ids)),
    }
}

/// Parses the identifier of a content.
pub(crate) fn content(id: &str) -> Result<Sha1Git, ConsoleError> {
    id.parse().map_err(|error| bad(format!("{id}: {error}")))
}

/// Checks the maximum number of letters of `dead-letters`.
pub(crate) fn letters(limit: Option<u32>) -> Result<u32, ConsoleError> {
    match limit.unwrap_or(LETTERS_MAX) {
        limit @ 1..=LETTERS_MAX => Ok(limit),
        limit => Err(bad(format!("{limit} dead letters: ask for 1 to {LETTERS_MAX}"))),
    }
}

fn bad(text: impl ToString) -> ConsoleError {
    ConsoleError::BadArguments(sanitize(text.to_string()))
}

#[cfg(test)]
mod tests;
