//! Addresses with credentials, and secrets in files.

use std::{
    collections::BTreeSet,
    fs::{File, Metadata},
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use parking_lot::Mutex;
use rustix::process::{getegid, getgroups};

use crate::{SettingError, open_regular, read_at_most};

/// Leaves out user and password; None if `url` has no scheme.
pub fn without_credentials(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("//")?;
    Some(format!("{scheme}//{}", rest.rsplit('@').next().unwrap_or_default()))
}

/// Largest file with a secret, in bytes.
const FILE_MAX: u64 = 64 * 1024;

/// Reads a file with a secret. One that other users may read is logged once.
///
/// # Errors
/// As [`open_secret_file`], or the file has more than 64 KiB or is not UTF-8.
pub fn read_secret_file(path: &Path) -> io::Result<String> {
    let (file, metadata) = open_secret_file(path)?;
    warn_if_exposed(path, &metadata);
    let text = read_at_most(&file, FILE_MAX)?;
    String::from_utf8(text).map_err(|_| io::Error::other("it is not UTF-8"))
}

/// Opens a file with a secret; see [`open_regular`].
///
/// # Errors
/// The file cannot be opened, or is no regular file.
pub fn open_secret_file(path: &Path) -> io::Result<(File, Metadata)> {
    open_regular(File::options().read(true), path)
}

/// Reason why other users may read a file with a secret, and what to do. None: only the owner and members of
/// one of the process's own groups can read it, and only the owner can write to it.
pub fn exposure(metadata: &Metadata) -> Option<String> {
    let (mode, group) = (metadata.mode() & 0o777, metadata.gid());
    (!is_private(metadata)).then(|| {
        format!(
            "has mode {mode:o} and group {group}, so other users may read it: run chmod 600, or 440 with a group of this program"
        )
    })
}

/// Logs once for each file and mode that other users may read a file with a secret.
pub fn warn_if_exposed(path: &Path, metadata: &Metadata) {
    static WARNED: Mutex<BTreeSet<(PathBuf, u32)>> = Mutex::new(BTreeSet::new());
    if let Some(reason) = exposure(metadata)
        && WARNED.lock().insert((path.to_owned(), metadata.mode()))
    {
        tracing::warn!("the file {} with a secret {reason}", path.display());
    }
}

fn is_private(metadata: &Metadata) -> bool {
    let own = |gid: u32| {
        gid == getegid().as_raw() || getgroups().is_ok_and(|own| own.iter().any(|one| one.as_raw() == gid))
    };
    match metadata.mode() & 0o077 {
        0 => true,
        0o040 => own(metadata.gid()),
        _ => false,
    }
}

/// Trimmed content of `file`, or `plain` if there is no file. `key` is the configuration key of the file.
///
/// # Errors
/// The file cannot be read; a later attempt may succeed. The text begins with `key = file`.
pub fn read_secret(file: Option<&Path>, plain: &str, key: &str) -> Result<String, SettingError> {
    let Some(file) = file else { return Ok(plain.to_owned()) };
    read_secret_file(file)
        .map(|text| text.trim().to_owned())
        .map_err(|error| format!("{key} = {}: cannot be read: {error}", file.display()).into())
}

#[cfg(test)]
mod tests {
    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    #[test]
    fn credentials_are_removed() {
        for (url, shown) in [
            ("tcp://a:7419", Some("tcp://a:7419")),
            ("tcp://:secret@a", Some("tcp://a")),
            ("x://me@a/b", Some("x://a/b")),
            ("x://me:p%2F@a:1,b/c?d=e", Some("x://a:1,b/c?d=e")),
            ("nonsense", None),
        ] {
            assert_eq!(without_credentials(url).as_deref(), shown, "{url}");
        }
    }

    #[test]
    fn a_file_takes_precedence_over_a_plain_secret() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), "me:secret\n").expect("write");
        assert_eq!(read_secret(Some(file.path()), "plain", "a.file").as_deref(), Ok("me:secret"));
        assert_eq!(read_secret(None, "plain", "a.file").as_deref(), Ok("plain"));
        let pipe = file.path().with_extension("pipe");
        mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a pipe");
        let error = read_secret(Some(&pipe), "plain", "a.file").expect_err("a pipe").to_string();
        assert!(error.ends_with("cannot be read: it is no regular file"), "{error}");
        std::fs::remove_file(&pipe).expect("remove");
        std::fs::write(file.path(), b"\xff").expect("write");
        let error = read_secret(Some(file.path()), "plain", "a.file").expect_err("not UTF-8").to_string();
        assert!(error.ends_with("it is not UTF-8"), "{error}");
        std::fs::write(file.path(), [b'x'; FILE_MAX as usize + 1]).expect("write");
        let error = read_secret(Some(file.path()), "plain", "a.file").expect_err("too large").to_string();
        assert!(error.ends_with("larger than 65536 bytes"), "{error}");
        let error = read_secret(Some(Path::new("/nowhere/x")), "plain", "a.file")
            .expect_err("no such file")
            .to_string();
        assert!(error.starts_with("a.file = /nowhere/x: cannot be read"), "{error}");
    }
}
