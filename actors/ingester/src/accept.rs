//! The actor Accept: keeps the list of connected workers. It is not restarted with mappings.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use orchestrator_observe::{Metric, MetricKind};
use orchestrator_supervise::{Child, ChildCx, Handle, Handled, Recipient, Vitals};
use uuid::Uuid;

use crate::{
    messages::{WorkerPinged, WorkersSeen},
    roster::Roster,
};

/// Interval at which the list is published and silent workers are removed.
const INTERVAL: Duration = Duration::from_secs(1);

/// Receives the workers' pings and reports the connected workers to the actor Ingester.
pub(crate) struct Accept {
    roster: Roster,
    ingester: Recipient<WorkersSeen>,
    connected: Metric,
}

impl Accept {
    pub(crate) fn new(ingester: Recipient<WorkersSeen>, vitals: &Vitals) -> Self {
        let connected = vitals.register(
            "connected_workers",
            "workers",
            MetricKind::Gauge,
            "Workers that pinged within the last four seconds.",
        );
        Self { roster: Roster::default(), ingester, connected }
    }

    fn publish(&self, changed: bool) {
        self.connected.set(self.roster.workers().len() as u64);
        // If the mailbox is full, the next interval reports it.
        let _ = self.ingester.tell(WorkersSeen { workers: self.roster.clone(), changed });
    }
}

impl Child for Accept {
    fn started(&mut self, cx: &mut ChildCx<'_, Self>) {
        cx.every(INTERVAL, |accept, _| {
            let changed = accept.roster.remove_expired(Instant::now());
            accept.publish(changed);
        });
    }
}

impl Handle<WorkerPinged> for Accept {
    fn handle(&mut self, ping: WorkerPinged, _cx: &mut ChildCx<'_, Self>) -> Handled<Self, ()> {
        if self.roster.record_ping(
            ping.worker,
            Uuid::from_bytes(ping.service_uuid),
            Instant::now(),
            unix_time(),
        ) {
            self.publish(true);
        }
        Handled::done()
    }
}

/// Wall-clock time, seconds since 1970.
fn unix_time() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}
