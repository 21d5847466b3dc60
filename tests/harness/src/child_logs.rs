//! Log files of the processes that a test started, to be shown when a wait times out.

use std::{
    fs::File,
    io::{Read, Seek, SeekFrom},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    thread::{self, ThreadId},
};

/// Lines shown of each log.
const LINES: usize = 20;
/// Bytes read of each log.
const BYTES: u64 = 16 << 10;

/// Thread that started a process, and the process's log.
static LOGS: Mutex<Vec<(ThreadId, PathBuf)>> = Mutex::new(Vec::new());

/// Registers the log of a process that this thread starts.
pub(crate) fn note(path: &Path) {
    let mut logs = LOGS.lock().unwrap_or_else(PoisonError::into_inner);
    // Finished tests have removed their logs.
    logs.retain(|(_, path)| path.parent().is_some_and(Path::exists));
    logs.push((thread::current().id(), path.to_owned()));
}

/// Last log lines of the processes that this thread started, or of all processes if it started none.
pub(crate) fn last_lines() -> String {
    let logs = LOGS.lock().unwrap_or_else(PoisonError::into_inner);
    let own: Vec<_> = logs.iter().filter(|(thread, _)| *thread == thread::current().id()).collect();
    let shown = if own.is_empty() { logs.iter().collect() } else { own };
    shown
        .into_iter()
        .filter_map(|(_, path)| Some(format!("\n{}:\n{}", path.display(), tail(path)?)))
        .collect()
}

fn tail(path: &Path) -> Option<String> {
    let mut file = File::open(path).ok()?;
    let length = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(BYTES))).ok()?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<_> = text.lines().collect();
    Some(lines[lines.len().saturating_sub(LINES)..].join("\n"))
}
