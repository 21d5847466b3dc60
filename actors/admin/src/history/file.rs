//! The file that keeps the history over a planned restart: a mark of the format, the SHA-256 of the rest, and
//! the history in the format of the crate `postcard`. The mark changes with the stored types.

use std::{
    fs,
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

use orchestrator_edge::read_regular;
use orchestrator_supervise::now_ms;
use sha2::{Digest, Sha256};

use super::{History, LIMIT_BYTES, Segment};

const MARK: &[u8; 8] = b"orchist1";
const DIGEST_BYTES: usize = 32;
/// Maximum length of a file that is read. Numbers take fewer bytes than in memory.
const FILE_BYTES_MAX: u64 = 2 * LIMIT_BYTES as u64;

/// Reason why a history cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HistoryFileError {
    /// The file system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The file is longer than any history.
    #[error("{} has more than {FILE_BYTES_MAX} bytes", .0.display())]
    TooLong(PathBuf),
    /// The mark is missing: another program or another version wrote the file.
    #[error("{} is not a history of this version", .0.display())]
    Unknown(PathBuf),
    /// The checksum does not match: the file was cut off or changed.
    #[error("{} is damaged: its checksum does not match", .0.display())]
    Damaged(PathBuf),
    /// The content does not have the expected form.
    #[error("{}: {source}", path.display())]
    Content {
        /// Path of the file.
        path: PathBuf,
        /// Error of the decoder or encoder.
        source: postcard::Error,
    },
    /// The content has the expected form, but was not recorded: its times lie in the future, or its values
    /// contradict each other.
    #[error("{} has times or values that no history has", .0.display())]
    Impossible(PathBuf),
}

/// Writes `history` to `path` in one step: an older file is replaced once the new one is complete. Missing
/// parent directories are created. Nobody can guess the name of the new file and put a link or a pipe there;
/// several instances can write at the same time.
///
/// # Errors
/// The file cannot be written. An older file is unchanged.
pub(crate) fn store(history: &History, path: &Path) -> Result<(), HistoryFileError> {
    let io = |source| HistoryFileError::Io { path: path.to_owned(), source };
    let body = postcard::to_stdvec(history)
        .map_err(|source| HistoryFileError::Content { path: path.to_owned(), source })?;
    let parent = path.parent().unwrap_or(Path::new(""));
    let written = fs::create_dir_all(parent).and_then(|()| {
        let mut file = tempfile::Builder::new().prefix(".history-").tempfile_in(parent)?;
        file.write_all(MARK)?;
        file.write_all(&Sha256::digest(&body))?;
        file.write_all(&body)?;
        file.as_file().sync_all()?;
        file.persist(path).map_err(io::Error::from)
    });
    written.map(drop).map_err(io)
}

/// Reads a history that [`store`] wrote. Returns `None` if there is no file.
///
/// # Errors
/// The file cannot be read, is damaged, or is not a history of this version.
pub(crate) fn load(path: &Path) -> Result<Option<History>, HistoryFileError> {
    let io = |source| HistoryFileError::Io { path: path.to_owned(), source };
    let file = match read_regular(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(io(error)),
    };
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(io)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(HistoryFileError::TooLong(path.to_owned()));
    }
    let rest = bytes.strip_prefix(MARK).ok_or_else(|| HistoryFileError::Unknown(path.to_owned()))?;
    let (digest, body) =
        rest.split_at_checked(DIGEST_BYTES).ok_or_else(|| HistoryFileError::Damaged(path.to_owned()))?;
    if Sha256::digest(body).as_slice() != digest {
        return Err(HistoryFileError::Damaged(path.to_owned()));
    }
    let mut history: History = postcard::from_bytes(body)
        .map_err(|source| HistoryFileError::Content { path: path.to_owned(), source })?;
    history.limit = LIMIT_BYTES;
    if !history.is_possible(now_ms()) {
        return Err(HistoryFileError::Impossible(path.to_owned()));
    }
    history.segments.iter_mut().rev().skip(1).for_each(Segment::close);
    Ok(Some(history))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use rustix::fs::{CWD, FileType, Mode, mknodat};
    use serde_json::json;

    use super::*;
    use crate::history::tests::tree;

    /// `samples` is their number.
    fn history(samples: u64) -> History {
        let mut history = History::new(LIMIT_BYTES);
        (1..=samples).for_each(|tick| history.record(&tree(2, tick, tick * 5_000)));
        history
    }

    #[test]
    fn a_stored_history_is_read_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("var/history");
        let mut before = history(130);
        store(&before, &path).unwrap();
        let mut after = load(&path).unwrap().expect("a history");
        assert_eq!(after.columns("o", true, &[], 0), before.columns("o", true, &[], 0));
        for history in [&mut before, &mut after] {
            history.record(&tree(3, 131, 655_000));
        }
        assert_eq!(after.columns("o", true, &[], 0), before.columns("o", true, &[], 0));
        assert_eq!(after.series, before.series);
        assert_eq!(after.samples(), before.samples());
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "no temporary file is left");
    }

    #[test]
    fn a_file_that_no_history_wrote_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("history");
        let whole = serde_json::to_value(history(130)).unwrap();
        let future = u64::MAX / 2;
        for (pointer, value) in [
            ("/step_ms", json!(future)),
            ("/step_ms", json!(0)),
            ("/last_ms", json!(future)),
            ("/series", json!(0)),
            ("/name_bytes", json!(0)),
            ("/segments/0/times/1", json!(1)),
            ("/segments/2/times/9", json!(future)),
            ("/segments/1/number", json!(0)),
            ("/segments/1/columns/0/seen", json!(60)),
            ("/segments/1/columns/0/first_tick", json!(60)),
        ] {
            let mut changed = whole.clone();
            *changed.pointer_mut(pointer).unwrap() = value.clone();
            store(&serde_json::from_value(changed).unwrap(), &path).unwrap();
            assert!(matches!(load(&path), Err(HistoryFileError::Impossible(_))), "{pointer} {value}");
        }
        let mut changed = whole;
        changed["segments"][0]["columns"]["0"]["changes"] = json!(vec![0xff_u8; 16]);
        store(&serde_json::from_value(changed).unwrap(), &path).unwrap();
        load(&path).unwrap().expect("a history").columns("o", true, &[], 0);
    }

    #[test]
    fn a_named_pipe_does_not_block() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("history");
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let (done, result) = std::sync::mpsc::channel();
        let here = path.clone();
        std::thread::spawn(move || done.send((load(&here).is_err(), store(&history(2), &here).is_ok())));
        assert_eq!(result.recv_timeout(std::time::Duration::from_secs(20)), Ok((true, true)));
        assert!(load(&path).unwrap().is_some());
    }

    #[test]
    fn a_damaged_file_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("history");
        assert!(load(&path).unwrap().is_none(), "there is no file");
        store(&history(2), &path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let whole = fs::read(&path).unwrap();
        for at in (0..whole.len()).step_by(7).chain(whole.len() - 40..whole.len()) {
            let mut changed = whole.clone();
            changed[at] ^= 0x10;
            fs::write(&path, &changed).unwrap();
            assert!(load(&path).is_err(), "byte {at} was changed");
            fs::write(&path, &whole[..at]).unwrap();
            assert!(load(&path).is_err(), "{at} bytes are left");
        }
        fs::write(&path, vec![0; FILE_BYTES_MAX as usize + 1]).unwrap();
        assert!(matches!(load(&path), Err(HistoryFileError::TooLong(_))));
    }
}
