//! The actor Ingester: follows the controller, holds parameters, restarts the scan at a new
//! mapping, answers `finished`, and publishes the ingester's state (CONTRACT ID01, IO01 to IO07,
//! IO12).

mod controller_requests;
mod controller_state;
mod explanations;
mod handles;
mod no_mapping;
mod stage;
mod updates_in_progress;

use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};

use orchestrator_observe::{NodeSnapshot, metrics};
use orchestrator_subsystem::{Answered, ConsoleError, Explain, Verbs, route::Each};
use orchestrator_supervise::{Child, ChildCx, CommandError, Handle, Handled, Origin, StartCx, Tree};
use orchestrator_text::sanitize;
use serde_json::{Map, Value, json};
use uuid::Uuid;

pub(crate) use self::{
    controller_requests::ControllerRequests, handles::Handles, updates_in_progress::SOURCES_TIMEOUT,
};
use self::{
    controller_state::ControllerState,
    stage::{Batch, Stage},
};
use crate::{
    ingester_state::{BuildMeta, DRANSPOSE_VERSION, IngesterState, Rate},
    messages::{RedisAction, RedisCommand, ScanStarted, SourceReady, UpdatesArrived, WorkersSeen},
    roster::Roster,
    verbs::{IngesterStatus, PublishedState, Status},
};

/// Interval between two publications of the configuration key; 1.3 s at most (CONTRACT ID01).
pub(crate) const HEARTBEAT: Duration = Duration::from_secs(1);

/// Published identity of an ingester.
#[derive(Debug, Clone)]
pub(crate) struct Identity {
    pub(crate) name: Arc<str>,
    /// Address that workers dial, `tcp://host:port`.
    pub(crate) url: String,
    pub(crate) service_uuid: Uuid,
    pub(crate) build: Option<BuildMeta>,
}

metrics! {
    /// Metrics of the actor Ingester.
    struct IngesterMetrics {
        /// Mappings started.
        mappings: counter("mappings"),
        /// Publications by another ingester under the same name.
        name_conflicts: counter("") as "name_conflicts",
    }
}

/// The actor Ingester.
pub(crate) struct Ingester {
    identity: Arc<Identity>,
    handles: Handles,
    tree: Tree,
    /// State after the last answered request to Redis.
    controller: ControllerState,
    /// Mapping for which the scan has started.
    mapping: Option<Uuid>,
    /// Updates that are not yet handled.
    batches: VecDeque<Batch>,
    stage: Stage,
    workers: Roster,
    rate: Rate,
    /// This process has written the configuration key.
    published: bool,
    metrics: IngesterMetrics,
}

impl Ingester {
    pub(crate) fn new(identity: Arc<Identity>, handles: Handles, cx: &StartCx) -> Self {
        Self {
            identity,
            tree: cx.tree.clone(),
            controller: ControllerState::resumed(handles.requests.clone()),
            mapping: handles.mapping(),
            handles,
            batches: VecDeque::new(),
            stage: Stage::Idle,
            workers: Roster::default(),
            rate: Rate::default(),
            published: false,
            metrics: IngesterMetrics::register(&cx.vitals),
        }
    }

    /// Requests the planned restart of the scan for `mapping`.
    fn restart_scan(&self, mapping: Uuid) -> Result<(), CommandError> {
        let origin = Origin { by: "ingester".to_owned(), reason: format!("mapping {mapping}") };
        self.tree.request_restart(self.handles.scan.path(), &origin)
    }

    /// For the member `orchestrator`.
    fn stream_metrics(&self) -> Value {
        let nodes = self.tree.node(self.handles.scan.path()).map(|node| node.children).unwrap_or_default();
        let stream = |node: NodeSnapshot| {
            let name = node.label.filter(|_| node.id.starts_with("stream_"))?;
            let metrics = node.metrics.into_iter().filter(|metric| metric.label.is_none());
            let metrics: Map<_, _> = metrics.map(|metric| (metric.name, json!(metric.value))).collect();
            Some((name, Value::from(metrics)))
        };
        let streams: Map<_, _> = nodes.into_iter().filter_map(stream).collect();
        json!({ "streams": streams })
    }

    fn ingester_state(&mut self) -> Vec<u8> {
        let events = self.handles.sent.get();
        let ingester_state = IngesterState {
            service_uuid: self.identity.service_uuid,
            mapping_uuid: self.mapping,
            dranspose_version: DRANSPOSE_VERSION,
            mapreduce_version: self.identity.build.as_ref(),
            parameters_hash: self.controller.parameters.hash(),
            processed_events: events,
            event_rate: self.rate.update(Instant::now(), events),
            name: &self.identity.name,
            url: &self.identity.url,
            connected_workers: self.workers.workers(),
            streams: self.handles.streams.iter().map(|stream| stream.name.clone()).collect(),
            orchestrator: self.stream_metrics(),
        };
        // Strings, numbers and UUIDs always serialize.
        serde_json::to_vec(&ingester_state).unwrap_or_default()
    }

    /// Publishes the configuration key. If Redis refuses, the next heartbeat publishes it.
    fn publish(&mut self, cx: &mut ChildCx<'_, Self>) {
        let action = RedisAction::Publish(self.ingester_state());
        let Ok(answer) = self.handles.redis.request(|reply| RedisCommand { action, reply }) else { return };
        cx.spawn(answer, |ingester, answer, cx| {
            let Ok(Ok(before)) = answer else { return };
            let ours = format!(r#"{{"service_uuid":"{}""#, ingester.identity.service_uuid);
            let name_conflicts = before.is_some_and(|before| !before.starts_with(ours.as_bytes()));
            if name_conflicts && ingester.published {
                ingester.metrics.name_conflicts.add(1);
                let name = &ingester.identity.name;
                let text = format!("another ingester publishes under the name {name}: rename one of them");
                tracing::warn!(path = cx.vitals().path(), text);
                cx.vitals().note(text);
            }
            ingester.published = true;
        });
    }

    /// Requests missing parameters and unacknowledged `finished` entries again.
    fn retry_pending(&mut self, cx: &mut ChildCx<'_, Self>) {
        if self.stage != Stage::Idle || !self.controller.has_pending_requests() {
            return;
        }
        self.stage = Stage::Redis;
        let (handles, controller) = (self.handles.clone(), self.controller.clone());
        cx.spawn(async move { controller.retry_pending(&handles).await }, |ingester, controller, cx| {
            ingester.controller = controller;
            ingester.stage = Stage::Idle;
            ingester.publish(cx);
            ingester.process_next(cx);
        });
    }

    pub(crate) fn verbs() -> Verbs<Self> {
        Verbs::default().by::<Each, Status>().without_command::<Explain>()
    }

    fn status(&mut self) -> Answered<Status> {
        let refused = |error: serde_json::Error| ConsoleError::Refused(error.to_string());
        let mut state: PublishedState = serde_json::from_slice(&self.ingester_state()).map_err(refused)?;
        // Worker names come from the network: they are escaped for the console only.
        state.connected_workers.values_mut().for_each(|worker| worker.name = sanitize(&worker.name));
        let pending_requests = self.controller.has_pending_requests();
        Ok(IngesterStatus { state, pending_requests, workers: self.handles.peers() })
    }
}

impl Child for Ingester {
    fn started(&mut self, cx: &mut ChildCx<'_, Self>) {
        self.publish(cx);
        self.retry_pending(cx);
        cx.every(HEARTBEAT, |ingester, cx| {
            ingester.report_mapping(cx.vitals());
            ingester.publish(cx);
            ingester.retry_pending(cx);
        });
    }
}

impl Handle<UpdatesArrived> for Ingester {
    fn handle(
        &mut self,
        UpdatesArrived(updates): UpdatesArrived,
        cx: &mut ChildCx<'_, Self>,
    ) -> Handled<Self, bool> {
        let (reply, answer) = Handled::later();
        self.batches.push_back(Batch::new(updates, reply));
        self.process_next(cx);
        answer
    }
}

impl Handle<ScanStarted> for Ingester {
    fn handle(&mut self, started: ScanStarted, cx: &mut ChildCx<'_, Self>) -> Handled<Self, ()> {
        self.scan_started(started, cx);
        Handled::done()
    }
}

impl Handle<SourceReady> for Ingester {
    fn handle(&mut self, ready: SourceReady, cx: &mut ChildCx<'_, Self>) -> Handled<Self, ()> {
        self.source_ready(ready, cx);
        Handled::done()
    }
}

impl Handle<WorkersSeen> for Ingester {
    fn handle(&mut self, seen: WorkersSeen, cx: &mut ChildCx<'_, Self>) -> Handled<Self, ()> {
        self.workers = seen.workers;
        if seen.changed {
            self.publish(cx);
        }
        Handled::done()
    }
}

/// Console of the ingester: `POST /v1/consoles/ingester/<name>/ingester/status`.
impl Handle<Status> for Ingester {
    fn handle(&mut self, _: Status, _: &mut ChildCx<'_, Self>) -> Handled<Self, Answered<Status>> {
        Handled::now(self.status())
    }
}
