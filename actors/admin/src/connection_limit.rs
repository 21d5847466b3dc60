//! The limit on connections, from the limit on open files.

use rustix::process::{Resource, getrlimit};

/// Connections at once on each socket; more wait in the backlog.
const CONNECTIONS_MAX: u64 = 192;
/// Both sockets together take one in so many of the process's descriptors at the most: workers need them.
const DESCRIPTORS_SHARE: u64 = 32;

/// How many connections each socket may have at once.
pub(crate) fn connections_max() -> usize {
    // The hard limit: whoever needs many descriptors raises the soft one to it.
    let descriptors = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
    (descriptors / DESCRIPTORS_SHARE / 2).clamp(8, CONNECTIONS_MAX) as usize
}
