//! What the tree and the metrics show of the workers: sums, and metrics of each.

use std::{collections::BTreeSet, sync::Arc};

use orchestrator_supervise::{Vitals, metrics, sanitize};

use super::{Egress, peer_state::PeerState};

/// The label of a worker's metrics.
const LABEL: &str = "worker";

metrics! {
    /// Sums over all workers.
    struct EgressMetrics {
        /// Bytes that wait in memory for workers.
        queued_bytes: gauge("bytes") as "egress_queued_bytes",
        /// Bytes that wait on disk for workers.
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
        /// Bytes that wait in memory for the worker.
        queued: gauge("bytes") as "worker_queued",
        /// Bytes that wait on disk for the worker.
        spilled: gauge("bytes") as "worker_spilled",
        /// Time that the oldest event in memory has waited for the worker.
        oldest: gauge("milliseconds") as "worker_oldest",
    }
}

/// Shows queues and connections, whenever it is told to.
pub(super) struct Display {
    vitals: Arc<Vitals>,
    metrics: EgressMetrics,
    /// Resets that were counted.
    resets_told: u64,
    shown: BTreeSet<Arc<str>>,
}

impl Display {
    pub(super) fn new(egress: &Egress, vitals: &Arc<Vitals>) -> Self {
        Self {
            vitals: vitals.clone(),
            metrics: EgressMetrics::register(vitals),
            resets_told: egress.lock().resets,
            shown: BTreeSet::new(),
        }
    }

    pub(super) fn refresh(&mut self, egress: &Egress) {
        let (totals, resets) = {
            let peers = egress.lock();
            (peers.totals(), peers.resets)
        };
        self.metrics.queued_bytes.set(totals.queued_bytes);
        self.metrics.spilled_bytes.set(totals.spilled_bytes);
        self.metrics.resets.add(resets - self.resets_told);
        self.resets_told = resets;
        let states = egress.peers();
        // Names are the workers' own.
        let named = |state: &PeerState| -> Arc<str> { sanitize(&*state.worker).into() };
        let known: BTreeSet<_> = states.iter().map(named).collect();
        for gone in self.shown.difference(&known) {
            self.vitals.unregister_labelled((LABEL, gone));
        }
        self.shown = known;
        states.iter().for_each(|state| self.show(&named(state), state));
    }

    fn show(&self, worker: &str, state: &PeerState) {
        let metrics = WorkerMetrics::register(&self.vitals, worker);
        let oldest = state.oldest_age.unwrap_or_default().as_millis();
        metrics.connected.set(state.connected.into());
        metrics.events.set(state.events_out);
        metrics.sent.set(state.bytes_out);
        metrics.queued.set(state.queued_bytes as u64);
        metrics.spilled.set(state.spilled_bytes);
        metrics.oldest.set(u64::try_from(oldest).unwrap_or(u64::MAX));
    }
}
