//! Handles of the actor Ingester on its siblings.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use orchestrator_supervise::{
    AskError, CommandError, Durable, NodeSnapshot, Origin, Outbox, Recipient, Tree, reply, sanitize,
};
use serde_json::{Map, Value, json};
use tokio::time::timeout;
use uuid::Uuid;

use super::controller_requests::ControllerRequests;
use crate::{
    edge::{
        dump::DumpCommand,
        egress::{Egress, PeerState},
    },
    mapping::Mappings,
    messages::{MappingFinished, RedisAction, RedisCommand, RedisFailure},
    stream_queue::StreamQueues,
};

/// Time-out of a command to Redis.
const REDIS_TIMEOUT: Duration = Duration::from_secs(3);
/// Longest delay of the answer to `finished` by the dump, and by Work.
const FINISH_TIMEOUT: Duration = Duration::from_secs(2);

/// The handles. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Handles {
    pub(crate) streams: StreamQueues,
    pub(crate) mappings: Durable<Mappings>,
    pub(crate) requests: Durable<ControllerRequests>,
    pub(crate) work: Recipient<MappingFinished>,
    /// Inboxes of the streams' children, by position.
    pub(crate) finished_outboxes: Arc<[Outbox<MappingFinished>]>,
    pub(crate) redis: Outbox<RedisCommand>,
    pub(crate) dump: Outbox<DumpCommand>,
    pub(crate) egress: Egress,
    /// Address of Redis without credentials.
    pub(crate) redis_endpoint: Arc<str>,
    /// Options of `redis-cli` for it.
    pub(crate) redis_cli: Arc<str>,
    /// File for the dumps of all mappings.
    pub(crate) dump_path: Option<String>,
    /// Name of the ingester, part of dump file names.
    pub(crate) name: Arc<str>,
    pub(crate) tree: Tree,
    /// Path of the supervisor that is restarted at a new mapping.
    pub(crate) scan_path: String,
}

impl Handles {
    pub(super) async fn redis(&self, action: RedisAction) -> Result<Option<Bytes>, RedisFailure> {
        let failure = |text: &str| Err(RedisFailure { text: text.to_owned(), refused: false });
        match self.redis.ask(|reply| RedisCommand { action, reply }, REDIS_TIMEOUT).await {
            Ok(outcome) => outcome,
            Err(AskError::Full(_)) => failure("too many commands wait for redis"),
            Err(_) => failure("redis did not answer in time"),
        }
    }

    /// Requests the planned restart of the scan for `mapping`.
    pub(super) fn request_scan(&self, mapping: Uuid) -> Result<(), CommandError> {
        let origin = Origin { by: "ingester".to_owned(), reason: format!("mapping {mapping}") };
        self.tree.request_restart(&self.scan_path, &origin)
    }

    /// Marks the current mapping finished. When this returns, none of its events is sent any more
    /// and its dump is closed.
    pub(super) async fn finish(&self) {
        let (number, active) = self.mappings.update(|mappings| {
            mappings.current.finished = true;
            (mappings.current.number, mappings.current.active.clone())
        });
        let finished = MappingFinished { mapping: number };
        for stream in active {
            // A child that restarts meanwhile reads `finished` from the mappings.
            let _ = self.finished_outboxes[stream].tell(finished);
        }
        // Work reads it from the mappings, too, if it restarts.
        let _ = self.work.ask(finished, FINISH_TIMEOUT).await;
        let (closed, answer) = reply();
        // A slow dump does not delay the scan; it closes its file later.
        if timeout(FINISH_TIMEOUT, self.dump.send(DumpCommand::Close(closed))).await.is_ok() {
            let _ = timeout(FINISH_TIMEOUT, answer).await;
        }
    }

    /// Returns the events sent since the process started, and the streams' metrics for the member
    /// `orchestrator`.
    pub(super) fn metrics(&self) -> (u64, Value) {
        let nodes = self.tree.node(&self.scan_path).map(|node| node.children).unwrap_or_default();
        let work = nodes.iter().find(|node| node.id == "work");
        let events = work.and_then(|node| node.metrics.iter().find(|metric| metric.name == "events"));
        let events = events.and_then(|metric| u64::try_from(metric.value).ok()).unwrap_or_default();
        let stream = |node: NodeSnapshot| {
            let name = node.label.filter(|_| node.id.starts_with("stream_"))?;
            let metrics = node.metrics.into_iter().filter(|metric| metric.label.is_none());
            let metrics: Map<_, _> = metrics.map(|metric| (metric.name, json!(metric.value))).collect();
            Some((name, Value::from(metrics)))
        };
        let streams: Map<_, _> = nodes.into_iter().filter_map(stream).collect();
        (events, json!({ "streams": streams }))
    }

    /// State of each known worker, by name.
    pub(super) fn peers(&self) -> Vec<Value> {
        let mut peers = self.egress.peers();
        peers.sort_by(|a, b| a.worker.cmp(&b.worker));
        let reason = |peer: PeerState| {
            json!({
                "worker": sanitize(&*peer.worker), "connected": peer.connected, "queued_bytes": peer.queued_bytes,
                "queued_messages": peer.queued_messages, "spilled_bytes": peer.spilled_bytes,
                "events": peer.events_out, "bytes": peer.bytes_out,
                "oldest_ms": peer.oldest_age.map(millis),
            })
        };
        peers.into_iter().map(reason).collect()
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
