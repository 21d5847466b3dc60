//! The ingester's conversation with Redis over one update: parameters first, then, after the mapping has begun, the answer to `finished`.

use std::collections::BTreeMap;

use uuid::Uuid;

use super::handles::Handles;
use crate::{
    mapping::Mappings,
    messages::{RedisAction, RedisFailure},
    parameters::Parameters,
    updates::{ControllerUpdate, FORMER_MAX, Following, Turn},
};

/// What an ingester knows of the controller.
#[derive(Clone)]
pub(crate) struct ControllerState {
    following: Following,
    wanted: BTreeMap<String, Uuid>,
    pub(crate) parameters: Parameters,
    /// Mappings whose `finished` could not be answered yet.
    unanswered: Vec<Uuid>,
}

impl ControllerState {
    /// After a restart of the actor: the mappings are known.
    pub(crate) fn resumed(mappings: Mappings) -> Self {
        Self {
            following: Following::resumed(mappings.current.uuid, mappings.former),
            wanted: BTreeMap::new(),
            parameters: Parameters::default(),
            unanswered: Vec::new(),
        }
    }

    /// The mapping that is followed.
    pub(crate) fn mapping(&self) -> Option<Uuid> {
        self.following.mapping()
    }

    /// Is there anything that Redis did not give or take yet?
    pub(crate) fn is_behind(&self) -> bool {
        !self.unanswered.is_empty() || !self.parameters.missing(&self.wanted).is_empty()
    }

    /// Fetches the parameters of an update; returns what else it asks for.
    pub(crate) async fn take(mut self, update: &ControllerUpdate, handles: &Handles) -> (Self, Turn) {
        self.wanted.clone_from(&update.parameters_version);
        self.fetch(handles).await;
        let names: Vec<&str> = handles.streams.iter().map(|stream| &*stream.name).collect();
        let turn = self.following.take(update, &names);
        (self, turn)
    }

    /// Answers `finished`.
    pub(crate) async fn finish(mut self, uuid: Uuid, handles: &Handles) -> Self {
        if self.following.mapping() == Some(uuid) {
            handles.finish().await;
        }
        self.unanswered.push(uuid);
        self.answer(handles).await;
        self
    }

    /// Once more what could not be had or said.
    pub(crate) async fn caught_up(mut self, handles: &Handles) -> Self {
        self.fetch(handles).await;
        self.answer(handles).await;
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
                // It may come in a moment; the old one stays until then.
                Ok(None) => tracing::debug!(name, %uuid, "parameter is not there yet"),
                Err(RedisFailure { text: error, refused }) => {
                    tracing::warn!(name, %uuid, error, "parameter was not fetched");
                    // One whose key is of another type keeps none of the others away.
                    if !refused {
                        return;
                    }
                }
            }
        }
    }

    async fn answer(&mut self, handles: &Handles) {
        let mut still = Vec::new();
        let mut waiting = std::mem::take(&mut self.unanswered).into_iter();
        for uuid in waiting.by_ref() {
            let Err(RedisFailure { text: error, refused }) = handles.redis(RedisAction::Finished(uuid)).await
            else {
                continue;
            };
            tracing::warn!(%uuid, error, "that the mapping is finished was not said: it is said again");
            still.push(uuid);
            // One whose key is of another type keeps none of the others back.
            if !refused {
                break;
            }
        }
        still.extend(waiting);
        // Nobody waits for the oldest of so many.
        still.drain(..still.len().saturating_sub(FORMER_MAX));
        self.unanswered = still;
    }
}
