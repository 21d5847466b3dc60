//! Listing of fetcher files.

use std::{ffi::OsStr, fmt::Display, fs, io, path::Path};

use crate::file_name::{FetcherFile, NameClass, WarnedNames, classify};

/// Lists the fetcher files in the order of their runs, a growing file before a complete one. The
/// fixed order makes starts repeatable. Calls `ignored` with the name of each file that looks like
/// one and is none, with the reason, and of each other entry.
pub(super) fn list(
    input_dir: &Path,
    warned: &WarnedNames,
    mut ignored: impl FnMut(&OsStr, Option<&dyn Display>),
) -> io::Result<Vec<FetcherFile>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(input_dir)? {
        let entry = entry?;
        let name = entry.file_name();
        match classify(&name) {
            NameClass::Fetcher(file) => {
                let kind = entry.file_type()?;
                if kind.is_file() || kind.is_symlink() {
                    files.push(file);
                    continue;
                }
                ignored(&name, Some(&"not a regular file"));
                if warned.should_warn(&name) {
                    tracing::warn!(?name, "ignored: not a regular file");
                }
            }
            NameClass::Malformed(error) => {
                ignored(&name, Some(&error));
                if warned.should_warn(&name) {
                    tracing::warn!(?name, "ignored: {error}");
                }
            }
            NameClass::Other => ignored(&name, None),
        }
    }
    files.sort_by(|a, b| (&a.run, a.kind, &a.base).cmp(&(&b.run, b.kind, &b.base)));
    Ok(files)
}
