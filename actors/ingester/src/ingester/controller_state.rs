//! Requests to Redis for one update: parameters first, then, after the mapping has started, the
//! answer to `finished`.

use std::collections::BTreeMap;

use uuid::Uuid;

use super::handles::Handles;
use crate::{
    mapping::Mappings,
    messages::{RedisAction, RedisFailure},
    parameters::Parameters,
    updates::{ControllerUpdate, FORMER_MAX, MappingTracker, UpdateActions},
};

/// State of the controller as known to an ingester.
#[derive(Clone)]
pub(crate) struct ControllerState {
    tracker: MappingTracker,
    wanted: BTreeMap<String, Uuid>,
    pub(crate) parameters: Parameters,
    /// Finished mappings that Redis has not acknowledged yet.
    unacknowledged: Vec<Uuid>,
}

impl ControllerState {
    /// Restores the state after a restart of the actor.
    pub(crate) fn resumed(mappings: Mappings) -> Self {
        Self {
            tracker: MappingTracker::resumed(mappings.current.uuid, mappings.former),
            wanted: BTreeMap::new(),
            parameters: Parameters::default(),
            unacknowledged: Vec::new(),
        }
    }

    /// The current mapping.
    pub(crate) fn mapping(&self) -> Option<Uuid> {
        self.tracker.mapping()
    }

    /// Returns true while a parameter is missing or a `finished` is still_pending.
    pub(crate) fn has_pending_requests(&self) -> bool {
        !self.unacknowledged.is_empty() || !self.parameters.missing(&self.wanted).is_empty()
    }

    /// Fetches the parameters of an update and returns its remaining actions.
    pub(crate) async fn take(
        mut self,
        update: &ControllerUpdate,
        handles: &Handles,
    ) -> (Self, UpdateActions) {
        self.wanted.clone_from(&update.parameters_version);
        self.fetch(handles).await;
        let names: Vec<&str> = handles.streams.iter().map(|stream| &*stream.name).collect();
        let actions = self.tracker.take(update, &names);
        (self, actions)
    }

    /// Finishes the mapping `uuid` and publishes that.
    pub(crate) async fn finish(mut self, uuid: Uuid, handles: &Handles) -> Self {
        if self.tracker.mapping() == Some(uuid) {
            handles.finish().await;
        }
        self.unacknowledged.push(uuid);
        self.acknowledge_finished(handles).await;
        self
    }

    /// Repeats the requests that failed before.
    pub(crate) async fn retry_pending(mut self, handles: &Handles) -> Self {
        self.fetch(handles).await;
        self.acknowledge_finished(handles).await;
        self
    }

    async fn fetch(&mut self, handles: &Handles) {
        self.parameters.keep_only(&self.wanted);
        let missing: Vec<_> = self
            .parameters
            .missing(&self.wanted)
            .into_iter()
            .map(|(name, uuid)| (name.to_owned(), uuid))
            .collect();
        for (name, uuid) in missing {
            match handles.redis(RedisAction::Parameter(name.clone(), uuid)).await {
                Ok(Some(value)) => self.parameters.hold(&name, uuid, value),
                // The controller may write it shortly; the old value stays until then.
                Ok(None) => tracing::debug!(name, %uuid, "parameter is not there yet"),
                Err(RedisFailure { text: error, refused }) => {
                    tracing::warn!(name, %uuid, error, "parameter could not be fetched; it is requested again");
                    // A key of another type does not keep the other parameters from being fetched.
                    if !refused {
                        return;
                    }
                }
            }
        }
    }

    async fn acknowledge_finished(&mut self, handles: &Handles) {
        let mut still_pending = Vec::new();
        let mut waiting = std::mem::take(&mut self.unacknowledged).into_iter();
        for uuid in waiting.by_ref() {
            let Err(RedisFailure { text: error, refused }) = handles.redis(RedisAction::Finished(uuid)).await
            else {
                continue;
            };
            tracing::warn!(%uuid, error, "`finished` could not be published; it is published again");
            still_pending.push(uuid);
            // A key of another type does not keep the other entries back.
            if !refused {
                break;
            }
        }
        still_pending.extend(waiting);
        // The controller no longer waits for the oldest ones.
        still_pending.drain(..still_pending.len().saturating_sub(FORMER_MAX));
        self.unacknowledged = still_pending;
    }
}
