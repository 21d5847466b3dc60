//! The maximum number of connections, from the limit on open files.

use rustix::process::{Resource, getrlimit};

/// Maximum number of concurrent connections on each socket. More wait in the backlog.
const CONNECTIONS_MAX: u64 = 192;
/// Divisor of the process's file descriptors that gives the share of both sockets. The subsystems need the rest.
const DESCRIPTORS_SHARE: u64 = 32;

/// Returns the maximum number of concurrent connections on each socket.
pub(crate) fn connections_max() -> usize {
    // The hard limit, to which subsystems raise the soft limit.
    let descriptors = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
    (descriptors / DESCRIPTORS_SHARE / 2).clamp(8, CONNECTIONS_MAX) as usize
}
