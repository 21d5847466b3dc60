//! Syncs the database file outside of SQLite. SQLite syncs it only in the checkpoint that reaches
//! the end of the log, which would then wait for all earlier writes.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use orchestrator_edge::FileIdentity;
use parking_lot::Mutex;

/// Files that were synced, with their paths. They stay open: POSIX locks belong to a process and a
/// file, so closing any descriptor would drop the locks of SQLite's connections
/// (sqlite.org/howtocorrupt.html, 2.2).
static OPEN_FILES: Mutex<BTreeMap<FileIdentity, (PathBuf, Arc<File>)>> = Mutex::new(BTreeMap::new());

/// Syncs the data of the file at `path` to the disk. Blocks no reader and no writer of the file.
pub(super) fn sync(path: &Path) -> io::Result<()> {
    kept(path)?.sync_data()
}

/// Closes files that are not at `path` any more, so that the space of deleted ones is freed. Called
/// while no connection of this process has one of them open.
pub(crate) fn release_replaced(path: &Path) {
    let now = FileIdentity::at(path).ok().flatten();
    let mut all = OPEN_FILES.lock();
    all.retain(|identity, (kept, _)| kept != path || Some(*identity) == now);
}

fn kept(path: &Path) -> io::Result<Arc<File>> {
    let mut all = OPEN_FILES.lock();
    if let Some((_, file)) = all.get(&FileIdentity::of(&fs::metadata(path)?)) {
        return Ok(Arc::clone(file));
    }
    let file = Arc::new(File::open(path)?);
    let found = FileIdentity::of(&file.metadata()?);
    // The file at the path may have been replaced since the first check; a file in `OPEN_FILES` must not
    // be closed here.
    if let Some(former) = all.insert(found, (path.to_owned(), Arc::clone(&file))) {
        std::mem::forget(former);
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails right there")]

    use std::os::unix::fs::MetadataExt;

    use super::*;

    /// Number of POSIX locks that this process holds on the file (proc_locks(5)).
    fn locks(path: &Path) -> usize {
        let inode = format!(":{}", fs::metadata(path).unwrap().ino());
        let process = std::process::id().to_string();
        let all = fs::read_to_string("/proc/locks").unwrap();
        all.lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>())
            .filter(|words| words.get(1) == Some(&"POSIX"))
            .filter(|words| words.contains(&process.as_str()))
            .filter(|words| words.iter().any(|word| word.ends_with(&inode)))
            .count()
    }

    #[test]
    fn a_sync_keeps_the_locks_of_sqlite() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("q.db");
        let writer = rusqlite::Connection::open(&path).unwrap();
        writer.execute_batch("CREATE TABLE t (x); BEGIN IMMEDIATE;").unwrap();
        let held = locks(&path);
        assert!(held > 0, "a writer holds a lock");
        for _ in 0..3 {
            sync(&path).unwrap();
        }
        assert_eq!(locks(&path), held);
    }

    #[test]
    fn another_file_at_the_path_is_synced_too() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("q.db");
        fs::write(&path, "one").unwrap();
        sync(&path).unwrap();
        fs::rename(&path, directory.path().join("aside")).unwrap();
        fs::write(&path, "two").unwrap();
        sync(&path).unwrap();
        let found = kept(&path).unwrap().metadata().unwrap();
        assert_eq!(Some(FileIdentity::of(&found)), FileIdentity::at(&path).unwrap());
        let open = || OPEN_FILES.lock().values().filter(|(kept, _)| *kept == path).count();
        assert_eq!(open(), 2);
        release_replaced(&path);
        assert_eq!(open(), 1, "the one that is there");
    }
}
