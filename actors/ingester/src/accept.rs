//! The actor Accept: which workers are connected. It lives on while mappings come and go.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use orchestrator_supervise::{Child, ChildCx, Figure, FigureKind, Inbox, InboxSlot, Recipient, Vitals};
use uuid::Uuid;

use crate::{edge::egress::Ping, messages::WorkersSeen, roster::Roster};

/// How often the ingester hears of all workers, and who is silent is forgotten.
const LOOK: Duration = Duration::from_secs(1);

/// Hears workers and tells the ingester of them.
pub(crate) struct Accept {
    roster: Roster,
    pings: InboxSlot<Ping>,
    ingester: Recipient<WorkersSeen>,
    connected: Figure,
}

impl Accept {
    pub(crate) fn new(pings: InboxSlot<Ping>, ingester: Recipient<WorkersSeen>, vitals: &Vitals) -> Self {
        let connected = vitals.register(
            "connected_workers",
            "workers",
            FigureKind::Gauge,
            "Workers heard of within the last four seconds.",
        );
        Self { roster: Roster::default(), pings, ingester, connected }
    }

    fn listen(mut pings: Inbox<Ping>, cx: &mut ChildCx<'_, Self>) {
        let next = async move { (pings.recv().await, pings) };
        cx.spawn(next, |accept, (ping, pings), cx| {
            let Some(ping) = ping else { return };
            if accept.roster.heard(ping.worker, Uuid::from_bytes(ping.service_uuid), Instant::now(), wall()) {
                accept.tell(true);
            }
            Self::listen(pings, cx);
        });
    }

    fn tell(&self, changed: bool) {
        self.connected.set(self.roster.workers().len() as u64);
        // Refused means that the ingester is busy with a mapping: it hears of them with the next look.
        let _ = self.ingester.tell(WorkersSeen { workers: self.roster.clone(), changed });
    }
}

impl Child for Accept {
    fn started(&mut self, cx: &mut ChildCx<'_, Self>) {
        Self::listen(self.pings.open(), cx);
        cx.every(LOOK, |accept, _| {
            let changed = accept.roster.forget(Instant::now());
            accept.tell(changed);
        });
    }
}

/// Seconds since 1970, for who reads them: this clock may be set.
fn wall() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}
