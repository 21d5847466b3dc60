//! The actor's handles on the other children of its ingester.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use orchestrator_supervise::{
    AskError, CommandError, Durable, NodeSnapshot, Origin, Outbox, Recipient, Tree, reply, sanitize,
};
use serde_json::{Map, Value, json};
use tokio::time::timeout;
use uuid::Uuid;

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
const REDIS: Duration = Duration::from_secs(3);
/// Longest wait of an answer to `finished` for the dump file, and for Work.
const END: Duration = Duration::from_secs(2);

/// The handles. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Handles {
    pub(crate) streams: StreamQueues,
    pub(crate) mappings: Durable<Mappings>,
    pub(crate) work: Recipient<MappingFinished>,
    /// To the children of the streams, by position.
    pub(crate) ends: Arc<[Outbox<MappingFinished>]>,
    pub(crate) redis: Outbox<RedisCommand>,
    pub(crate) dump: Outbox<DumpCommand>,
    pub(crate) egress: Egress,
    /// One file for all mappings.
    pub(crate) dump_path: Option<String>,
    /// The ingester's name, for files.
    pub(crate) name: Arc<str>,
    pub(crate) tree: Tree,
    /// Path of the group that is restarted at a new mapping.
    pub(crate) scan_path: String,
}

impl Handles {
    pub(super) async fn redis(&self, action: RedisAction) -> Result<Option<Bytes>, RedisFailure> {
        let failure = |text: &str| Err(RedisFailure { text: text.to_owned(), refused: false });
        match self.redis.ask(|reply| RedisCommand { action, reply }, REDIS).await {
            Ok(outcome) => outcome,
            Err(AskError::Full(_)) => failure("too many commands wait for redis"),
            Err(_) => failure("redis did not answer in time"),
        }
    }

    /// Asks for the planned restart: the former mapping's work and assignments end, the new one's begin.
    pub(super) fn request_scan(&self, mapping: Uuid) -> Result<(), CommandError> {
        let origin = Origin { by: "ingester".to_owned(), reason: format!("mapping {mapping}") };
        self.tree.request_restart(&self.scan_path, &origin)
    }

    /// Ends the mapping that is followed: none of its events is sent, and its dump is closed, when this returns.
    pub(super) async fn finish(&self) {
        let (number, active) = self.mappings.update(|mappings| {
            mappings.current.finished = true;
            (mappings.current.number, mappings.current.active.clone())
        });
        let finished = MappingFinished { mapping: number };
        for stream in active {
            // A child that is started again meanwhile finds the mapping finished.
            let _ = self.ends[stream].tell(finished);
        }
        // So does a Work that is lost meanwhile.
        let _ = self.work.ask(finished, END).await;
        let (closed, answer) = reply();
        // A dump that is behind does not hold up the scan; it goes on writing.
        if timeout(END, self.dump.send(DumpCommand::Close(closed))).await.is_ok() {
            let _ = timeout(END, answer).await;
        }
    }

    /// Events that were sent since the process started, over all mappings; and what is told of the streams beside the original's fields.
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

    /// State of each worker that something is sent to, or that is connected.
    pub(super) fn peers(&self) -> Vec<Value> {
        let mut peers = self.egress.peers();
        peers.sort_by(|a, b| a.worker.cmp(&b.worker));
        let told = |peer: PeerState| {
            json!({
                "worker": sanitize(&*peer.worker), "connected": peer.connected, "queued_bytes": peer.queued_bytes,
                "queued_messages": peer.queued_messages, "spilled_bytes": peer.spilled_bytes,
                "events": peer.events_out, "bytes": peer.bytes_out,
                "oldest_ms": peer.oldest_age.map(millis),
            })
        };
        peers.into_iter().map(told).collect()
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
