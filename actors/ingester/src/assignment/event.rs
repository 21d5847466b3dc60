//! Assignments of events to workers, with shared worker names.

use std::{collections::BTreeSet, sync::Arc};

use smallvec::SmallVec;

/// Name of a worker, the identity of its socket.
pub(crate) type WorkerName = Arc<str>;

/// Workers of one event, for each active stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Assignment {
    /// Number of the event.
    pub event: u64,
    /// Position among the active streams, and the workers that get the stream's item. With no
    /// workers the item is dropped.
    pub streams: SmallVec<[(usize, WorkerList); 1]>,
}

/// Workers that get the same item. Inline for one, the usual number, to avoid an allocation.
pub(crate) type WorkerList = SmallVec<[WorkerName; 1]>;

/// Most interned names; further names are copied.
const NAMES_MAX: usize = 4_096;

/// Active streams and interned worker names.
#[derive(Debug)]
pub(super) struct ReaderState {
    pub(super) streams: Vec<Arc<str>>,
    pub(super) names: BTreeSet<WorkerName>,
}

pub(super) fn intern(names: &mut BTreeSet<WorkerName>, name: &str) -> WorkerName {
    if let Some(known) = names.get(name) {
        return known.clone();
    }
    let new: WorkerName = name.into();
    if names.len() < NAMES_MAX {
        names.insert(new.clone());
    }
    new
}
