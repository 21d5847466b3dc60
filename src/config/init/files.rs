//! Files that are written.

use std::path::Path;

use anyhow::{Context, Result};
use tempfile::NamedTempFile;

/// Renames a temporary file to `path`.
pub(super) fn persist(file: NamedTempFile, path: &Path, force: bool) -> Result<()> {
    file.as_file().sync_all()?;
    let persisted = if force { file.persist(path) } else { file.persist_noclobber(path) };
    persisted.map(drop).with_context(|| format!("cannot write {}", path.display()))
}
