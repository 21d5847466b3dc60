//! Updates that are not handled yet, and the answer that the next one waits for.

use std::{collections::BTreeSet, vec};

use orchestrator_supervise::Reply;
use uuid::Uuid;

use crate::updates::ControllerUpdate;

/// Updates that came together.
pub(super) struct Batch {
    pub(super) updates: vec::IntoIter<ControllerUpdate>,
    pub(super) reply: Reply<bool>,
}

impl Batch {
    pub(super) fn new(updates: Vec<ControllerUpdate>, reply: Reply<bool>) -> Self {
        Self { updates: updates.into_iter(), reply }
    }
}

/// The answer that the actor waits for before it takes the next update.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// None.
    Idle,
    /// Redis's.
    Redis,
    /// The new scan's.
    Beginning(Beginning),
}

/// A mapping whose scan was asked for.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Beginning {
    pub(super) uuid: Uuid,
    pub(super) number: u64,
    pub(super) requests: u32,
    pub(super) scan_started: bool,
    /// Positions of the streams whose sources would miss something yet.
    pub(super) awaited: BTreeSet<usize>,
    /// The same update's `finished`.
    pub(super) finish: Option<Uuid>,
}
