//! Listing of fetcher files.

use std::{fs, io, path::Path};

use crate::file_name::{FetcherFile, NameClass, WarnedNames, classify};

/// Lists the fetcher files in the order of their runs, a growing file before a complete one. The
/// fixed order makes starts repeatable.
pub(super) fn list(input_dir: &Path, warned: &WarnedNames) -> io::Result<Vec<FetcherFile>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(input_dir)? {
        let entry = entry?;
        let name = entry.file_name();
        match classify(&name) {
            NameClass::Fetcher(file) => {
                let kind = entry.file_type()?;
                if kind.is_file() || kind.is_symlink() {
                    files.push(file);
                } else if warned.should_warn(&name) {
                    tracing::warn!(?name, "ignored: not a regular file");
                }
            }
            NameClass::Malformed(error) if warned.should_warn(&name) => {
                tracing::warn!(?name, "ignored: {error}");
            }
            NameClass::Malformed(_) | NameClass::Other => {}
        }
    }
    files.sort_by(|a, b| (&a.run, a.kind, &a.base).cmp(&(&b.run, b.kind, &b.base)));
    Ok(files)
}
