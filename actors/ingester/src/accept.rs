//! The actor Accept: which workers are connected. It lives on while mappings come and go.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use orchestrator_supervise::{Answer, Child, ChildCx, Handle, Metric, MetricKind, Recipient, Vitals};
use uuid::Uuid;

use crate::{
    messages::{WorkerPinged, WorkersSeen},
    roster::Roster,
};

/// How often the ingester hears of all workers, and who is silent is forgotten.
const LOOK: Duration = Duration::from_secs(1);

/// Hears workers and tells the ingester of them.
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
            "Workers heard of within the last four seconds.",
        );
        Self { roster: Roster::default(), ingester, connected }
    }

    fn tell(&self, changed: bool) {
        self.connected.set(self.roster.workers().len() as u64);
        // Where the ingester refuses it, it hears of them with the next look.
        let _ = self.ingester.tell(WorkersSeen { workers: self.roster.clone(), changed });
    }
}

impl Child for Accept {
    fn started(&mut self, cx: &mut ChildCx<'_, Self>) {
        cx.every(LOOK, |accept, _| {
            let changed = accept.roster.forget(Instant::now());
            accept.tell(changed);
        });
    }
}

impl Handle<WorkerPinged> for Accept {
    fn handle(&mut self, ping: WorkerPinged, _cx: &mut ChildCx<'_, Self>) -> Answer<Self, ()> {
        if self.roster.heard(ping.worker, Uuid::from_bytes(ping.service_uuid), Instant::now(), wall()) {
            self.tell(true);
        }
        Answer::done()
    }
}

/// Seconds since 1970, for who reads them: this clock may be set.
fn wall() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}
