//! Reason why a child that runs does no work, with the facts that support it.

use orchestrator_text::sanitize;
use parking_lot::Mutex;

use crate::{
    clock::{steady_ms, wall_ms},
    snapshot::BlockerSnapshot,
};

/// Most facts of one blocker; further ones are dropped.
const EVIDENCE_MAX: usize = 4;

/// Current blocker of one child, with its start by the steady clock.
#[derive(Debug, Default)]
pub(crate) struct CurrentBlocker(Mutex<Option<BlockerSnapshot>>);

impl CurrentBlocker {
    /// Sets the blocker. The start of the same kind of blocker stays.
    pub(crate) fn set(
        &self,
        kind: &'static str,
        fault_of: Option<&str>,
        text: &str,
        evidence: &[String],
        help: &str,
        routine: bool,
    ) {
        let fault_of = fault_of.map(sanitize);
        let evidence = evidence.iter().take(EVIDENCE_MAX).map(sanitize).collect();
        let (text, help) = (sanitize(text), sanitize(help));
        let mut current = self.0.lock();
        let known = current.take().filter(|known| known.kind == kind);
        let (kind, since_ms) =
            known.map_or_else(|| (kind.to_owned(), steady_ms()), |known| (known.kind, known.since_ms));
        *current = Some(BlockerSnapshot { kind, text, evidence, help, since_ms, fault_of, routine });
    }

    pub(crate) fn clear(&self) {
        *self.0.lock() = None;
    }

    pub(crate) fn get(&self) -> Option<BlockerSnapshot> {
        let blocker = self.0.lock().clone()?;
        Some(BlockerSnapshot { since_ms: wall_ms(blocker.since_ms), ..blocker })
    }
}
