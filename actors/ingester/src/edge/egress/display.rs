//! What the tree and the metrics show of the workers: sums, and figures of each.

use std::{collections::BTreeSet, sync::Arc};

use orchestrator_supervise::{Figure, FigureKind, Vitals, sanitize};

use super::{Egress, peer_state::PeerState};

/// The label of a worker's figures.
const LABEL: &str = "worker";

/// Shows queues and connections, whenever it is told to.
pub(super) struct Display {
    vitals: Arc<Vitals>,
    queued_bytes: Figure,
    spilled_bytes: Figure,
    resets: Figure,
    /// Resets that were counted.
    resets_told: u64,
    shown: BTreeSet<Arc<str>>,
}

impl Display {
    pub(super) fn new(egress: &Egress, vitals: &Arc<Vitals>) -> Self {
        let gauge = |name| vitals.declare(name, "bytes", FigureKind::Gauge);
        Self {
            vitals: vitals.clone(),
            queued_bytes: gauge("egress_queued_bytes"),
            spilled_bytes: gauge("spilled_bytes"),
            resets: vitals.declare("connections_reset", "", FigureKind::Counter),
            resets_told: egress.lock().resets,
            shown: BTreeSet::new(),
        }
    }

    pub(super) fn refresh(&mut self, egress: &Egress) {
        let (totals, resets) = {
            let peers = egress.lock();
            (peers.totals(), peers.resets)
        };
        self.queued_bytes.set(totals.queued_bytes);
        self.spilled_bytes.set(totals.spilled_bytes);
        self.resets.add(resets - self.resets_told);
        self.resets_told = resets;
        let states = egress.peers();
        // Names are the workers' own.
        let named = |state: &PeerState| -> Arc<str> { sanitize(&*state.worker).into() };
        let known: BTreeSet<_> = states.iter().map(named).collect();
        for gone in self.shown.difference(&known) {
            self.vitals.retire((LABEL, gone));
        }
        self.shown = known;
        states.iter().for_each(|state| self.show(&named(state), state));
    }

    fn show(&self, worker: &str, state: &PeerState) {
        let set = |name, unit, kind, value: u64| {
            self.vitals.declare_of(name, unit, kind, (LABEL, worker)).set(value);
        };
        let oldest = state.oldest_age.unwrap_or_default().as_millis();
        set("worker_connected", "", FigureKind::Gauge, state.connected.into());
        set("worker_events", "events", FigureKind::Counter, state.events_out);
        set("worker_sent", "bytes", FigureKind::Counter, state.bytes_out);
        set("worker_queued", "bytes", FigureKind::Gauge, state.queued_bytes as u64);
        set("worker_spilled", "bytes", FigureKind::Gauge, state.spilled_bytes);
        set("worker_oldest", "milliseconds", FigureKind::Gauge, u64::try_from(oldest).unwrap_or(u64::MAX));
    }
}
