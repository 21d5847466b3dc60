//! The actor Accept: which workers are connected. It lives on while mappings come and go.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use orchestrator_supervise::{Answer, Child, ChildCx, Figure, FigureKind, Handle, Recipient, Vitals};

use crate::{
    messages::{PingArrived, WorkersSeen},
    roster::Roster,
};

/// How often the ingester hears of all workers, and who is silent is forgotten.
const LOOK: Duration = Duration::from_secs(1);

/// Hears workers and tells the ingester of them.
pub(crate) struct Accept {
    roster: Roster,
    ingester: Recipient<WorkersSeen>,
    connected: Figure,
}

impl Accept {
    pub(crate) fn new(ingester: Recipient<WorkersSeen>, vitals: &Vitals) -> Self {
        let connected = vitals.declare("connected_workers", "workers", FigureKind::Gauge);
        Self { roster: Roster::default(), ingester, connected }
    }

    fn tell(&self, changed: bool) {
        self.connected.set(self.roster.workers().len() as u64);
        // Refused means that the ingester is busy with a mapping: it hears of them with the next look.
        let _ = self.ingester.tell(WorkersSeen { workers: self.roster.clone(), changed });
    }
}

impl Child for Accept {
    fn started(&mut self, cx: &mut ChildCx<'_, Self>) {
        cx.every(LOOK, |accept, _| {
            let changed = accept.roster.forget(now());
            accept.tell(changed);
        });
    }
}

impl Handle<PingArrived> for Accept {
    fn handle(&mut self, ping: PingArrived, _cx: &mut ChildCx<'_, Self>) -> Answer<Self, ()> {
        if self.roster.heard(ping.worker, ping.service_uuid, now()) {
            self.tell(true);
        }
        Answer::done()
    }
}

/// Seconds since 1970.
pub(crate) fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}
