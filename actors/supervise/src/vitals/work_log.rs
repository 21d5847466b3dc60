//! Time of a child's last finished work, and whether more work waits.

use std::sync::{
    OnceLock,
    atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
};

use super::Vitals;
use crate::event::now_ms;

/// Record of the finished work of one child.
#[derive(Debug, Default)]
pub(super) struct WorkLog {
    unit: OnceLock<&'static str>,
    /// Milliseconds since 1970; 0 before the first unit.
    finished_ms: AtomicU64,
    waits: AtomicBool,
}

/// Last finished work of a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastWork {
    /// Name of one unit, for example `job`.
    pub unit: &'static str,
    /// Time, milliseconds since 1970; None before the first unit.
    pub at_ms: Option<u64>,
    /// True if more work waits in the child, besides the messages in its mailboxes.
    pub waits: bool,
}

impl Vitals {
    /// Declares that the child finishes units of work, for example `job`. `GET /v1/why` shows the time of the last one. The
    /// first declaration stays.
    pub fn set_work_unit(&self, unit: &'static str) {
        let _ = self.work_log.unit.set(unit);
    }

    /// Records that the child has just finished units of work. It reads the clock, so a child calls it once a batch.
    pub fn record_work(&self) {
        self.work_log.finished_ms.store(now_ms(), Relaxed);
    }

    /// Reports whether work waits in the child, besides the messages in its mailboxes. Ends with the incarnation.
    pub fn set_work_waits(&self, waits: bool) {
        self.work_log.waits.store(waits, Relaxed);
    }

    /// Returns the last finished work; None if the child has declared no unit.
    pub fn last_work(&self) -> Option<LastWork> {
        let unit = self.work_log.unit.get()?;
        let at_ms = Some(self.work_log.finished_ms.load(Relaxed)).filter(|at_ms| *at_ms > 0);
        Some(LastWork { unit, at_ms, waits: self.work_log.waits.load(Relaxed) })
    }
}
