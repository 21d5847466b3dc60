//! The actor Ingester: follows the controller, holds parameters, asks for the planned restart at a new mapping, answers `finished`,
//! and lets itself be known (CONTRACT ID01, IO01 to IO07, IO12).

mod handles;
mod handling;
mod stage;
mod steps;

use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};

use orchestrator_supervise::{
    Answer, Child, ChildCx, ConsoleError, ConsoleReply, ConsoleRequest, Handle, StartCx, metrics, sanitize,
};
use serde_json::{Value, json};
use uuid::Uuid;

pub(crate) use self::handles::Handles;
use self::{
    stage::{Batch, Stage},
    steps::ControllerState,
};
use crate::{
    messages::{RedisAction, RedisCommand, ScanStarted, SourceReady, UpdatesArrived, WorkersSeen},
    presence::{BuildMeta, DRANSPOSE_VERSION, Presence, Rate},
    roster::Roster,
};

/// Interval at which it publishes itself: at least every 1.3 s (CONTRACT ID01).
const HEARTBEAT: Duration = Duration::from_secs(1);

/// Who this ingester is.
#[derive(Debug, Clone)]
pub(crate) struct Identity {
    pub(crate) name: Arc<str>,
    /// Where workers dial it, `tcp://host:port`.
    pub(crate) url: String,
    pub(crate) service_uuid: Uuid,
    pub(crate) build: Option<BuildMeta>,
}

metrics! {
    /// Metrics of the actor.
    struct IngesterMetrics {
        /// Mappings begun.
        mappings: counter("mappings"),
        /// Times that another ingester had published under the same name.
        foreign: counter("") as "foreign_publications",
    }
}

/// The actor.
pub(crate) struct Ingester {
    identity: Arc<Identity>,
    handles: Handles,
    /// As of the last request to Redis that was answered.
    controller: ControllerState,
    /// The mapping that everything is ready for.
    mapping: Option<Uuid>,
    /// Updates that are not handled yet.
    batches: VecDeque<Batch>,
    stage: Stage,
    workers: Roster,
    rate: Rate,
    /// The key has been written by this process.
    published: bool,
    metrics: IngesterMetrics,
}

impl Ingester {
    pub(crate) fn new(identity: Arc<Identity>, handles: Handles, cx: &StartCx) -> Self {
        let controller = ControllerState::resumed(handles.mappings.get());
        Self {
            identity,
            handles,
            mapping: controller.mapping(),
            controller,
            batches: VecDeque::new(),
            stage: Stage::Idle,
            workers: Roster::default(),
            rate: Rate::default(),
            published: false,
            metrics: IngesterMetrics::register(&cx.vitals),
        }
    }

    fn presence(&mut self) -> Vec<u8> {
        let (events, metrics) = self.handles.metrics();
        let presence = Presence {
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
            orchestrator: metrics,
        };
        // Strings, numbers and uuids cannot fail to be written.
        serde_json::to_vec(&presence).unwrap_or_default()
    }

    /// Publishes at once. What Redis does not take now, it gets with the next heartbeat.
    fn publish(&mut self, cx: &mut ChildCx<'_, Self>) {
        let action = RedisAction::Publish(self.presence());
        let Ok(answer) = self.handles.redis.request(|reply| RedisCommand { action, reply }) else { return };
        cx.spawn(answer, |ingester, answer, cx| {
            let Ok(Ok(before)) = answer else { return };
            let ours = format!(r#"{{"service_uuid":"{}""#, ingester.identity.service_uuid);
            let foreign = before.is_some_and(|before| !before.starts_with(ours.as_bytes()));
            if foreign && ingester.published {
                ingester.metrics.foreign.add(1);
                let name = &ingester.identity.name;
                let text = format!("another ingester publishes as {name}: give one of them another name");
                tracing::warn!(path = cx.vitals().path(), text);
                cx.vitals().note(text);
            }
            ingester.published = true;
        });
    }

    /// Parameters that were not there when they were asked for are asked for again.
    fn fetch_missing(&mut self, cx: &mut ChildCx<'_, Self>) {
        if self.stage != Stage::Idle || !self.controller.is_behind() {
            return;
        }
        self.stage = Stage::Redis;
        let (handles, controller) = (self.handles.clone(), self.controller.clone());
        cx.spawn(async move { controller.caught_up(&handles).await }, |ingester, controller, cx| {
            ingester.controller = controller;
            ingester.stage = Stage::Idle;
            ingester.publish(cx);
            ingester.proceed(cx);
        });
    }

    fn status(&mut self) -> Value {
        let mut presence: Value = serde_json::from_slice(&self.presence()).unwrap_or_default();
        // Names are the workers' own: they are escaped here, and in the key they are as they are.
        for worker in presence["connected_workers"].as_object_mut().into_iter().flatten() {
            worker.1["name"] = worker.1["name"].as_str().map(sanitize).into();
        }
        json!({ "presence": presence, "behind": self.controller.is_behind(), "workers": self.handles.peers() })
    }
}

impl Child for Ingester {
    fn started(&mut self, cx: &mut ChildCx<'_, Self>) {
        self.publish(cx);
        cx.every(HEARTBEAT, |ingester, cx| {
            ingester.publish(cx);
            ingester.fetch_missing(cx);
        });
    }
}

impl Handle<UpdatesArrived> for Ingester {
    fn handle(
        &mut self,
        UpdatesArrived(updates): UpdatesArrived,
        cx: &mut ChildCx<'_, Self>,
    ) -> Answer<Self, bool> {
        let (reply, answer) = Answer::later();
        self.batches.push_back(Batch::new(updates, reply));
        self.proceed(cx);
        answer
    }
}

impl Handle<ScanStarted> for Ingester {
    fn handle(&mut self, started: ScanStarted, cx: &mut ChildCx<'_, Self>) -> Answer<Self, ()> {
        self.scan_started(started, cx);
        Answer::done()
    }
}

impl Handle<SourceReady> for Ingester {
    fn handle(&mut self, ready: SourceReady, cx: &mut ChildCx<'_, Self>) -> Answer<Self, ()> {
        self.source_ready(ready, cx);
        Answer::done()
    }
}

impl Handle<WorkersSeen> for Ingester {
    fn handle(&mut self, seen: WorkersSeen, cx: &mut ChildCx<'_, Self>) -> Answer<Self, ()> {
        self.workers = seen.workers;
        if seen.changed {
            self.publish(cx);
        }
        Answer::done()
    }
}

/// `POST /v1/consoles/ingester/<name>/ingester/status`
impl Handle<ConsoleRequest> for Ingester {
    fn handle(&mut self, request: ConsoleRequest, _cx: &mut ChildCx<'_, Self>) -> Answer<Self, ConsoleReply> {
        Answer::now(match request.verb.as_str() {
            "status" => Ok(self.status()),
            _ => Err(ConsoleError::UnknownVerb("status".to_owned())),
        })
    }
}
