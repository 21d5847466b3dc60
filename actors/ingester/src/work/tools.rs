//! Handles and counters of Work.

use std::sync::Arc;

use orchestrator_supervise::{Figure, FigureKind, Vitals};

use crate::{
    config::OnGap,
    edge::{dump::Dump, egress::Egress},
    scan::Scan,
};

/// What Work works with.
#[derive(Clone)]
pub(crate) struct Tools {
    pub(crate) scan: Arc<Scan>,
    pub(crate) egress: Egress,
    pub(crate) dump: Dump,
    pub(crate) on_gap: OnGap,
}

/// What it counts.
#[derive(Debug, Clone)]
pub(crate) struct Counts {
    pub(crate) events: Figure,
    pub(crate) bytes: Figure,
    pub(crate) wait_assignment: Figure,
    pub(crate) wait_source: Figure,
    pub(crate) wait_egress: Figure,
    /// 1 while a worker has no room for what is its own, in memory or on disk.
    pub(crate) held_up: Figure,
    pub(crate) holes: Figure,
    pub(crate) late: Figure,
    pub(crate) not_dumped: Figure,
    pub(crate) broken: Figure,
}

impl Counts {
    pub(crate) fn declare(vitals: &Vitals) -> Self {
        let counter = |name, unit| vitals.declare(name, unit, FigureKind::Counter);
        Self {
            events: counter("events", "events"),
            bytes: counter("event", "bytes"),
            wait_assignment: counter("wait_for_assignment", "microseconds"),
            wait_source: counter("wait_for_source", "microseconds"),
            wait_egress: counter("wait_for_workers", "microseconds"),
            held_up: vitals.declare("held_up_by_workers", "", FigureKind::Gauge),
            holes: counter("holes", ""),
            late: counter("late_items", "items"),
            not_dumped: counter("events_not_dumped", ""),
            broken: counter("broken_scans", "scans"),
        }
    }
}
