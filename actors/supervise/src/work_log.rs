//! Time of a child's last finished work, and whether more work waits.

use std::sync::{
    OnceLock,
    atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
};

use crate::{event::now_ms, snapshot::WorkSnapshot};

/// Record of the finished work of one child.
#[derive(Debug, Default)]
pub(crate) struct WorkLog {
    unit: OnceLock<&'static str>,
    /// Milliseconds since 1970; 0 before the first unit.
    finished_ms: AtomicU64,
    waits: AtomicBool,
}

impl WorkLog {
    /// Sets the name of one unit; the first name stays.
    pub(crate) fn set_unit(&self, unit: &'static str) {
        let _ = self.unit.set(unit);
    }

    pub(crate) fn record(&self) {
        self.finished_ms.store(now_ms(), Relaxed);
    }

    pub(crate) fn set_waits(&self, waits: bool) {
        self.waits.store(waits, Relaxed);
    }

    /// Returns the last finished work; None without a unit.
    pub(crate) fn last(&self) -> Option<WorkSnapshot> {
        let unit = self.unit.get()?;
        let at_ms = Some(self.finished_ms.load(Relaxed)).filter(|at_ms| *at_ms > 0);
        Some(WorkSnapshot { unit: (*unit).to_owned(), at_ms, waits: self.waits.load(Relaxed) })
    }
}
