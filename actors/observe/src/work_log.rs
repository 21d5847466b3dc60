//! Time of a child's last finished work, and whether more work waits.

use std::sync::{
    OnceLock,
    atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
};

use crate::{
    clock::{steady_ms, wall_ms},
    snapshot::WorkSnapshot,
};

/// Record of the finished work of one child.
#[derive(Debug, Default)]
pub(crate) struct WorkLog {
    unit: OnceLock<&'static str>,
    /// Time by the steady clock; 0 before the first unit.
    finished: AtomicU64,
    waits: AtomicBool,
}

impl WorkLog {
    /// Sets the name of one unit; the first name stays.
    pub(crate) fn set_unit(&self, unit: &'static str) {
        let _ = self.unit.set(unit);
    }

    pub(crate) fn record(&self) {
        self.finished.store(steady_ms(), Relaxed);
    }

    pub(crate) fn set_waits(&self, waits: bool) {
        self.waits.store(waits, Relaxed);
    }

    /// None without a unit.
    pub(crate) fn last(&self) -> Option<WorkSnapshot> {
        let unit = self.unit.get()?;
        let at_ms = Some(self.finished.load(Relaxed)).filter(|at| *at > 0).map(wall_ms);
        Some(WorkSnapshot { unit: (*unit).to_owned(), at_ms, waits: self.waits.load(Relaxed) })
    }
}
