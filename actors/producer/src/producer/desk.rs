//! The state that outlives an incarnation.

use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;

use crate::{edge::faktory::Outages, status::Status};

/// What outlives an incarnation: the status for people, and their switch.
#[derive(Debug, Clone)]
pub struct Desk {
    status: Arc<Mutex<Status>>,
    pub(super) paused: watch::Sender<bool>,
    outages: Outages,
}

impl Desk {
    /// Not paused.
    pub fn new() -> Self {
        Self {
            status: Arc::new(Mutex::new(Status::starting())),
            paused: watch::Sender::new(false),
            outages: Outages::default(),
        }
    }

    /// Shows the queue as away also while one of these connections is down and nothing waits for it.
    #[must_use]
    pub fn with_outages(self, outages: Outages) -> Self {
        Self { outages, ..self }
    }

    /// The answer to `producer status`.
    pub(super) fn answer(&self) -> Status {
        let mut status = self.status().clone();
        if let Some(reason) = self.outages.reason() {
            status.away.entry("queue").or_insert(reason);
        }
        status
    }

    pub(super) fn status(&self) -> MutexGuard<'_, Status> {
        self.status.lock()
    }
}

impl Default for Desk {
    fn default() -> Self {
        Self::new()
    }
}
