//! Limits of the egress.

use std::{path::PathBuf, time::Duration};

/// Longest frame that is copied once a worker has a backlog, bytes. Such frames are slices of
/// larger read blocks, which they would keep in memory.
pub(super) const SMALL_FRAME: usize = 64 * 1024;

/// Queued bytes above which a worker has a backlog.
pub(super) const BACKLOG: usize = 1 << 20;

/// Limits of memory, disk and connections.
#[derive(Debug, Clone)]
pub(crate) struct EgressLimits {
    /// Memory for one worker's queue, bytes. A larger message is taken if nothing else waits.
    pub bytes_per_peer: usize,
    /// Disk space beyond that for all workers, bytes; 0 for none.
    pub spill_bytes: u64,
    /// Directory of the unnamed spill files.
    pub spill_dir: PathBuf,
    /// Length of a spill file, bytes; its space is freed once it is read.
    pub segment_bytes: u64,
    /// Most connections at a time; None: half of the limit on open files.
    pub connections_max: Option<usize>,
    /// Time-out of a handshake.
    pub handshake_deadline: Duration,
    /// Time after which a worker that has not finished its last event counts as idle.
    pub worker_idle: Duration,
}

impl Default for EgressLimits {
    fn default() -> Self {
        Self {
            bytes_per_peer: 64 << 20,
            spill_bytes: 0,
            spill_dir: std::env::temp_dir(),
            segment_bytes: 64 << 20,
            connections_max: None,
            handshake_deadline: Duration::from_secs(5),
            worker_idle: Duration::from_secs(30),
        }
    }
}
