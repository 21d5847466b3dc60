//! Real time, the database's link, an operator's pause, and the metrics.

use std::{
    cell::{Cell, RefCell},
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use orchestrator_edge::{Reconnect, cap_backoff};
use orchestrator_supervise::{Backoff, Durable, StartCx, StopToken, Vitals, metrics, sanitize};

use tokio::sync::watch;

use crate::{
    advance::Machine,
    config::ProducerConfig,
    pace::{Pace, Peer, Progress, Stopped},
    status::Status,
};

/// Waits before a peer that is away is tried again.
const RETRY: Backoff = Backoff { first: Duration::from_millis(50), max: Duration::from_secs(5) };

/// How often the log hears how far a push is, and what is waited for.
const PUSHING_EVERY: Duration = Duration::from_secs(10);
const WAITING_EVERY: Duration = Duration::from_secs(60);

metrics! {
    /// Metrics of the producer.
    struct ProducerMetrics {
        /// Jobs that are acknowledged and noted.
        pushed: counter("jobs"),
        /// TCN that is worked on.
        tcn: gauge("crossings"),
        /// Jobs of the stencil in hand that are acknowledged.
        stencil_pushed: gauge("jobs"),
        /// Jobs of the stencil in hand.
        stencil_total: gauge("jobs"),
        /// Things done again because database or queue failed.
        retries: counter("retries"),
        /// 1 while everything is pushed and jobs or documents keep the TCN from being complete.
        blocked: gauge(""),
        /// 1 while another producer has the lease.
        standby: gauge(""),
        /// 1 while nothing is pushed since more jobs than `high_water` wait.
        held: gauge("") as "held_by_high_water",
    }
}

/// What drives one incarnation.
pub(super) struct Live {
    begun: Instant,
    stop: StopToken,
    status: Durable<Status>,
    paused: watch::Receiver<bool>,
    store: RefCell<Reconnect>,
    /// Failures of the queue in a row; its link is its own edge's.
    queue_failures: Cell<u32>,
    metrics: ProducerMetrics,
    vitals: Arc<Vitals>,
    /// When the log heard last how far it is.
    told: Cell<Instant>,
}

impl Live {
    pub(super) fn new(
        cx: &StartCx,
        status: Durable<Status>,
        paused: watch::Receiver<bool>,
        config: &ProducerConfig,
    ) -> Self {
        let vitals = &cx.vitals;
        let link = vitals.link("mongodb", config.mongodb.endpoint());
        Self {
            begun: Instant::now(),
            stop: cx.stop.clone(),
            status,
            paused,
            store: RefCell::new(Reconnect::new(link, RETRY)),
            queue_failures: Cell::new(0),
            metrics: ProducerMetrics::register(vitals),
            vitals: vitals.clone(),
            told: Cell::new(Instant::now()),
        }
    }

    /// Waits until it is asked to stop.
    pub(super) async fn stopped(&self) -> Stopped {
        self.stop.cancelled().await;
        Stopped
    }

    /// The machine went on: tells people.
    pub(super) fn enter(&self, machine: &mut Machine) {
        for news in machine.news() {
            self.status.lock().hear(&news);
            if news.is_trouble() {
                tracing::warn!("{news}");
                self.vitals.note(news.to_string());
            } else {
                tracing::info!("{news}");
            }
        }
        if let Some(tcn) = machine.target() {
            self.metrics.tcn.set(tcn.max(0).unsigned_abs());
        }
        let mut status = self.status.lock();
        status.enter(machine, wall_ms());
        self.metrics.blocked.set((status.phase == "blocked").into());
        self.metrics.standby.set((status.phase == "standby").into());
        if !status.blocked_by.is_empty() && self.is_time(WAITING_EVERY) {
            let secs = wall_ms().saturating_sub(status.since_ms) / 1_000;
            tracing::info!(tcn = status.tcn, secs, "waits: {}", status.blocked_by.join("; "));
        }
    }

    fn is_time(&self, every: Duration) -> bool {
        let is_time = self.told.get().elapsed() >= every;
        if is_time {
            self.told.set(Instant::now());
        }
        is_time
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
        let mut paused = self.paused.clone();
        tokio::select! {
            biased;
            () = self.stop.cancelled() => Err(Stopped),
            // The sender lives in the actor, whose work this is, so waiting cannot fail.
            _ = paused.wait_for(|paused| !paused) => Ok(()),
        }
    }

    fn missed(&self, peer: Peer, reason: String) -> Duration {
        self.metrics.retries.add(1);
        let reason = sanitize(reason);
        match peer {
            Peer::Store => {
                self.status.lock().away.insert("database", reason.clone());
                self.store.borrow_mut().failed(reason)
            }
            Peer::Queue => {
                self.status.lock().away.insert("queue", reason);
                let failures = self.queue_failures.replace(self.queue_failures.get().saturating_add(1));
                cap_backoff(RETRY).delay(failures, fastrand::f64())
            }
        }
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
        self.status.lock().away.remove(name);
    }

    fn tell(&self, progress: Progress) {
        self.metrics.pushed.add(progress.fresh);
        self.metrics.stencil_pushed.set(progress.pushed);
        self.metrics.stencil_total.set(progress.total.unwrap_or_default());
        let mut status = self.status.lock();
        status.progress(progress, wall_ms());
        if self.is_time(PUSHING_EVERY) {
            let Status { pushed, total, jobs_per_sec, left_secs, .. } = *status;
            let stencil = status.stencil.as_deref().unwrap_or_default();
            tracing::info!(pushed, total, jobs_per_sec, left_secs, "pushing {stencil}");
        }
    }

    fn hold(&self, held: bool) {
        self.status.lock().held = held;
        self.metrics.held.set(held.into());
    }
}

fn wall_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
