//! Where the programs of PostgreSQL are, and the user of its servers.

use std::{
    fs,
    path::{Path, PathBuf},
};

use rustix::process::geteuid;

use crate::suite;

/// Folder of this machine's programs, the clients: the newest version in Debian's layout, else one on the
/// path.
pub(crate) fn programs() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path);
    let mut candidates = debian_programs("/usr/lib/postgresql".as_ref()).into_iter().chain(on_path);
    candidates.find(|bin| has_server(bin)).expect("PostgreSQL is missing: apt-get install postgresql")
}

/// Folder of the servers' programs, as in their root file system.
pub(super) fn server_programs() -> PathBuf {
    let Some(root) = suite::root() else { return programs() };
    let found = debian_programs(&suite::file("/usr/lib/postgresql")).into_iter().next();
    let found = found.expect("PostgreSQL is missing in the root file system");
    Path::new("/").join(found.strip_prefix(root).expect("below the root"))
}

/// Folders of programs in Debian's layout below `folder`, the newest version first.
fn debian_programs(folder: &Path) -> Vec<PathBuf> {
    let versions = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut versions: Vec<(u32, PathBuf)> = versions
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path().join("bin"))))
        .collect();
    versions.sort();
    versions.into_iter().rev().map(|(_, bin)| bin).collect()
}

fn has_server(bin: &Path) -> bool {
    ["initdb", "postgres", "psql"].iter().all(|program| bin.join(program).exists())
}

/// Ids of the user and group `postgres`, if this process runs as root.
pub(crate) fn other_user() -> Option<(u32, u32)> {
    if !geteuid().is_root() {
        return None;
    }
    let users = fs::read_to_string(suite::file("/etc/passwd")).expect("the list of users");
    let line = users.lines().find(|line| line.starts_with("postgres:"));
    let line = line.expect("the user postgres is missing: apt-get install postgresql");
    let mut ids = line.split(':').skip(2).map(|id| id.parse().expect("a number"));
    Some((ids.next()?, ids.next()?))
}
