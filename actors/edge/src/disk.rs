//! Reports of file systems without space.

use std::{io, path::Path};

use orchestrator_supervise::Vitals;

/// True if the file system, or the quota of the user, is full.
pub fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Describes the free space of the file system of the file or directory at `path`.
pub fn free_space(path: &Path) -> String {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let shown = path.display();
    match rustix::fs::statvfs(path).or_else(|_| rustix::fs::statvfs(directory)) {
        Ok(disk) => {
            let [free, size] =
                [disk.f_bavail, disk.f_blocks].map(|blocks| blocks.saturating_mul(disk.f_frsize));
            format!("{free} of {size} bytes are free on the file system of {shown}")
        }
        Err(error) => format!("the file system of {shown} cannot be examined: {error}"),
    }
}

/// Reports to `GET /v1/why` that there is no space left for the file or directory at `path`, with the free
/// bytes. `text` says what cannot be written.
pub fn report_full(vitals: &Vitals, path: &Path, text: impl AsRef<str>) {
    let shown = path.display().to_string();
    let help = format!("df -h {shown}; free space on the file system of {shown}");
    vitals.set_fault("disk_full", &shown, text, &[free_space(path)], help);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_system_of_a_file_that_is_missing_is_that_of_its_directory() {
        let directory = tempfile::tempdir().unwrap();
        let text = free_space(&directory.path().join("missing"));
        let (figures, _) = text.split_once(" bytes are free on the file system of ").expect(&text);
        let (free, size) = figures.split_once(" of ").unwrap();
        assert!(free.parse::<u64>().unwrap() <= size.parse().unwrap(), "{text}");
        let nowhere = free_space(Path::new("/nowhere/at/all"));
        assert!(nowhere.ends_with("cannot be examined: No such file or directory (os error 2)"), "{nowhere}");
        assert!(is_full(&io::Error::from_raw_os_error(28)) && !is_full(&io::Error::other("full")));
    }
}
