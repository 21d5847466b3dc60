//! Connections that are down, and why: shown in the status also while no batch and no question is waiting for them.

use std::{collections::BTreeMap, sync::Arc};

use orchestrator_supervise::sanitize;
use parking_lot::Mutex;

/// The connections to one server that are down. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Outages(Arc<Mutex<BTreeMap<usize, String>>>);

impl Outages {
    /// Reason of the first connection that is down; None while all are up.
    pub fn reason(&self) -> Option<String> {
        self.0.lock().values().next().cloned()
    }

    /// `connection` is down.
    pub(super) fn begin(&self, connection: usize, reason: &str) {
        self.0.lock().insert(connection, sanitize(reason));
    }

    /// `connection` is up.
    pub(super) fn end(&self, connection: usize) {
        self.0.lock().remove(&connection);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_connection_counts_until_it_is_up_again() {
        let outages = Outages::default();
        assert_eq!(outages.reason(), None);
        outages.begin(1, "closed\n");
        outages.begin(0, "refused");
        assert_eq!(outages.reason().as_deref(), Some("refused"));
        outages.end(0);
        assert_eq!(outages.reason().as_deref(), Some("closed\\n"));
        outages.end(1);
        assert_eq!(outages.reason(), None);
    }
}
