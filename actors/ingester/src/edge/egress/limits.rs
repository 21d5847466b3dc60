//! The limits of the egress.

use std::{path::PathBuf, time::Duration};

/// Frames up to this length are copied once a peer has a backlog: they are slices of the block that they were read into, and would pin it.
pub(super) const SMALL_FRAME: usize = 64 * 1024;

/// A peer with more waiting than this, bytes, has a backlog.
pub(super) const BACKLOG: usize = 1 << 20;

/// What the egress may hold.
#[derive(Debug, Clone)]
pub struct EgressLimits {
    /// Memory for what waits for one worker, bytes. A single message over it is taken where nothing else waits.
    pub bytes_per_peer: usize,
    /// Disk for what is over that, bytes in all; 0 for none.
    pub spill_bytes: u64,
    /// Where spilled messages are kept, in files without a name.
    pub spill_dir: PathBuf,
    /// Length of such a file, bytes; it is given back once it is read.
    pub segment_bytes: u64,
    /// The most connections at a time; None: what the limit on open files sensibly allows.
    pub connections_max: Option<usize>,
    /// How long a handshake may take.
    pub handshake_deadline: Duration,
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
        }
    }
}
