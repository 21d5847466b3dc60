//! Opening of files that other users may replace.

use std::{
    fs::{self, File, Metadata, OpenOptions},
    io::{self, Read},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use orchestrator_text::sanitize;
use rustix::{fs::OFlags, io::Errno};

use crate::{SettingError, with_suffix};

/// Upper bound of a file that is read as text, in bytes.
const TEXT_MAX: u64 = 16 << 20;

/// Opens the regular file at `path`, which other users may have replaced. A named pipe or a device is
/// refused: opening it could block, and reading it could take for ever.
///
/// # Errors
/// The file cannot be opened, or is no regular file.
pub fn open_regular(options: &mut OpenOptions, path: &Path) -> io::Result<(File, Metadata)> {
    open(options, path, OFlags::NONBLOCK)
}

/// As [`open_regular`], and refuses a link at `path`: who may write into its directory must not choose
/// another file.
///
/// # Errors
/// As [`open_regular`], or there is a link.
pub fn open_regular_no_link(options: &mut OpenOptions, path: &Path) -> io::Result<(File, Metadata)> {
    open(options, path, OFlags::NONBLOCK | OFlags::NOFOLLOW)
}

/// Opens the regular file at `path` for reading; see [`open_regular`].
///
/// # Errors
/// As [`open_regular`].
pub fn read_regular(path: &Path) -> io::Result<File> {
    Ok(open_regular(OpenOptions::new().read(true), path)?.0)
}

/// Reads `file` to its end.
///
/// # Errors
/// The file cannot be read, or has more than `max` bytes.
pub fn read_at_most(file: &File, max: u64) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    if file.take(max + 1).read_to_end(&mut text)? as u64 > max {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it is larger than {max} bytes")));
    }
    Ok(text)
}

/// Reads the regular file at `path` as UTF-8; see [`open_regular`].
///
/// # Errors
/// As [`open_regular`]; the file is not UTF-8 or larger than 16 MiB.
pub fn read_text(path: &Path) -> io::Result<String> {
    let bytes = read_at_most(&read_regular(path)?, TEXT_MAX)?;
    String::from_utf8(bytes).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8"))
}

/// Checks that a SQLite database, its log and its journal are regular files or missing: SQLite would wait for
/// a named pipe.
///
/// # Errors
/// One of them is no regular file; the text names it.
pub fn check_database_files(database: &Path) -> io::Result<()> {
    for path in ["", "-wal", "-journal"].map(|suffix| with_suffix(database, suffix)) {
        if fs::metadata(&path).is_ok_and(|found| !found.is_file()) {
            return Err(io::Error::other(format!("{} is no regular file", path.display())));
        }
    }
    Ok(())
}

fn open(options: &mut OpenOptions, path: &Path, flags: OFlags) -> io::Result<(File, Metadata)> {
    let irregular = || io::Error::other("it is no regular file");
    let opened = options.custom_flags(flags.bits().cast_signed()).open(path);
    // The code of a named pipe without a reader, and of a socket.
    let is_irregular = |error: &io::Error| error.raw_os_error() == Some(Errno::NXIO.raw_os_error());
    let file = opened.map_err(|error| if is_irregular(&error) { irregular() } else { error })?;
    let metadata = file.metadata()?;
    if metadata.is_file() { Ok((file, metadata)) } else { Err(irregular()) }
}

/// Checks that SQLite takes `path` as the name of a file. `key` names the path.
///
/// # Errors
/// It is the name of a database in memory, an address, or a directory. The text begins with the key.
pub fn check_database_path(key: &str, path: &Path) -> Result<(), SettingError> {
    let bytes = path.as_os_str().as_encoded_bytes();
    let reason = if bytes.starts_with(b":") || bytes.starts_with(b"file:") {
        "SQLite takes this for another thing than a file: write ./ before it"
    } else if bytes.ends_with(b"/") || path.file_name().is_none() || path.is_dir() {
        "this is a directory: write the path of a file"
    } else {
        return Ok(());
    };
    Err(format!("{key} = {}: {reason}", sanitize(bytes)).into())
}

#[cfg(test)]
mod tests {
    use std::os::unix::{fs::symlink, net::UnixListener};

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    #[test]
    fn only_regular_files_are_opened_and_nothing_blocks() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        fs::write(path("file"), "text").unwrap();
        symlink("file", path("link")).unwrap();
        mknodat(CWD, path("fifo"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let _socket = UnixListener::bind(path("socket")).unwrap();
        for (name, opens, opens_no_link) in [
            ("file", true, true),
            ("link", true, false),
            ("fifo", false, false),
            ("socket", false, false),
            (".", false, false),
        ] {
            assert_eq!(read_regular(&path(name)).is_ok(), opens, "{name}");
            for options in [OpenOptions::new().read(true), OpenOptions::new().append(true)] {
                assert_eq!(open_regular(options, &path(name)).is_ok(), opens, "{name}");
                assert_eq!(open_regular_no_link(options, &path(name)).is_ok(), opens_no_link, "{name}");
            }
        }
        assert!(check_database_files(&path("file")).is_ok() && check_database_files(&path("none")).is_ok());
        fs::rename(path("fifo"), path("file-journal")).unwrap();
        assert!(check_database_files(&path("file")).is_err());
    }
}
