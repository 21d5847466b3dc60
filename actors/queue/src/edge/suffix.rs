//! Names of files beside the database.

use std::path::{Path, PathBuf};

/// Returns the path with `suffix` appended to its last name.
pub(crate) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}
