//! A dump as the source of a migration.

use std::{
    fs::File,
    io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom},
    path::{Path, PathBuf},
};

use orchestrator_queue_rules::storage::{StorageError, StorageErrorKind};
use orchestrator_queue_store::migration::{
    BATCH_BYTES, BATCH_ROWS, Counters, Row, Side, Source, Table, Take, Value,
};
use sha2::{Digest as _, Sha256};

use super::{
    copy::hex,
    line::{DUMP_LINE_BYTES_MAX, FORMAT, Header, ROW, Trailer, parse},
};

/// Dump whose lines and trailer were read and fit each other.
pub(crate) struct DumpFile {
    lines: Lines,
    counters: Counters,
    /// Parts of the file, in the order of [`Table::ALL`].
    parts: [Part; Table::ALL.len()],
}

/// Rows of a table in the file.
#[derive(Debug, Clone, Copy, Default)]
struct Part {
    /// Position of the first one, in bytes.
    start: u64,
    /// Number of the line before it.
    line: u64,
    rows: u64,
}

/// Lines of the file from a position on.
struct Lines {
    path: PathBuf,
    file: BufReader<File>,
    /// Number of the last line, from 1.
    line: u64,
}

impl Lines {
    /// Reads the next line with its end into `text`, which is empty at the end of the file.
    fn next(&mut self, text: &mut Vec<u8>) -> Result<(), StorageError> {
        text.clear();
        let mut limited = (&mut self.file).take(DUMP_LINE_BYTES_MAX);
        limited.read_until(b'\n', text).map_err(|error| self.failed(&error))?;
        self.line += 1;
        match text.last() {
            None | Some(b'\n') => Ok(()),
            Some(_) if text.len() as u64 == DUMP_LINE_BYTES_MAX => Err(self.refused("it is too long")),
            Some(_) => Err(self.refused("the file ends in it: make the dump again")),
        }
    }

    /// Refuses the last line.
    fn refused(&self, reason: impl std::fmt::Display) -> StorageError {
        let text = format!("dump {}: line {}: {reason}", self.path.display(), self.line);
        StorageError::new(StorageErrorKind::NotMigrated, text)
    }

    fn failed(&self, error: &io::Error) -> StorageError {
        unreadable(&self.path, error)
    }
}

fn unreadable(path: &Path, error: &io::Error) -> StorageError {
    StorageError::new(StorageErrorKind::NotMigrated, format!("dump {}: {error}", path.display()))
}

impl DumpFile {
    /// Reads the whole file at `path`.
    ///
    /// # Errors
    /// [`StorageErrorKind::NotMigrated`] if it cannot be read, or is not as [`dump`](super::dump) has written
    /// it.
    pub(crate) fn open(path: &Path) -> Result<Self, StorageError> {
        let file = File::open(path).map_err(|error| unreadable(path, &error))?;
        let mut lines = Lines { path: path.to_owned(), file: BufReader::new(file), line: 0 };
        let (mut text, mut hash, mut position) = (Vec::new(), Sha256::new(), 0);
        lines.next(&mut text)?;
        let header: Header = serde_json::from_slice(&text)
            .map_err(|error| lines.refused(format!("not the beginning of a dump of a queue: {error}")))?;
        if header.orchestrator_queue_dump != FORMAT {
            let version = header.orchestrator_queue_dump;
            return Err(lines.refused(format!("this program reads format {FORMAT} and not {version}")));
        }
        let mut parts = [Part::default(); Table::ALL.len()];
        let mut last: Option<(usize, Vec<Value>)> = None;
        loop {
            hash.update(&text);
            position += text.len() as u64;
            lines.next(&mut text)?;
            if !text.starts_with(ROW) {
                break;
            }
            let (table, row) = parse(&text).map_err(|reason| lines.refused(reason))?;
            let next = (table as usize, table.key_of(&row));
            if last.as_ref().is_some_and(|last| *last >= next) {
                return Err(lines.refused("the rows are not in their order"));
            }
            let part = &mut parts[next.0];
            if part.rows == 0 {
                *part = Part { start: position, line: lines.line - 1, rows: 0 };
            }
            part.rows += 1;
            last = Some(next);
        }
        if text.is_empty() {
            return Err(lines.refused("the file ends without a trailer: make the dump again"));
        }
        let trailer: Trailer = serde_json::from_slice(&text)
            .map_err(|error| lines.refused(format!("neither a row nor a trailer: {error}")))?;
        for (table, part) in Table::ALL.into_iter().zip(&parts) {
            let named = trailer.rows.get(table.name()).copied().unwrap_or_default();
            if named != part.rows {
                let found = part.rows;
                return Err(lines.refused(format!("{} has {found} rows and not {named}", table.name())));
            }
        }
        let found = hex(&hash.finalize());
        if found != trailer.sha256 {
            return Err(
                lines.refused(format!("the lines before have the SHA-256 {found}: they were changed"))
            );
        }
        lines.next(&mut text)?;
        if !text.is_empty() {
            return Err(lines.refused("it is behind the trailer"));
        }
        Ok(Self { lines, counters: header.counters, parts })
    }
}

impl Side for DumpFile {
    fn count(&mut self, table: Table) -> Result<u64, StorageError> {
        Ok(self.parts[table as usize].rows)
    }

    fn read(&mut self, table: Table, take: &mut Take<'_>) -> Result<(), StorageError> {
        let Part { start, line, rows } = self.parts[table as usize];
        self.lines.line = line;
        self.lines.file.seek(SeekFrom::Start(start)).map_err(|error| self.lines.failed(&error))?;
        let (mut text, mut batch, mut bytes) = (Vec::new(), Vec::<Row>::new(), 0);
        for _ in 0..rows {
            self.lines.next(&mut text)?;
            match parse(&text) {
                Ok((found, row)) if found == table => batch.push(row),
                Ok(_) | Err(_) => return Err(self.lines.refused("it has changed since it was checked")),
            }
            bytes += text.len();
            if batch.len() == BATCH_ROWS || bytes >= BATCH_BYTES {
                take(std::mem::take(&mut batch))?;
                bytes = 0;
            }
        }
        if batch.is_empty() { Ok(()) } else { take(batch) }
    }
}

impl Source for DumpFile {
    fn counters(&mut self) -> Result<Counters, StorageError> {
        Ok(self.counters)
    }
}
