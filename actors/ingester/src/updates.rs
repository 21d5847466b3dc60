//! Updates of the controller and the actions they require (CONTRACT IO01 to IO03). Pure.

use std::collections::{BTreeMap, VecDeque};

use serde::Deserialize;
use uuid::Uuid;

/// Former mappings that are remembered, so that none of them is taken for a new one.
pub const FORMER_MAX: usize = 64;

/// An entry of `dranspose:controller:updates`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ControllerUpdate {
    /// Current mapping of the controller.
    pub mapping_uuid: Uuid,
    /// Version of each parameter.
    #[serde(default)]
    pub parameters_version: BTreeMap<String, Uuid>,
    /// Streams of a new mapping; empty in other updates, and missing with controllers before 0.1.
    #[serde(default)]
    pub active_streams: Option<Vec<String>>,
    /// All events are processed, or the scan was stopped.
    #[serde(default)]
    pub finished: bool,
}

/// Actions that one update requires. The order is: parameters, new mapping, answer to `finished`,
/// publishing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpdateActions {
    /// Mapping to begin, with the active streams of this ingester.
    pub begin: Option<(Uuid, Vec<String>)>,
    /// Mapping under which `finished` is answered.
    pub finish: Option<Uuid>,
}

/// Tracker of the current mapping.
#[derive(Debug, Clone, Default)]
pub struct MappingTracker {
    mapping: Option<Uuid>,
    former: VecDeque<Uuid>,
}

impl MappingTracker {
    /// Resumes with `mapping` after a restart. Updates may be delivered again, so the mappings
    /// before it are known as `former`.
    pub fn resumed(mapping: Option<Uuid>, former: VecDeque<Uuid>) -> Self {
        Self { mapping, former }
    }

    /// The current mapping; None before the first.
    pub fn mapping(&self) -> Option<Uuid> {
        self.mapping
    }

    /// Processes one update. Every entry must be given, in order: an update right behind a new
    /// mapping has its UUID, but no streams.
    pub fn take(&mut self, update: &ControllerUpdate, mine: &[impl AsRef<str>]) -> UpdateActions {
        let uuid = update.mapping_uuid;
        let is_new = self.mapping != Some(uuid) && !self.former.contains(&uuid);
        let begin = is_new.then(|| {
            if let Some(former) = self.mapping.replace(uuid) {
                self.former.push_back(former);
            }
            if self.former.len() > FORMER_MAX {
                self.former.pop_front();
            }
            (uuid, active(update, mine))
        });
        UpdateActions { begin, finish: update.finished.then_some(uuid) }
    }
}

/// Streams of `mine` that the update names; all if it names none (0.0.4).
fn active(update: &ControllerUpdate, mine: &[impl AsRef<str>]) -> Vec<String> {
    let named = |stream: &&str| match &update.active_streams {
        Some(streams) => streams.iter().any(|one| one == stream),
        None => true,
    };
    mine.iter().map(AsRef::as_ref).filter(named).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests;
