//! Assignments of events to workers, with the names that they share.

use std::{collections::BTreeSet, sync::Arc};

use smallvec::SmallVec;

/// A worker's name: the identity of its socket.
pub type WorkerName = Arc<str>;

/// Where one event's item of each of my active streams goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    /// Number of the event.
    pub event: u64,
    /// Position of a stream among the active ones, and the workers that its item is sent to; none: it is thrown away.
    pub streams: SmallVec<[(usize, Addressees); 1]>,
}

/// Workers that get the same item. Mostly one, as mostly one stream is mine: so an event takes no memory of its own.
pub type Addressees = SmallVec<[WorkerName; 1]>;

/// Names that are kept for sharing; more than that many workers only cost a copy each.
const NAMES_MAX: usize = 4_096;

/// The active streams, and the names of workers that were read so far.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) streams: Vec<Arc<str>>,
    pub(super) names: BTreeSet<WorkerName>,
}

pub(super) fn shared(names: &mut BTreeSet<WorkerName>, name: &str) -> WorkerName {
    if let Some(known) = names.get(name) {
        return known.clone();
    }
    let new: WorkerName = name.into();
    if names.len() < NAMES_MAX {
        names.insert(new.clone());
    }
    new
}
