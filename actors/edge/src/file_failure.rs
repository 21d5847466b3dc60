//! Failures of files and sockets of this machine, with advice by the kind of error.

use std::{io, path::Path};

use orchestrator_observe::{FailureKind, LinkFailure};

use crate::{is_full, shell_word};

/// Failure of a link to the file at `path` by `error`; `reason` describes it.
pub fn file_failure(reason: impl Into<String>, path: &Path, error: &io::Error) -> LinkFailure {
    if is_full(error) {
        return full(reason, path);
    }
    let failure = LinkFailure::new(FailureKind::Unusable, reason);
    match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            failure.with_help(permission_advice(path, ""))
        }
        io::ErrorKind::InvalidInput => {
            failure.with_help("name a shorter path: that of a socket has at most 107 bytes")
        }
        _ => failure,
    }
}

/// The file system has no space for `path`.
pub(crate) fn full(reason: impl Into<String>, path: &Path) -> LinkFailure {
    let help = format!("df -h {}; free space there", shell_word(&path.to_string_lossy()));
    LinkFailure::new(FailureKind::DiskFull, reason).with_help(help)
}

/// Command that shows who may use the file at `path`, and what to change. `and_beside` is a pattern for the
/// files that come with it.
pub(crate) fn permission_advice(path: &Path, and_beside: &str) -> String {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let [path, directory] = [path, directory].map(|path| path.to_string_lossy().into_owned());
    let (path, directory) = (shell_word(&path), shell_word(&directory));
    let uid = rustix::process::geteuid().as_raw();
    format!(
        "ls -ld {directory} {path}{and_beside}; findmnt -T {directory}; give them to uid {uid} with chown or chmod, and mount them rw"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_follows_the_kind_of_error() {
        let path = Path::new("var/a b/in");
        for (kind, failed, help) in [
            (
                io::ErrorKind::PermissionDenied,
                FailureKind::Unusable,
                "ls -ld 'var/a b' 'var/a b/in'; findmnt",
            ),
            (io::ErrorKind::ReadOnlyFilesystem, FailureKind::Unusable, "mount them rw"),
            (io::ErrorKind::StorageFull, FailureKind::DiskFull, "df -h 'var/a b/in'"),
            (io::ErrorKind::InvalidInput, FailureKind::Unusable, "107 bytes"),
            (io::ErrorKind::Other, FailureKind::Unusable, ""),
        ] {
            let failure = file_failure("so", path, &kind.into());
            assert_eq!((failure.reason.as_str(), failure.kind), ("so", failed));
            assert!(failure.help.unwrap_or_default().contains(help), "{kind}");
        }
    }
}
