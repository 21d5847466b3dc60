//! Reason why a child that runs does no work, and the facts that support it.

use parking_lot::Mutex;

use crate::{event::now_ms, text::sanitize};

/// Most facts of one blocker; further ones are dropped.
const EVIDENCE_MAX: usize = 4;

/// Reason why a child that runs does no work now.
#[derive(Debug, Clone)]
pub struct Blocker {
    /// Name of the cause, for programs, for example `no_mapping`.
    pub kind: &'static str,
    /// The cause in one sentence.
    pub text: String,
    /// Facts that support it.
    pub evidence: Vec<String>,
    /// Command or action that helps.
    pub help: String,
    /// Start, milliseconds since 1970.
    pub since_ms: u64,
}

/// Current blocker of one child.
#[derive(Debug, Default)]
pub(crate) struct CurrentBlocker(Mutex<Option<Blocker>>);

impl CurrentBlocker {
    /// Sets the blocker. The start of the same kind of blocker stays.
    pub(crate) fn set(&self, kind: &'static str, text: &str, evidence: &[String], help: &str) {
        let evidence = evidence.iter().take(EVIDENCE_MAX).map(sanitize).collect();
        let (text, help) = (sanitize(text), sanitize(help));
        let mut current = self.0.lock();
        let since_ms =
            current.as_ref().filter(|known| known.kind == kind).map_or_else(now_ms, |known| known.since_ms);
        *current = Some(Blocker { kind, text, evidence, help, since_ms });
    }

    pub(crate) fn clear(&self) {
        *self.0.lock() = None;
    }

    pub(crate) fn get(&self) -> Option<Blocker> {
        self.0.lock().clone()
    }
}
