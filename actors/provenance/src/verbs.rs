//! Operators' verbs: what their arguments say. Pure.

use orchestrator_supervise::{ConsoleError, sanitize};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{
    json::JsonRow,
    method::Entity,
    row::{Rows, Sha1Git},
    store::{Question, check},
};

/// Identifiers in one `get`.
const IDS_MAX: usize = 1_000;
/// Dead letters in one answer: their paths are long.
const LETTERS_MAX: u32 = 200;
/// Rows of a message at the most, as in the configuration.
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

/// What `add` is to add.
#[derive(Debug)]
pub(crate) struct Addition {
    /// Rows by method, in the order in which methods need each other: origins first, relations last, since a row is dropped
    /// that names what is not there.
    pub(crate) groups: Vec<Group>,
    /// Those that cannot be read or stored.
    pub(crate) bad: Vec<Bad>,
    /// Rows of a message at the most, if that is not to be as configured.
    pub(crate) batch: Option<usize>,
}

/// Rows of one method, and where each stands in the arguments.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) rows: Rows,
    pub(crate) places: Vec<usize>,
}

/// A row that is left out.
#[derive(Debug, Serialize)]
pub(crate) struct Bad {
    /// Where it stands in the arguments.
    pub(crate) index: usize,
    pub(crate) reason: String,
}

/// The rows of `add`.
pub(crate) fn add(args: Value) -> Result<Addition, ConsoleError> {
    let AddArgs { rows, batch } = arguments(args)?;
    if batch.is_some_and(|batch| !(1..=BATCH_MAX).contains(&batch)) {
        return Err(bad(format!("batch: give 1 to {BATCH_MAX} rows")));
    }
    let (mut groups, mut left_out) = (Vec::<Group>::new(), Vec::new());
    for (index, value) in rows.into_iter().enumerate() {
        let checked = |row: Rows| check(&row).map(|()| row).map_err(|error| error.to_string());
        match JsonRow::read(value).and_then(JsonRow::into_rows).and_then(checked) {
            Err(reason) => left_out.push(Bad { index, reason: sanitize(reason) }),
            Ok(row) => match groups.iter_mut().find(|group| group.rows.method() == row.method()) {
                Some(group) => {
                    // The methods are the same, so there is nothing to be given back.
                    drop(group.rows.append(row));
                    group.places.push(index);
                }
                None => groups.push(Group { rows: row, places: vec![index] }),
            },
        }
    }
    groups.sort_by_key(|group| match group.rows {
        Rows::Origins(_) => 0,
        Rows::Relations(..) => 2,
        _ => 1,
    });
    Ok(Addition { groups, bad: left_out, batch })
}

/// The question of `get`.
pub(crate) fn get(args: Value) -> Result<Question, ConsoleError> {
    let GetArgs { kind, ids } = arguments(args)?;
    if ids.len() > IDS_MAX {
        return Err(bad(format!("{} identifiers: ask for {IDS_MAX} at most", ids.len())));
    }
    let ids = ids.iter().map(|id| id.parse().map_err(|error| bad(format!("{id}: {error}"))));
    let ids: Vec<Sha1Git> = ids.collect::<Result<_, _>>()?;
    let entity = Entity::ALL.into_iter().find(|entity| entity.value() == kind);
    match entity
        .ok_or_else(|| bad(format!("{kind} is no kind: use content, directory, revision or origin")))?
    {
        Entity::Content => Ok(Question::Contents(ids)),
        Entity::Directory => Ok(Question::Directories(ids)),
        Entity::Revision => Ok(Question::Revisions(ids)),
        Entity::Origin => Ok(Question::Origins(ids)),
    }
}

/// The content of `find-first` and `find-all`, and how many of its places are asked for.
pub(crate) fn find(args: Value) -> Result<(Sha1Git, Option<u64>), ConsoleError> {
    let FindArgs { id, limit } = arguments(args)?;
    Ok((id.parse().map_err(|error| bad(format!("{id}: {error}")))?, limit))
}

/// How many dead letters are asked for.
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
