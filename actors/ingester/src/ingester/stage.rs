//! Pending updates, and the answer that the next one waits for.

use std::{collections::BTreeSet, vec};

use orchestrator_supervise::Reply;
use uuid::Uuid;

use crate::updates::ControllerUpdate;

/// Updates that arrived in one message.
pub(super) struct Batch {
    pub(super) updates: vec::IntoIter<ControllerUpdate>,
    pub(super) reply: Reply<bool>,
}

impl Batch {
    pub(super) fn new(updates: Vec<ControllerUpdate>, reply: Reply<bool>) -> Self {
        Self { updates: updates.into_iter(), reply }
    }
}

/// Answer that the actor waits for before it handles the next update.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// No answer is awaited.
    Idle,
    /// The answer of Redis.
    Redis,
    /// The start of the new scan.
    Starting(MappingStart),
}

/// A mapping whose scan was requested.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct MappingStart {
    pub(super) uuid: Uuid,
    pub(super) number: u64,
    pub(super) requests: u32,
    pub(super) scan_started: bool,
    /// Positions of streams whose sources are not connected yet and would lose frames.
    pub(super) awaited: BTreeSet<usize>,
    /// Mapping that the same update finishes.
    pub(super) finish: Option<Uuid>,
}
