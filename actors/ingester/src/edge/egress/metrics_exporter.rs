//! Metrics of the workers' queues: sums, and metrics of each worker.

use std::{collections::BTreeSet, sync::Arc};

use orchestrator_observe::metrics;
use orchestrator_supervise::Vitals;
use orchestrator_text::sanitize;

use super::{Egress, peer_state::PeerState, slow_worker::WorkerCause};

/// Label of a worker's metrics.
const LABEL: &str = "worker";

metrics! {
    /// Sums over all workers.
    struct EgressMetrics {
        /// Bytes queued in memory for workers.
        queued_bytes: gauge("bytes") as "egress_queued_bytes",
        /// Bytes on disk for workers.
        spilled_bytes: gauge("bytes"),
        /// Connections of workers reset at a new mapping.
        resets: counter("") as "connections_reset",
    }
}

metrics! {
    /// Metrics of one worker.
    struct WorkerMetrics by "worker" {
        /// 1 while the worker is connected.
        connected: gauge("") as "worker_connected",
        /// Events sent to the worker.
        events: counter("events") as "worker_events",
        /// Bytes sent to the worker.
        sent: counter("bytes") as "worker_sent",
        /// Bytes queued in memory for the worker.
        queued: gauge("bytes") as "worker_queued",
        /// Bytes on disk for the worker.
        spilled: gauge("bytes") as "worker_spilled",
        /// Waiting time of the oldest event queued in memory for the worker.
        oldest: gauge("milliseconds") as "worker_oldest",
    }
}

/// Updates the metrics of queues and connections.
pub(super) struct MetricsExporter {
    vitals: Arc<Vitals>,
    metrics: EgressMetrics,
    /// Resets already counted by the metric.
    resets_counted: u64,
    labels: BTreeSet<Arc<str>>,
    /// Upper bound of one worker's queue, bytes.
    bytes_per_peer: u64,
    /// Events sent to the known workers.
    events_sent: u64,
}

impl MetricsExporter {
    pub(super) fn new(egress: &Egress, vitals: &Arc<Vitals>) -> Self {
        vitals.set_work_unit("event");
        Self {
            vitals: vitals.clone(),
            metrics: EgressMetrics::register(vitals),
            resets_counted: egress.lock().resets,
            labels: BTreeSet::new(),
            bytes_per_peer: egress.inner.limits.bytes_per_peer as u64,
            events_sent: 0,
        }
    }

    pub(super) fn refresh(&mut self, egress: &Egress) {
        let (totals, resets) = {
            let peers = egress.lock();
            (peers.totals(), peers.resets)
        };
        self.metrics.queued_bytes.set(totals.queued_bytes);
        self.metrics.spilled_bytes.set(totals.spilled_bytes);
        self.metrics.resets.add(resets - self.resets_counted);
        self.resets_counted = resets;
        self.vitals.set_work_waits(totals.queued_bytes > 0 || totals.spilled_bytes > 0);
        let states = egress.peers();
        let events_sent = states.iter().map(|state| state.events_out).sum();
        if events_sent > self.events_sent {
            self.vitals.record_work();
        }
        self.events_sent = events_sent;
        match egress.held_up(&states) {
            Some(WorkerCause { kind, text, evidence, help }) => {
                self.vitals.set_blocker_with(kind, text, &evidence, help);
            }
            None => self.vitals.clear_blocker(),
        }
        // Worker names come from the network.
        let named = |state: &PeerState| -> Arc<str> { sanitize(&*state.worker).into() };
        let known: BTreeSet<_> = states.iter().map(named).collect();
        for gone in self.labels.difference(&known) {
            self.vitals.unregister_labelled((LABEL, gone));
        }
        self.labels = known;
        states.iter().for_each(|state| self.set_metrics(&named(state), state));
    }

    fn set_metrics(&self, worker: &str, state: &PeerState) {
        let metrics = WorkerMetrics::register(&self.vitals, worker);
        let oldest = state.oldest_age.unwrap_or_default().as_millis();
        metrics.connected.set(state.connected.into());
        metrics.events.set(state.events_out);
        metrics.sent.set(state.bytes_out);
        metrics.queued.set(state.queued_bytes as u64);
        metrics.queued.set_bound(self.bytes_per_peer);
        metrics.spilled.set(state.spilled_bytes);
        metrics.oldest.set(u64::try_from(oldest).unwrap_or(u64::MAX));
    }
}
