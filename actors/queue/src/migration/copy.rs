//! Steps of a migration, and of a dump.

use std::io::{self, Write};

use orchestrator_queue_rules::storage::{StorageError, StorageErrorKind};
use orchestrator_queue_store::migration::{Side, Source, Table, Target, Value};
use sha2::{Digest as _, Sha256};

use super::{
    line::{FORMAT, Header, Trailer, row_text, text},
    progress::Progress,
};

/// Names for operators.
pub(crate) struct Names {
    pub(crate) source: String,
    pub(crate) target: String,
    /// Command that finishes the migration.
    pub(crate) command: String,
}

/// Numbers and checksums of the rows that were copied.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CopyReport {
    /// Name, number of rows and checksum of each table. The checksum is the SHA-256 of the table's lines in a
    /// dump.
    pub(crate) tables: Vec<(&'static str, u64, String)>,
    /// Checksum of all tables.
    pub(crate) checksum: String,
}

/// Copies the rows of `source` to `target`, compares them, and makes the target a queue. What a migration
/// that was interrupted has written is removed before.
///
/// # Errors
/// [`StorageErrorKind::NotMigrated`] if it is refused; errors of both sides. The next call starts over.
pub(crate) fn migrate(
    source: &mut dyn Source,
    target: &mut dyn Target,
    names: &Names,
) -> Result<CopyReport, StorageError> {
    let (expected, oldest_attempt) = checked(source, target, names)?;
    let mark = serde_json::json!({ "command": names.command }).to_string();
    target.begin(&mark, oldest_attempt)?;
    for (table, (name, rows, _)) in Table::ALL.into_iter().zip(&expected.tables) {
        let mut progress = Progress::new(format!("copying {name}"), *rows);
        let mut done = 0;
        source.read(table, &mut |rows| {
            target.write(table, &rows)?;
            done += rows.len() as u64;
            progress.update(done);
            Ok(())
        })?;
        progress.end(done);
    }
    let copied = read_all(target, "comparing", &mut |_, _, _| Ok(()))?;
    let pairs = expected.tables.iter().zip(&copied.tables);
    let differing: Vec<&str> = pairs.filter(|(one, other)| one != other).map(|(table, _)| table.0).collect();
    if !differing.is_empty() {
        return Err(refused(format!(
            "{} and {} differ in {}: repeat the command",
            names.source,
            names.target,
            differing.join(", ")
        )));
    }
    let rows = copied.tables.last().map_or(0, |(_, rows, _)| *rows);
    let mut progress = Progress::new("completing".to_owned(), rows);
    target.complete(&source.counters()?, &mut |done| progress.update(done))?;
    progress.end(rows);
    Ok(copied)
}

/// Writes the rows of `source` to `out`, a line for each, between a header and a trailer.
///
/// # Errors
/// Of the source. `failed` converts those of `out`.
pub(crate) fn dump(
    source: &mut dyn Source,
    out: &mut dyn Write,
    failed: &dyn Fn(io::Error) -> StorageError,
) -> Result<CopyReport, StorageError> {
    let header = text(&Header { orchestrator_queue_dump: FORMAT, counters: source.counters()? });
    let mut hash = Sha256::new();
    let mut write = |line: &[u8]| {
        hash.update(line);
        out.write_all(line).map_err(failed)
    };
    write(&header)?;
    let report = read_all(source, "dumping", &mut |_, _, line| write(line))?;
    let rows = report.tables.iter().map(|(table, rows, _)| ((*table).to_owned(), *rows)).collect();
    out.write_all(&text(&Trailer { rows, sha256: hex(&hash.finalize()) })).map_err(failed)?;
    Ok(report)
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
) -> Result<(CopyReport, Option<i64>), StorageError> {
    let (mut unfit, mut first, mut oldest) = (0_u64, None, None);
    let found = read_all(source, "checking", &mut |table, row, _| {
        if let (Table::Attempt, None, Some(Value::Integer(started))) = (table, oldest, row.first()) {
            oldest = Some(*started);
        }
        if let Some(reason) = target.refusal(table, row) {
            unfit += 1;
            first.get_or_insert_with(|| format!("{reason} in {}", table.name()));
        }
        Ok(())
    })?;
    match first {
        None => Ok((found, oldest)),
        Some(first) => Err(refused(format!(
            "{unfit} rows of {} cannot be stored in {}: {first}: remove them, such as with their fetcher file",
            names.source, names.target
        ))),
    }
}

/// Receiver of rows, each with its line in a dump.
type Look<'a> = dyn FnMut(Table, &[Value], &[u8]) -> Result<(), StorageError> + 'a;

/// Passes each row to `look`.
fn read_all<S: Side + ?Sized>(
    side: &mut S,
    action: &str,
    look: &mut Look<'_>,
) -> Result<CopyReport, StorageError> {
    let (mut tables, mut all) = (Vec::with_capacity(Table::ALL.len()), Sha256::new());
    for table in Table::ALL {
        let stored = side.count(table)?;
        let mut progress = Progress::new(format!("{action} {}", table.name()), stored);
        let (mut hash, mut done) = (Sha256::new(), 0);
        side.read(table, &mut |rows| {
            for row in &rows {
                let line = row_text(table, row);
                look(table, row, &line)?;
                hash.update(&line);
                all.update(&line);
                done += 1;
            }
            progress.update(done);
            Ok(())
        })?;
        progress.end(done);
        if table == Table::Row && done != stored {
            return Err(refused(format!(
                "{} rows of the queue have no run or no payload: another program has altered the tables; delete these rows first",
                stored.abs_diff(done)
            )));
        }
        tables.push((table.name(), done, hex(&hash.finalize())));
    }
    Ok(CopyReport { tables, checksum: hex(&all.finalize()) })
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
