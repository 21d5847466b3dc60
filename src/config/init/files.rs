//! Files that are read and written.

use std::{io::Read, path::Path};

use anyhow::{Context, Result, ensure};
use orchestrator_edge::read_regular;
use tempfile::NamedTempFile;

/// Upper bound of a file that is read, in bytes.
const FILE_MAX: u64 = 1 << 20;

/// Reads a text file of at most [`FILE_MAX`] bytes.
pub(super) fn read(file: &Path) -> Result<String> {
    let mut text = String::new();
    read_regular(file)?.take(FILE_MAX + 1).read_to_string(&mut text)?;
    ensure!(text.len() as u64 <= FILE_MAX, "it has more than {FILE_MAX} bytes");
    Ok(text)
}

/// Renames a temporary file to `path`.
pub(super) fn persist(file: NamedTempFile, path: &Path, force: bool) -> Result<()> {
    file.as_file().sync_all()?;
    let persisted = if force { file.persist(path) } else { file.persist_noclobber(path) };
    persisted.map(drop).with_context(|| format!("cannot write {}", path.display()))
}
