//! Requests to Redis for one update: parameters first, then, after the mapping has started, the
//! answer to `finished`.

use orchestrator_edge::PeerErrorKind;
use orchestrator_supervise::Durable;
use uuid::Uuid;

use super::{controller_requests::ControllerRequests, handles::Handles};
use crate::{messages::RedisAction, parameters::Parameters, updates::ControllerUpdate};

/// State of the controller as known to an ingester.
#[derive(Clone)]
pub(crate) struct ControllerState {
    requests: Durable<ControllerRequests>,
    pub(crate) parameters: Parameters,
}

impl ControllerState {
    /// Restores the state after a restart of the actor. The parameters are fetched again.
    pub(crate) fn resumed(requests: Durable<ControllerRequests>) -> Self {
        Self { requests, parameters: Parameters::default() }
    }

    /// True while a parameter is missing or a `finished` is not acknowledged.
    pub(crate) fn has_pending_requests(&self) -> bool {
        let requests = self.requests.lock();
        !requests.unacknowledged.is_empty() || !self.parameters.missing(&requests.wanted).is_empty()
    }

    /// Fetches the parameters of an update.
    pub(crate) async fn take(mut self, update: &ControllerUpdate, handles: &Handles) -> Self {
        self.requests.update(|requests| requests.wanted.clone_from(&update.parameters_version));
        self.fetch(handles).await;
        self
    }

    /// Finishes the mapping `uuid` and publishes that.
    pub(crate) async fn finish(self, uuid: Uuid, handles: &Handles) -> Self {
        if handles.mapping() == Some(uuid) {
            handles.finish().await;
        }
        self.requests.update(|requests| requests.finish(uuid));
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
        let wanted = self.requests.get().wanted;
        self.parameters.keep_only(&wanted);
        let missing: Vec<_> = self
            .parameters
            .missing(&wanted)
            .into_iter()
            .map(|(name, uuid)| (name.to_owned(), uuid))
            .collect();
        for (name, uuid) in missing {
            match handles.redis(RedisAction::Parameter(name.clone(), uuid)).await {
                Ok(Some(value)) => self.parameters.hold(&name, uuid, value),
                // The controller may write it shortly; the old value stays until then.
                Ok(None) => tracing::debug!(name, %uuid, "parameter is not there yet"),
                Err(error) => {
                    tracing::warn!(name, %uuid, %error, "parameter could not be fetched; it is requested again");
                    // A key of another type does not keep the other parameters from being fetched.
                    if error.kind != PeerErrorKind::Refused {
                        return;
                    }
                }
            }
        }
    }

    async fn acknowledge_finished(&self, handles: &Handles) {
        for uuid in self.requests.get().unacknowledged {
            match handles.redis(RedisAction::Finished(uuid)).await {
                Ok(_) => self.requests.update(|requests| requests.acknowledge(uuid)),
                Err(error) => {
                    tracing::warn!(%uuid, %error, "`finished` could not be published; it is published again");
                    // A key of another type does not keep the other entries back.
                    if error.kind != PeerErrorKind::Refused {
                        return;
                    }
                }
            }
        }
    }
}
