//! Steps of a migration.

use super::{
    checksum::{Checksum, total},
    progress::Progress,
};
use orchestrator_queue_rules::storage::{StorageError, StorageErrorKind};
use orchestrator_queue_store::migration::{Found, Side, Source, State, Table, Target, Value};

/// Names for operators.
pub(crate) struct Names {
    pub(crate) source: String,
    pub(crate) target: String,
    /// Command that finishes the migration.
    pub(crate) command: String,
}

/// Result of a migration.
pub(crate) struct Report {
    /// Name, number of rows and checksum of each table, the same on both sides.
    pub(crate) tables: Vec<(&'static str, u64, String)>,
    pub(crate) checksum: String,
}

/// Copies the rows of `source` to `target`, compares them, and makes the target a queue. Continues a
/// migration that was interrupted.
///
/// # Errors
/// [`StorageErrorKind::NotMigrated`] if it is refused; errors of both sides. The next call continues, unless
/// nothing was written.
pub(crate) fn migrate(
    source: &mut dyn Source,
    target: &mut dyn Target,
    names: &Names,
) -> Result<Report, StorageError> {
    let known = match target.found()? {
        Found::Nothing => None,
        Found::Unfinished(state) => Some(state),
    };
    let (expected, oldest_attempt) = checked(source, target, names)?;
    let checksum = total(&expected);
    let mut state = match known {
        None => {
            let state = State::new(&names.command, &names.source, checksum.clone());
            target.begin(&state, oldest_attempt)?;
            state
        }
        Some(state) if state.checksum == checksum => state,
        Some(state) => {
            return Err(refused(format!(
                "{} has an unfinished migration from {}, whose rows were others than those of {} are: finish it with {}, or remove {0}",
                names.target, state.source, names.source, state.command
            )));
        }
    };
    while let Some((table, after)) = state.next() {
        let after = after.map(<[_]>::to_vec);
        let rows = expected.iter().zip(Table::ALL).find_map(|(sum, of)| (of == table).then_some(sum.rows));
        let mut progress =
            Progress::new(format!("copying {}", table.name()), state.rows, rows.unwrap_or_default());
        source.read(table, after.as_deref(), &mut |rows| {
            let Some(last) = rows.last() else { return Ok(()) };
            state.written(table, rows.len(), last);
            target.write(table, &rows, &state)?;
            progress.update(state.rows);
            Ok(())
        })?;
        progress.end(state.rows);
        state.table_ended();
        target.write(table, &[], &state)?;
    }
    let copied = sums(target, "comparing", &mut |_, _| ())?;
    let differing: Vec<&str> = Table::ALL
        .into_iter()
        .zip(expected.iter().zip(&copied))
        .filter_map(|(table, (one, other))| (one.text() != other.text()).then_some(table.name()))
        .collect();
    if !differing.is_empty() {
        return Err(refused(format!(
            "{} and {} differ in {}: remove {1} and start again",
            names.source,
            names.target,
            differing.join(", ")
        )));
    }
    let rows = copied.last().map_or(0, |rows| rows.rows);
    let mut progress = Progress::new("completing".to_owned(), 0, rows);
    target.complete(&source.counters()?, &mut |done| progress.update(done))?;
    progress.end(rows);
    let tables = Table::ALL.into_iter().zip(&copied).map(|(table, sum)| (table.name(), sum.rows, sum.text()));
    Ok(Report { tables: tables.collect(), checksum })
}

fn refused(reason: String) -> StorageError {
    StorageError::new(StorageErrorKind::NotMigrated, reason)
}

/// Returns the checksums of the source, and the time of its oldest attempt.
///
/// # Errors
/// The target cannot store some of its rows.
fn checked(
    source: &mut dyn Source,
    target: &dyn Target,
    names: &Names,
) -> Result<(Vec<Checksum>, Option<i64>), StorageError> {
    let (mut unfit, mut first, mut oldest) = (0_u64, None, None);
    let found = sums(source, "checking", &mut |table, row| {
        if let (Table::Attempt, None, Some(Value::Integer(started))) = (table, oldest, row.first()) {
            oldest = Some(*started);
        }
        if let Some(reason) = target.refusal(table, row) {
            unfit += 1;
            first.get_or_insert_with(|| format!("{reason} in {}", table.name()));
        }
    })?;
    match first {
        None => Ok((found, oldest)),
        Some(first) => Err(refused(format!(
            "{unfit} rows of {} cannot be stored in {}: {first}: remove them, such as with their fetcher file",
            names.source, names.target
        ))),
    }
}

/// Passes each row to `look`.
fn sums<S: Side + ?Sized>(
    side: &mut S,
    action: &str,
    look: &mut dyn FnMut(Table, &[Value]),
) -> Result<Vec<Checksum>, StorageError> {
    let mut sums = Vec::with_capacity(Table::ALL.len());
    for table in Table::ALL {
        let stored = side.count(table)?;
        let mut progress = Progress::new(format!("{action} {}", table.name()), 0, stored);
        let mut sum = Checksum::of(table);
        side.read(table, None, &mut |rows| {
            for row in &rows {
                look(table, row);
                sum.add(row);
            }
            progress.update(sum.rows);
            Ok(())
        })?;
        progress.end(sum.rows);
        if table == Table::Row && sum.rows != stored {
            return Err(refused(format!(
                "{} rows of the queue have no run or no payload: another program has altered the tables; delete these rows first",
                stored.abs_diff(sum.rows)
            )));
        }
        sums.push(sum);
    }
    Ok(sums)
}
