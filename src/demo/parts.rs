//! The subsystems that the demo runs.

/// Subsystems of a demo.
#[derive(Debug, Clone, Copy)]
pub(super) struct Parts {
    pub(super) queue: bool,
    /// Provenance, with its store in SQLite.
    pub(super) provenance: bool,
    /// A catalog whose rows are jobs of the queue.
    pub(super) catalog: bool,
}

impl Parts {
    /// Those of this build.
    pub(super) const BUILT: Self = Self {
        queue: cfg!(feature = "queue"),
        provenance: cfg!(feature = "provenance-sqlite"),
        catalog: cfg!(all(feature = "catalog", feature = "queue")),
    };
}
