//! The limit on open files: too low a one is refused before anything starts, since event loops cannot be had without descriptors.

use anyhow::{Result, bail};
use orchestrator_edge::raise_descriptor_limit;
use orchestrator_supervise::SupervisorSpec;

/// Descriptors of a process with one subsystem: standard streams, sockets, databases, and a reserve for connections.
const BASE: u64 = 64;
/// Descriptors of one event loop.
const EACH_ARBITER: u64 = 8;

/// Raises the limit on open files as far as the system allows and checks that the tree of `root` can run within it.
///
/// # Errors
/// The limit is too low; the text names it, what is needed, and where to raise it.
pub(crate) fn check(root: &SupervisorSpec) -> Result<()> {
    let limit = raise_descriptor_limit();
    let needed = BASE + EACH_ARBITER * u64::try_from(root.arbiters()).unwrap_or(u64::MAX / EACH_ARBITER / 2);
    if limit < needed {
        bail!(
            "the limit on open files is {limit}, and this configuration needs {needed} at least: raise it with \
             `ulimit -n`, or LimitNOFILE= in the unit file"
        );
    }
    Ok(())
}
