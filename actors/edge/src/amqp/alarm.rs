//! Alarms of a broker: with too little memory or disk space it blocks connections that publish
//! (`connection.blocked`).

use std::time::Duration;

use orchestrator_observe::{FailureKind, LinkFailure, LinkReporter};
use orchestrator_text::sanitize;

/// Kind of requests that an alarm blocks, at the link.
const PUBLISHING: &str = "publishing";
/// Delay until the next attempt: the broker itself goes on with what it has received.
const NO_DELAY: Duration = Duration::ZERO;

/// Report of an alarm at the link of a connection; it ends with the connection.
pub(super) struct Alarm(pub(super) Option<LinkReporter>);

impl Alarm {
    /// Reports that the broker blocks the connection.
    pub(super) fn begin(&self, reason: &str) {
        let failure = LinkFailure::new(FailureKind::Blocked, sanitize(reason)).with_help(
            "rabbitmq-diagnostics alarms; free disk space or memory on its host, or change disk_free_limit or vm_memory_high_watermark",
        );
        if let Some(link) = &self.0 {
            link.refused(PUBLISHING, failure, NO_DELAY);
        }
    }

    /// Reports that the broker takes messages again.
    pub(super) fn end(&self) {
        if let Some(link) = &self.0 {
            link.accepted(PUBLISHING);
        }
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        self.end();
    }
}
