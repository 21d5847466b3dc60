//! The actor Ingester: follows the controller, holds parameters, orders the planned restart at a new mapping, answers `finished`,
//! and lets itself be known (CONTRACT ID01, IO01 to IO07, IO12).

mod steps;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use orchestrator_supervise::{
    Answer, Child, ChildCx, ConsoleError, ConsoleReply, ConsoleRequest, Fault, Handle, StartCx, StopToken,
    metrics, sanitize,
};
use serde_json::{Value, json};
use uuid::Uuid;

pub(crate) use self::steps::House;
use self::steps::Ledger;
use crate::{
    messages::{RedisAction, RedisCommand, UpdatesArrived, WorkersSeen},
    presence::{BuildMeta, DRANSPOSE_VERSION, Presence, Rate},
    roster::Roster,
};

/// How often it publishes itself: at least every 1.3 s (CONTRACT ID01).
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
    house: House,
    stop: StopToken,
    /// Taken while updates are handled.
    ledger: Ledger,
    workers: Roster,
    rate: Rate,
    /// The key has been written by this process.
    published: bool,
    fetching: bool,
    metrics: IngesterMetrics,
}

impl Ingester {
    pub(crate) fn new(identity: Arc<Identity>, house: House, cx: &StartCx) -> Self {
        let ledger = Ledger::resumed(&house.scan);
        Self {
            identity,
            house,
            stop: cx.stop.clone(),
            ledger,
            workers: Roster::default(),
            rate: Rate::default(),
            published: false,
            fetching: false,
            metrics: IngesterMetrics::register(&cx.vitals),
        }
    }

    fn presence(&mut self) -> Vec<u8> {
        let scan = &self.house.scan;
        let events = scan.events();
        let presence = Presence {
            service_uuid: self.identity.service_uuid,
            mapping_uuid: self.ledger.published_mapping(),
            dranspose_version: DRANSPOSE_VERSION,
            mapreduce_version: self.identity.build.as_ref(),
            parameters_hash: self.ledger.parameters.hash(),
            processed_events: events,
            event_rate: self.rate.update(Instant::now(), events),
            name: &self.identity.name,
            url: &self.identity.url,
            connected_workers: self.workers.workers(),
            streams: scan.streams.iter().map(|stream| stream.name.clone()).collect(),
            orchestrator: self.house.figures(),
        };
        // Strings, numbers and uuids cannot fail to be written.
        serde_json::to_vec(&presence).unwrap_or_default()
    }

    /// Publishes at once. What Redis does not take now, it gets with the next heartbeat.
    fn publish(&mut self, cx: &mut ChildCx<'_, Self>) {
        let action = RedisAction::Publish(self.presence());
        let Ok(answer) = self.house.redis.request(|reply| RedisCommand { action, reply }) else { return };
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
        if self.fetching || !self.ledger.is_behind() {
            return;
        }
        self.fetching = true;
        let (house, ledger) = (self.house.clone(), self.ledger.clone());
        cx.spawn(async move { ledger.caught_up(&house).await }, |ingester, ledger, cx| {
            ingester.fetching = false;
            // Updates that came meanwhile know better.
            if ingester.ledger.wants_the_same_as(&ledger) {
                ingester.ledger.adopt(ledger);
                ingester.publish(cx);
            }
        });
    }

    fn status(&mut self) -> Value {
        let mut presence: Value = serde_json::from_slice(&self.presence()).unwrap_or_default();
        // Names are the workers' own: they are escaped here, and in the key they are as they are.
        for worker in presence["connected_workers"].as_object_mut().into_iter().flatten() {
            worker.1["name"] = worker.1["name"].as_str().map(sanitize).into();
        }
        json!({ "presence": presence, "behind": self.ledger.is_behind(), "workers": self.house.peers() })
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
    fn handle(&mut self, updates: UpdatesArrived, cx: &mut ChildCx<'_, Self>) -> Answer<Self, bool> {
        let (house, ledger, stop) = (self.house.clone(), self.ledger.clone(), self.stop.clone());
        let handling = async move {
            let mut ledger = ledger;
            for update in &updates.0 {
                ledger.take(update, &house).await?;
            }
            Ok::<Ledger, Fault>(ledger)
        };
        // Who is stopped while the scan is, too, would wait for it in vain.
        let handling = async move { stop.run_until_cancelled(handling).await };
        cx.atomically(handling, |ingester, outcome, cx| match outcome {
            Some(Ok(ledger)) => {
                ingester.metrics.mappings.add(ledger.mappings_begun() - ingester.ledger.mappings_begun());
                ingester.ledger = ledger;
                ingester.publish(cx);
                true
            }
            Some(Err(fault)) => {
                cx.fail(fault);
                false
            }
            None => false,
        })
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
