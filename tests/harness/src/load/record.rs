//! External record of a load: contents of the files, answers to the workers, and times of kills and panics.

use std::time::Instant;

use super::{Lines, Seen};

/// Time range of a kill, an injected panic or a freeze of an instance.
#[derive(Debug, Clone, Copy)]
pub struct Disruption {
    /// Index of the instance's socket.
    pub instance: usize,
    /// Time just before it.
    pub from: Instant,
    /// Time when it had certainly happened.
    pub to: Instant,
}

/// Record of one load, verified by [`LoadRecord::check`].
#[derive(Debug)]
pub struct LoadRecord {
    /// Lines in the files at the end.
    pub present: Lines,
    /// Lines that any file ever held.
    pub ever: Lines,
    /// Observations of the workers.
    pub seen: Seen,
    /// Kills, panics and freezes, in order of time.
    pub disruptions: Vec<Disruption>,
}
