//! System limits that are checked before the start: without file descriptors and threads, the runtime panics.

use std::{sync::mpsc, thread};

use anyhow::{Context, Result, bail};
use orchestrator_edge::raise_descriptor_limit;
use orchestrator_supervise::SupervisorSpec;

/// File descriptors of a process with one subsystem: standard streams, sockets, databases, and a reserve for
/// connections.
const BASE_DESCRIPTORS: u64 = 64;
/// File descriptors of one event loop.
const ARBITER_DESCRIPTORS: u64 = 8;
/// Threads besides the event loops: databases, file readers, the HTTP server.
const BASE_THREADS: usize = 8;

/// Checks that the tree of `root` can run within the system's limits.
///
/// # Errors
/// A limit is too low. The text says how much is needed and where to raise it.
pub(crate) fn check(root: &SupervisorSpec) -> Result<()> {
    check_descriptors(root.arbiters())?;
    let threads = BASE_THREADS + root.arbiters();
    check_threads(threads).with_context(|| {
        format!(
            "cannot start the {threads} threads of this configuration: raise the limits on processes (`ulimit -u`, \
             TasksMax= in the unit file) and memory (`ulimit -v`)"
        )
    })
}

/// Raises the limit on open files to its maximum, and checks it.
fn check_descriptors(arbiters: usize) -> Result<()> {
    let limit = raise_descriptor_limit();
    let arbiters = u64::try_from(arbiters).unwrap_or(u64::from(u32::MAX));
    let needed = BASE_DESCRIPTORS + ARBITER_DESCRIPTORS * arbiters;
    if limit < needed {
        bail!(
            "the limit on open files is {limit}, and this configuration needs {needed} at least: raise it with \
             `ulimit -n`, or LimitNOFILE= in the unit file"
        );
    }
    Ok(())
}

/// Checks that `count` threads can run at once, by starting and ending them.
fn check_threads(count: usize) -> Result<()> {
    let (hold, held) = mpsc::sync_channel::<()>(0);
    let held = std::sync::Arc::new(std::sync::Mutex::new(held));
    let threads: Result<Vec<_>, _> = (0..count)
        .map(|_| {
            let held = held.clone();
            // Each thread waits until the sender is dropped.
            thread::Builder::new().spawn(move || drop(held.lock().map(|held| held.recv())))
        })
        .collect();
    drop(hold);
    for thread in threads? {
        // The thread cannot panic.
        let _ = thread.join();
    }
    Ok(())
}
