//! The file that keeps the history over a planned restart: a mark of the format, the SHA-256 of the rest, and
//! the history as JSON. The mark changes with the stored types.

use std::{
    fs,
    io::{self, Write},
    path::Path,
};

use orchestrator_edge::{read_at_most, read_regular};
use orchestrator_observe::now_ms;
use sha2::{Digest, Sha256};

use super::{History, LIMIT_BYTES};

const MARK: &[u8; 8] = b"orchist2";
/// Mark of the format before this one.
const FORMER_MARK: &[u8; 8] = b"orchist1";
const DIGEST_BYTES: usize = 32;
/// Maximum length of a file that is read. A value has at most 21 characters, and 8 bytes in memory.
const FILE_BYTES_MAX: u64 = 3 * LIMIT_BYTES as u64;

/// Writes `history` to `path` in one step: an older file is replaced once the new one is complete. Missing
/// parent directories are created. Nobody can guess the name of the new file and put a link or a pipe there;
/// several instances can write at the same time.
///
/// # Errors
/// The file cannot be written. An older file is unchanged.
pub(crate) fn store(history: &History, path: &Path) -> io::Result<()> {
    let body = serde_json::to_vec(history)?;
    let parent = path.parent().unwrap_or(Path::new(""));
    fs::create_dir_all(parent)?;
    let mut file = tempfile::Builder::new().prefix(".history-").tempfile_in(parent)?;
    file.write_all(MARK)?;
    file.write_all(&Sha256::digest(&body))?;
    file.write_all(&body)?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}

/// Reads a history that [`store`] wrote. Returns `None` if there is no file. A file of the format before is
/// removed.
///
/// # Errors
/// The file cannot be read, is damaged, or is not a history of this version.
pub(crate) fn load(path: &Path) -> io::Result<Option<History>> {
    let refused = |why: &str| Err(io::Error::new(io::ErrorKind::InvalidData, why));
    let file = match read_regular(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let bytes = read_at_most(&file, FILE_BYTES_MAX)?;
    if bytes.starts_with(FORMER_MARK) {
        fs::remove_file(path)?;
        return refused("it has the format of an earlier version, and is removed");
    }
    let Some(rest) = bytes.strip_prefix(MARK) else {
        return refused("it is not a history of this version");
    };
    let Some((_, body)) = rest
        .split_at_checked(DIGEST_BYTES)
        .filter(|(digest, body)| Sha256::digest(body).as_slice() == *digest)
    else {
        return refused("it is damaged: its checksum does not match");
    };
    let history = History { limit: LIMIT_BYTES, ..serde_json::from_slice(body)? };
    if !history.is_possible(now_ms()) {
        return refused("it has times or values that no history has");
    }
    Ok(Some(history))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use rustix::fs::{CWD, FileType, Mode, mknodat};
    use serde_json::json;

    use super::*;
    use crate::history::{SERIES_MAX, tests::tree};

    /// `samples` is their number.
    fn history(samples: u64) -> History {
        let mut history = History::new(LIMIT_BYTES);
        (1..=samples).for_each(|tick| history.record(&tree(2, tick, tick * 5_000)));
        history
    }

    /// Reason why the file at `path` is refused.
    fn refusal(path: &Path) -> String {
        load(path).expect_err("it is refused").to_string()
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
        assert_eq!(after.usage(), before.usage());
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "no temporary file is left");
    }

    #[test]
    fn a_file_that_no_history_wrote_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("history");
        let whole = serde_json::to_value(history(130)).unwrap();
        for (pointer, value) in [
            ("/samples/1/at_ms", json!(1)),
            ("/samples/129/at_ms", json!(u64::MAX / 2)),
            ("/names/o/child_state", json!(SERIES_MAX)),
            ("/names/o/child_state", whole["names"]["o"]["child_stuck"].clone()),
        ] {
            let mut changed = whole.clone();
            *changed.pointer_mut(pointer).unwrap() = value;
            store(&serde_json::from_value(changed).unwrap(), &path).unwrap();
            assert_eq!(refusal(&path), "it has times or values that no history has", "{pointer}");
        }
    }

    #[test]
    fn a_file_of_the_former_format_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("history");
        fs::write(&path, FORMER_MARK).unwrap();
        assert!(refusal(&path).ends_with("is removed"));
        assert!(load(&path).unwrap().is_none(), "there is no file");
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
        assert!(refusal(&path).contains("larger than"));
    }
}
