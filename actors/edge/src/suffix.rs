//! Names of files beside another one.

use std::path::{Path, PathBuf};

/// Appends `suffix` to the last name of the path.
pub fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}
