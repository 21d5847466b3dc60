//! Real time, the database's link, an operator's pause, and the figures.

use std::{
    cell::{Cell, RefCell},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use orchestrator_edge::Reconnect;
use orchestrator_supervise::{Backoff, Figure, FigureKind, StartCx, StopToken};

use super::Desk;
use crate::{
    advance::Machine,
    config::ProducerConfig,
    pace::{Pace, Peer, Progress, Stopped},
};

/// Waits before a peer that is away is tried again.
const RETRY: Backoff = Backoff { first: Duration::from_millis(50), max: Duration::from_secs(5) };

/// What drives one incarnation.
pub(super) struct Live {
    begun: Instant,
    stop: StopToken,
    desk: Desk,
    store: RefCell<Reconnect>,
    /// Failures of the queue in a row; its link is its own edge's.
    queue_failures: Cell<u32>,
    pushed: Figure,
    tcn: Figure,
    of_stencil: [Figure; 2],
    retries: Figure,
}

impl Live {
    pub(super) fn new(cx: &StartCx, desk: Desk, config: &ProducerConfig) -> Self {
        let vitals = &cx.vitals;
        let declare = |name, unit, kind| vitals.declare(name, unit, kind);
        let link = vitals.link("mongodb", config.mongodb.endpoint());
        Self {
            begun: Instant::now(),
            stop: cx.stop.clone(),
            desk,
            store: RefCell::new(Reconnect::new(link, RETRY)),
            queue_failures: Cell::new(0),
            pushed: declare("pushed", "jobs", FigureKind::Counter),
            tcn: declare("tcn", "crossings", FigureKind::Gauge),
            of_stencil: [
                declare("stencil_pushed", "jobs", FigureKind::Gauge),
                declare("stencil_total", "jobs", FigureKind::Gauge),
            ],
            retries: declare("retries", "retries", FigureKind::Counter),
        }
    }

    /// The machine went on: tells people.
    pub(super) fn enter(&self, machine: &mut Machine) {
        for news in machine.news() {
            if news.is_trouble() {
                tracing::warn!("{news}");
            } else {
                tracing::info!("{news}");
            }
        }
        if let Some(tcn) = machine.target() {
            self.tcn.set(tcn.max(0).unsigned_abs());
        }
        self.desk.status().enter(machine, wall_ms());
    }
}

impl Pace for Live {
    fn now_ms(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    async fn timer(&self, span: Duration) {
        tokio::time::sleep(span).await;
    }

    async fn wait(&self, span: Duration) -> Result<(), Stopped> {
        let stopped = tokio::time::timeout(span, self.stop.cancelled()).await.is_ok();
        if stopped { Err(Stopped) } else { Ok(()) }
    }

    async fn go(&self) -> Result<(), Stopped> {
        let mut paused = self.desk.paused.subscribe();
        tokio::select! {
            biased;
            () = self.stop.cancelled() => Err(Stopped),
            // The sender lives in the desk, so waiting cannot fail.
            _ = paused.wait_for(|paused| !paused) => Ok(()),
        }
    }

    async fn endure(&self, peer: Peer, reason: String) -> Result<(), Stopped> {
        self.retries.add(1);
        let delay = match peer {
            Peer::Store => {
                self.desk.status().away.insert("database", reason.clone());
                self.store.borrow_mut().failed(reason)
            }
            Peer::Queue => {
                self.desk.status().away.insert("queue", reason);
                let failures = self.queue_failures.replace(self.queue_failures.get().saturating_add(1));
                RETRY.delay(failures, fastrand::f64())
            }
        };
        self.wait(delay).await
    }

    fn answered(&self, peer: Peer) {
        let name = match peer {
            Peer::Store => {
                self.store.borrow_mut().succeeded();
                "database"
            }
            Peer::Queue => {
                self.queue_failures.set(0);
                "queue"
            }
        };
        self.desk.status().away.remove(name);
    }

    fn tell(&self, progress: Progress) {
        self.pushed.add(progress.fresh);
        self.of_stencil[0].set(progress.pushed);
        self.of_stencil[1].set(progress.total.unwrap_or_default());
        self.desk.status().progress(progress, wall_ms());
    }

    fn hold(&self, held: bool) {
        self.desk.status().held = held;
    }
}

fn wall_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
