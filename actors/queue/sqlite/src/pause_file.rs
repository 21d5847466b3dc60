//! File that records that an operator paused hand-outs, for the next start of the process.
//!
//! It lies beside the database, so that a pause outlives a database that is rebuilt, and needs no
//! lock that another program may hold.

use std::{
    fs::{self, File},
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

use orchestrator_edge::{open_regular_no_link, with_suffix};
use orchestrator_queue_rules::storage::StorageError;
use orchestrator_supervise::PauseSpan;

/// Longest content that is read: a number.
const CONTENT_MAX: u64 = 32;

/// None once the time of the pause is over. A file without a time records a pause without an end.
#[must_use]
pub fn pause(database: &Path) -> Option<PauseSpan> {
    let file = path(database);
    file.symlink_metadata().ok()?;
    let mut text = String::new();
    // What cannot be read is a pause, too: hand-outs begin only when an operator, or the time, says so.
    if let Ok((file, _)) = open_regular_no_link(File::options().read(true), &file) {
        let _ = file.take(CONTENT_MAX).read_to_string(&mut text);
    }
    Some(PauseSpan { until_ms: text.trim().parse().ok() }).filter(|pause| !pause.is_over())
}

/// Records durably that hand-outs are paused or resumed.
///
/// # Errors
/// Of the file system, or if the file is a link.
pub fn record(database: &Path, pause: Option<PauseSpan>) -> Result<(), StorageError> {
    let file = path(database);
    write(&file, pause).map_err(StorageError::backend(&file, "recording the pause"))
}

fn write(file: &Path, pause: Option<PauseSpan>) -> io::Result<()> {
    if let Some(pause) = pause {
        let options = &mut File::options();
        let (mut opened, _) = open_regular_no_link(options.write(true).create(true).truncate(true), file)?;
        let until = pause.until_ms.map(|until_ms| format!("{until_ms}\n"));
        opened.write_all(until.unwrap_or_default().as_bytes())?;
        opened.sync_all()?;
    } else {
        match fs::remove_file(file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    let directory = file.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
}

/// Path of the file beside the database.
#[must_use]
pub fn path(database: &Path) -> PathBuf {
    with_suffix(database, ".paused")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_recorded_and_a_link_is_not_followed() {
        let directory = tempfile::tempdir().expect("a directory");
        let database = directory.path().join("db");
        let (lasting, ends) = (PauseSpan::default(), PauseSpan { until_ms: Some(u64::MAX) });
        for recorded in [Some(lasting), Some(ends), Some(lasting), None, None] {
            record(&database, recorded).expect("recorded");
            assert_eq!(pause(&database), recorded);
        }
        record(&database, Some(PauseSpan { until_ms: Some(1) })).expect("recorded");
        assert_eq!(pause(&database), None, "its time is over");
        record(&database, None).expect("removed");
        let other = directory.path().join("other");
        fs::write(&other, "text").expect("a file");
        std::os::unix::fs::symlink(&other, path(&database)).expect("a link");
        record(&database, Some(lasting)).expect_err("a link");
        assert_eq!(fs::read_to_string(&other).expect("the file"), "text");
    }
}
