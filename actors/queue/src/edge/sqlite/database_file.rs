//! Bringing the database file to the disk beside SQLite, which does it only in the checkpoint that reaches the end of the
//! log: behind a busy writer that is the writer's own one, and the writes of all the others before wait for it there.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use orchestrator_edge::FileIdentity;
use parking_lot::Mutex;

/// Files that were ever synchronised, with the path they had then. They stay open as long as a connection may have them: POSIX locks
/// belong to a process and a file, so that closing any descriptor of it would drop the locks of SQLite's connections too
/// (sqlite.org/howtocorrupt.html, 2.2).
static KEPT: Mutex<BTreeMap<FileIdentity, (PathBuf, Arc<File>)>> = Mutex::new(BTreeMap::new());

/// Waits until what was written to the file at `path` is on the disk. Holds up no reader and no writer of the file.
///
/// # Errors
/// Of the file system.
pub(super) fn sync(path: &Path) -> io::Result<()> {
    kept(path)?.sync_data()
}

/// Closes files that were at `path` and are not any more, so that a deleted one gives its space back. Call it while no connection of
/// this process has one of them.
pub(crate) fn release_replaced(path: &Path) {
    let now = FileIdentity::at(path).ok().flatten();
    let mut all = KEPT.lock();
    all.retain(|identity, (kept, _)| kept != path || Some(*identity) == now);
}

fn kept(path: &Path) -> io::Result<Arc<File>> {
    let mut all = KEPT.lock();
    if let Some((_, file)) = all.get(&FileIdentity::of(&fs::metadata(path)?)) {
        return Ok(Arc::clone(file));
    }
    let file = Arc::new(File::open(path)?);
    let found = FileIdentity::of(&file.metadata()?);
    // Another file may have come to the path since the first look; one that is kept already must not be closed here.
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

    /// POSIX locks that this process holds on the file, as the kernel counts them (proc_locks(5)).
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
    fn sqlite_keeps_its_locks() {
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
    fn another_file_at_the_path_is_synchronised_too() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("q.db");
        fs::write(&path, "one").unwrap();
        sync(&path).unwrap();
        fs::rename(&path, directory.path().join("aside")).unwrap();
        fs::write(&path, "two").unwrap();
        sync(&path).unwrap();
        let found = kept(&path).unwrap().metadata().unwrap();
        assert_eq!(Some(FileIdentity::of(&found)), FileIdentity::at(&path).unwrap());
        let open = || KEPT.lock().values().filter(|(kept, _)| *kept == path).count();
        assert_eq!(open(), 2);
        release_replaced(&path);
        assert_eq!(open(), 1, "the one that is there");
    }
}
