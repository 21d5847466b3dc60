//! Reason why a child that runs does no work, and the facts that support it.

use super::Vitals;
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

impl Vitals {
    /// Reports why the child does no work although it runs, and what helps; `GET /v1/why` shows it. The start of a cause
    /// that is reported again stays. It ends by [`Vitals::clear_blocker`], or with the incarnation.
    pub fn set_blocker(&self, kind: &'static str, text: impl AsRef<str>, help: impl Into<String>) {
        self.set_blocker_with(kind, text, &[], help);
    }

    /// Like [`Vitals::set_blocker`], with up to four facts that support the cause. Texts are escaped and limited by
    /// [`sanitize`].
    pub fn set_blocker_with(
        &self,
        kind: &'static str,
        text: impl AsRef<str>,
        evidence: &[String],
        help: impl Into<String>,
    ) {
        let evidence = evidence.iter().take(EVIDENCE_MAX).map(sanitize).collect();
        let (text, help) = (sanitize(text.as_ref()), sanitize(help.into()));
        let mut blocker = self.blocker.lock();
        let since_ms =
            blocker.as_ref().filter(|known| known.kind == kind).map_or_else(now_ms, |known| known.since_ms);
        *blocker = Some(Blocker { kind, text, evidence, help, since_ms });
    }

    /// Reports that the child works again, or that nothing keeps it from it.
    pub fn clear_blocker(&self) {
        *self.blocker.lock() = None;
    }

    /// Returns the reported reason why the child does no work.
    pub fn blocker(&self) -> Option<Blocker> {
        self.blocker.lock().clone()
    }
}
