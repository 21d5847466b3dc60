//! Handles of the actor Ingester on its siblings.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use orchestrator_edge::PeerError;
use orchestrator_observe::millis;
use orchestrator_subsystem::DETAIL;
use orchestrator_supervise::{AskError, ChildRef, Durable, DurableView, Outbox, Recipient, reply};
use orchestrator_text::sanitize;
use tokio::time::timeout;
use uuid::Uuid;

use super::controller_requests::ControllerRequests;
use crate::{
    edge::{
        dump::DumpCommand,
        egress::{Egress, PeerState},
        jobs::JobCommand,
    },
    explain::History,
    mapping::Mappings,
    messages::{LocateEvent, MappingFinished, RedisAction, RedisCommand},
    on_finished::{FinishedMapping, OnFinished},
    stream_queue::StreamQueues,
    verbs::WorkerRow,
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
    /// Events that the scans have sent since the process started.
    pub(crate) sent: DurableView<u64>,
    pub(crate) work: Recipient<MappingFinished>,
    /// Inboxes of the streams' children, by position.
    pub(crate) finished_outboxes: Arc<[Outbox<MappingFinished>]>,
    pub(crate) redis: Outbox<RedisCommand>,
    pub(crate) dump: Outbox<DumpCommand>,
    /// Records of mappings that become jobs of the queue, if any do.
    pub(crate) jobs: Option<Outbox<JobCommand>>,
    /// Job of each of them.
    pub(crate) on_finished: Option<OnFinished>,
    /// Counts of former mappings, for operators.
    pub(crate) history: Durable<History>,
    pub(crate) locate: Recipient<LocateEvent>,
    /// Last entry of the current mapping's assignments.
    pub(crate) last_entry: crate::edge::redis::LastEntry,
    /// Number of the last mapping whose scan was interrupted.
    pub(crate) interrupted: DurableView<u64>,
    pub(crate) egress: Egress,
    /// Supervisor that is restarted at a new mapping.
    pub(crate) scan: ChildRef,
    /// Child with the connection to Redis.
    pub(crate) redis_child: ChildRef,
    /// Last handled update.
    pub(crate) position: crate::edge::redis::Position,
    /// Address of Redis without credentials.
    pub(crate) redis_endpoint: Arc<str>,
    /// Options of `redis-cli` for it.
    pub(crate) redis_cli: Arc<str>,
    /// File for the dumps of all mappings.
    pub(crate) dump_path: Option<String>,
}

impl Handles {
    pub(super) async fn redis(&self, action: RedisAction) -> Result<Option<Bytes>, PeerError> {
        let failure = |text: &str| Err(PeerError::lost(text));
        match self.redis.ask(|reply| RedisCommand { action, reply }, REDIS_TIMEOUT).await {
            Ok(outcome) => outcome,
            Err(AskError::Full(_)) => failure("too many commands wait for redis"),
            Err(_) => failure("redis did not answer in time"),
        }
    }

    /// UUID of the current mapping; None before the first.
    pub(super) fn mapping(&self) -> Option<Uuid> {
        self.mappings.lock().current.uuid
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
        let events = self.sent.get().saturating_sub(self.mappings.lock().current.sent_before);
        let mapping = self.mapping();
        tracing::debug!(target: DETAIL, mapping = mapping.as_ref().map(tracing::field::display), number, events, "the scan has ended");
        self.record_end().await;
    }

    /// Records the beginning of a mapping, if it may become a job. A slow disk does not delay the scan for
    /// long.
    pub(super) async fn record_begin(&self, uuid: Uuid, is_last_update: bool) {
        let Some(jobs) = &self.jobs else { return };
        let recorded = jobs.ask(|reply| JobCommand::Begin(uuid, is_last_update, reply), FINISH_TIMEOUT);
        if let Err(error) = recorded.await {
            tracing::warn!(%uuid, %error, "the beginning of a mapping is not recorded yet");
        }
    }

    /// Records the end of the current mapping, if it may become a job.
    async fn record_end(&self) {
        let Some(jobs) = &self.jobs else { return };
        let Some(mapping) = self.finished_mapping() else { return };
        let uuid = mapping.uuid;
        if let Err(error) = jobs.ask(|reply| JobCommand::End(mapping, reply), FINISH_TIMEOUT).await {
            tracing::warn!(%uuid, %error, "the end of a mapping is not recorded yet");
        }
    }

    /// The current mapping, as if it ended now.
    pub(super) fn finished_mapping(&self) -> Option<FinishedMapping> {
        let current = self.mappings.lock().current.clone();
        Some(FinishedMapping {
            uuid: current.uuid?,
            dump: current.dump,
            events: self.sent.get().saturating_sub(current.sent_before),
            is_whole: self.interrupted.get() != current.number,
        })
    }

    /// State of each known worker, by name.
    pub(super) fn peers(&self) -> Vec<WorkerRow> {
        let mut peers = self.egress.peers();
        peers.sort_by(|a, b| a.worker.cmp(&b.worker));
        let row = |peer: PeerState| WorkerRow {
            worker: sanitize(&*peer.worker),
            connected: peer.connected,
            events: peer.events_out,
            bytes: peer.bytes_out,
            queued_messages: peer.queued_messages as u64,
            queued_bytes: peer.queued_bytes as u64,
            spilled_bytes: peer.spilled_bytes,
            oldest_ms: peer.oldest_age.map(millis),
        };
        peers.into_iter().map(row).collect()
    }
}
