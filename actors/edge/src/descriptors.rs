//! Limit on open files of the process.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the soft limit on open files to the hard limit, and returns the limit in force. Logs a warning if
/// that fails.
pub fn raise_descriptor_limit() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum
        && let Err(error) =
            setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum })
    {
        tracing::warn!(%error, "cannot raise the limit on open files: fewer peers can connect");
    }
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}
