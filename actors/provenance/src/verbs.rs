//! Arguments of the console's verbs. Pure.

use orchestrator_supervise::{ConsoleError, sanitize};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{
    json,
    messages::Refusal,
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

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AddArgs {
    rows: Vec<Value>,
    batch: Option<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GetArgs {
    kind: String,
    ids: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FindArgs {
    id: String,
    limit: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LimitArgs {
    limit: Option<u32>,
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
pub(crate) fn add(args: Value) -> Result<AddArguments, ConsoleError> {
    let AddArgs { rows, batch } = arguments(args)?;
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
pub(crate) fn get(args: Value) -> Result<Query, ConsoleError> {
    let GetArgs { kind, ids } = arguments(args)?;
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

/// Parses the arguments of `find-first` and `find-all`: a content and a maximum number of
/// occurrences.
pub(crate) fn find(args: Value) -> Result<(Sha1Git, Option<u64>), ConsoleError> {
    let FindArgs { id, limit } = arguments(args)?;
    Ok((id.parse().map_err(|error| bad(format!("{id}: {error}")))?, limit))
}

/// Parses the arguments of `dead-letters`: a maximum number of letters.
pub(crate) fn dead_letters(args: Value) -> Result<u32, ConsoleError> {
    let LimitArgs { limit } = arguments(args)?;
    match limit.unwrap_or(LETTERS_MAX) {
        limit @ 1..=LETTERS_MAX => Ok(limit),
        limit => Err(bad(format!("{limit} dead letters: ask for 1 to {LETTERS_MAX}"))),
    }
}

fn bad(text: impl ToString) -> ConsoleError {
    ConsoleError::BadArguments(sanitize(text.to_string()))
}

fn arguments<T: DeserializeOwned>(args: Value) -> Result<T, ConsoleError> {
    serde_json::from_value(args).map_err(bad)
}

#[cfg(test)]
mod tests;
