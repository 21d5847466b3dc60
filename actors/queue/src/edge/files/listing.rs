//! Listing of fetcher files.

use std::{ffi::OsStr, fs, io, path::Path};

use orchestrator_queue_rules::file_name::{FetcherFile, NameClass, NameError, classify};

use crate::warned_names::WarnedNames;

/// Reason why an entry is not read.
pub(super) enum Ignored {
    /// Its name looks like that of a fetcher file.
    Misnamed(NameError),
    /// It is a directory or another kind of file.
    Irregular,
    /// Its name has another form.
    Other,
}

/// Lists the fetcher files in the order of their runs, a growing file before a complete one. The
/// fixed order makes starts repeatable. Calls `ignored` with the name of each other entry.
pub(super) fn list(
    input_dir: &Path,
    warned: &WarnedNames,
    mut ignored: impl FnMut(&OsStr, Ignored),
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
                ignored(&name, Ignored::Irregular);
                if warned.should_warn(&name) {
                    tracing::warn!(?name, "ignored: not a regular file");
                }
            }
            NameClass::Malformed(error) => {
                ignored(&name, Ignored::Misnamed(error));
                if warned.should_warn(&name) {
                    tracing::warn!(?name, "ignored: {error}");
                }
            }
            NameClass::Other => ignored(&name, Ignored::Other),
        }
    }
    files.sort_by(|a, b| (&a.run, a.kind, &a.base).cmp(&(&b.run, b.kind, &b.base)));
    Ok(files)
}
