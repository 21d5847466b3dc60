//! Requests of the controller that wait for Redis. They outlive a restart of the actor.

use std::collections::BTreeMap;

use uuid::Uuid;

use crate::mapping::FORMER_MAX;

/// Parameters to fetch, and finished mappings to answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ControllerRequests {
    /// Parameters that the last update names.
    pub(super) wanted: BTreeMap<String, Uuid>,
    /// Finished mappings that Redis has not acknowledged yet, at most [`FORMER_MAX`].
    pub(super) unacknowledged: Vec<Uuid>,
}

impl ControllerRequests {
    /// Adds a finished mapping. Its update is delivered again if the actor restarts meanwhile.
    pub(super) fn finish(&mut self, uuid: Uuid) {
        if !self.unacknowledged.contains(&uuid) {
            self.unacknowledged.push(uuid);
        }
        // The controller no longer waits for the oldest ones.
        self.unacknowledged.drain(..self.unacknowledged.len().saturating_sub(FORMER_MAX));
    }

    /// Removes a mapping that Redis has acknowledged.
    pub(super) fn acknowledge(&mut self, uuid: Uuid) {
        self.unacknowledged.retain(|one| *one != uuid);
    }
}
