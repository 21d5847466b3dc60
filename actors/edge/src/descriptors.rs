//! The limit on open files, which bounds how many peers an edge can have.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the soft limit to the hard one, and gives what is in force then. What cannot be raised stays, with a warning.
pub fn raise_descriptor_limit() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum
        && let Err(error) =
            setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum })
    {
        tracing::warn!(%error, "cannot raise the limit on open files: fewer workers can be connected");
    }
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}
