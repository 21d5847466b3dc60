//! Environment of the real process: clock, stop, pause switch, database link, status and metrics.

use std::{
    cell::Cell,
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use orchestrator_edge::{LinkState, Retries, RetryPolicy};
use orchestrator_observe::{LinkFailure, LinkReporter, metrics, millis};
use orchestrator_supervise::{Durable, StartCx, StopToken, Vitals};
use orchestrator_text::sanitize;

use orchestrator_producer_rules::{
    advance::Machine, lease::Lease, queue_state::QueueState, watermark::WaterMarks,
};
use tokio::sync::watch;

use crate::{
    config::ProducerConfig,
    environment::{Environment, Peer, Progress, Stopped},
    holder::{self, HolderState},
    status::{Standby, Status},
};

/// Time for which a stop waits for the reply of Faktory.
const DRAIN: Duration = Duration::from_secs(4);
/// Time for which a stop waits for an answer of the database.
const STORE_DRAIN: Duration = Duration::from_millis(1_200);

/// Intervals of the log lines about a push and about a blocked TCN.
const LOG_PUSHING_INTERVAL: Duration = Duration::from_secs(10);
const LOG_BLOCKED_INTERVAL: Duration = Duration::from_secs(60);

metrics! {
    /// Metrics of the producer.
    struct ProducerMetrics {
        /// Jobs whose chunk is acknowledged by Faktory and recorded in the cursor.
        pushed: counter("jobs"),
        /// Crossing number (TCN) whose stencils are processed.
        tcn: gauge("crossings"),
        /// Acknowledged jobs of the current stencil.
        stencil_pushed: gauge("jobs"),
        /// All jobs of the current stencil.
        stencil_total: gauge("jobs"),
        /// Operations repeated because MongoDB or Faktory failed.
        retries: counter("retries"),
        /// 1 while everything is pushed and jobs or invalid documents keep the TCN from being complete.
        blocked: gauge(""),
        /// 1 while another or a former producer has the lease.
        standby: gauge(""),
        /// 1 while pushing is stopped because more than `high_water` jobs wait in the queue.
        held: gauge("") as "held_by_high_water",
        /// Completed TCNs that `on_complete` has not accepted yet.
        undelivered: gauge("completions"),
        /// Estimated time until the known jobs of the TCN are completed; 0 if it is unknown.
        eta: gauge("seconds"),
        /// Jobs that wait in the producer's queues, at the last check.
        server_waiting: gauge("jobs"),
        /// Jobs of the whole server that workers have, at the last check.
        server_working: gauge("jobs"),
        /// Scheduled jobs of the whole server, at the last check.
        server_scheduled: gauge("jobs"),
        /// Failed jobs of the whole server that will be retried, at the last check.
        server_retries: gauge("jobs"),
        /// Dead jobs of the whole server, at the last check.
        server_dead: gauge("jobs"),
    }
}

/// Environment of one incarnation.
pub(super) struct LiveEnvironment {
    started: Instant,
    stop: StopToken,
    status: Durable<Status>,
    paused: watch::Receiver<bool>,
    store: LinkState,
    /// Failures of the queue, whose link belongs to the Faktory edge.
    queue: Retries,
    metrics: ProducerMetrics,
    marks: WaterMarks,
    vitals: Arc<Vitals>,
    /// Time of the last log line about progress.
    last_logged: Cell<Instant>,
}

impl LiveEnvironment {
    pub(super) fn new(
        cx: &StartCx,
        status: Durable<Status>,
        paused: watch::Receiver<bool>,
        config: &ProducerConfig,
        marks: WaterMarks,
    ) -> Self {
        let vitals = &cx.vitals;
        vitals.set_work_unit("job");
        Self {
            started: Instant::now(),
            stop: cx.stop.clone(),
            status,
            paused,
            store: LinkState::new(cx, "mongodb", config.mongodb.endpoint(), RetryPolicy::REMOTE),
            queue: Retries::new(RetryPolicy::REMOTE, vitals.link_retry_max()),
            metrics: ProducerMetrics::register(vitals),
            marks,
            vitals: vitals.clone(),
            last_logged: Cell::new(Instant::now()),
        }
    }

    /// Waits until a stop no longer allows to wait for the queue. Its reply is awaited longest: without it,
    /// its chunk is pushed again.
    pub(super) fn drain_overdue(&self) -> impl Future<Output = ()> + use<> {
        let stop = self.stop.clone();
        async move {
            stop.cancelled().await;
            tokio::time::sleep(DRAIN).await;
        }
    }

    /// Returns true if the database answered the last request.
    pub(super) fn is_store_up(&self) -> bool {
        self.store.is_up()
    }

    /// Link to the database.
    pub(super) fn store_link(&self) -> LinkReporter {
        self.store.reporter()
    }

    /// Waits for a stop.
    pub(super) async fn stopped(&self) -> Stopped {
        self.stop.cancelled().await;
        Stopped
    }

    /// Reports the machine's phase and its notices to the status, the metrics and the log.
    pub(super) fn report_phase(&self, machine: &mut Machine) {
        for notice in machine.notices() {
            self.status.lock().apply_notice(&notice);
            if notice.is_warning() {
                tracing::warn!("{notice}");
                self.vitals.note(notice.to_string());
            } else {
                tracing::info!("{notice}");
            }
        }
        if let Some(tcn) = machine.target() {
            self.metrics.tcn.set(tcn.max(0).unsigned_abs());
        }
        let mut status = self.status.lock();
        status.update_phase(machine, wall_ms());
        status.report_blocker(&self.vitals);
        self.vitals.set_work_waits(status.phase == "pushing");
        self.metrics.blocked.set((status.phase == "blocked").into());
        self.metrics.standby.set((status.phase == "standby").into());
        if !status.blocked_by.is_empty() && self.log_is_due(LOG_BLOCKED_INTERVAL) {
            let secs = wall_ms().saturating_sub(status.since_ms) / 1_000;
            tracing::info!(tcn = status.tcn, secs, "TCN is blocked: {}", status.blocked_by.join("; "));
        }
    }

    fn log_is_due(&self, every: Duration) -> bool {
        let is_due = self.last_logged.get().elapsed() >= every;
        if is_due {
            self.last_logged.set(Instant::now());
        }
        is_due
    }
}

impl Environment for LiveEnvironment {
    fn now_ms(&self) -> u64 {
        millis(self.started.elapsed())
    }

    async fn sleep(&self, span: Duration) {
        tokio::time::sleep(span).await;
    }

    async fn sleep_or_stop(&self, span: Duration) -> Result<(), Stopped> {
        let stopped = tokio::time::timeout(span, self.stop.cancelled()).await.is_ok();
        if stopped { Err(Stopped) } else { Ok(()) }
    }

    async fn store_overdue(&self) {
        self.stop.cancelled().await;
        if self.is_store_up() {
            tokio::time::sleep(STORE_DRAIN).await;
        }
    }

    async fn wait_until_resumed(&self) -> Result<(), Stopped> {
        let mut paused = self.paused.clone();
        tokio::select! {
            biased;
            () = self.stop.cancelled() => Err(Stopped),
            // The sender lives as long as the actor that runs this work, so this cannot fail.
            _ = paused.wait_for(|paused| !paused) => Ok(()),
        }
    }

    fn report_failure(&self, peer: Peer, failure: LinkFailure) -> Duration {
        self.metrics.retries.add(1);
        let reason = sanitize(&failure.reason);
        match peer {
            Peer::Store => {
                self.status.lock().unavailable.insert("database".into(), reason);
                self.store.failed(failure)
            }
            Peer::Queue => {
                self.status.lock().unavailable.insert("queue".into(), reason);
                self.queue.failed()
            }
        }
    }

    fn report_success(&self, peer: Peer) {
        let name = match peer {
            Peer::Store => {
                self.store.succeeded();
                "database"
            }
            Peer::Queue => {
                self.queue.reset();
                "queue"
            }
        };
        self.status.lock().unavailable.remove(name);
    }

    fn report_progress(&self, progress: Progress) {
        if progress.fresh > 0 {
            self.vitals.record_work();
        }
        self.metrics.pushed.add(progress.fresh);
        self.metrics.stencil_pushed.set(progress.pushed);
        self.metrics.stencil_total.set(progress.total.unwrap_or_default());
        let mut status = self.status.lock();
        status.update_progress(progress, wall_ms());
        if self.log_is_due(LOG_PUSHING_INTERVAL) {
            let Status { pushed, total, jobs_per_sec, left_secs, .. } = *status;
            let stencil = status.stencil.as_deref().unwrap_or_default();
            tracing::info!(pushed, total, jobs_per_sec, left_secs, "pushing {stencil}");
        }
    }

    fn report_queue(&self, queue_state: &QueueState, queues: &BTreeSet<String>) {
        let mut status = self.status.lock();
        status.update_queue(queue_state, queues, self.now_ms());
        self.metrics.eta.set(status.eta_secs.unwrap_or_default());
        self.metrics.server_waiting.set(queue_state.total_length(queues));
        self.metrics.server_working.set(queue_state.working);
        self.metrics.server_scheduled.set(queue_state.scheduled);
        self.metrics.server_retries.set(queue_state.retries);
        self.metrics.server_dead.set(queue_state.dead);
    }

    fn report_undelivered(&self, count: u64) {
        let mut status = self.status.lock();
        status.undelivered = count;
        status.report_blocker(&self.vitals);
        self.metrics.undelivered.set(count);
    }

    fn holder_state(&self, holder: &str) -> HolderState {
        let state = holder::state(holder);
        if state == HolderState::Ended {
            tracing::info!(holder = sanitize(holder), "taking the lease of a producer that has ended");
        }
        state
    }

    fn report_foreign_lease(&self, lease: &Lease, left_ms: u64, state: HolderState) {
        let seconds = Duration::from_millis(left_ms).as_secs_f64();
        let evidence = vec![
            format!("{} has the lease, with epoch {}", sanitize(&lease.holder), lease.epoch),
            format!("it ends in {seconds:.1} s unless it is renewed"),
        ];
        let mut status = self.status.lock();
        (status.evidence, status.standby) = (evidence, Some(Standby { state, until_ms: lease.until_ms }));
    }

    fn report_left_out(&self, tcn: i64, count: u64) {
        self.status.lock().left_out = count;
        if count > 0 {
            tracing::info!(tcn, count, "stencils with rootstock_tcn 0 are left out: they are never pushed");
        }
    }

    fn set_held(&self, held: bool) {
        self.metrics.held.set(held.into());
        let mut status = self.status.lock();
        if held {
            let WaterMarks { high, low } = self.marks;
            status.evidence = vec![
                format!("{} jobs wait in the producer's queues", status.waiting),
                format!("high_water = {high}, and pushing resumes at low_water = {low}"),
            ];
        }
        if held || status.held {
            status.held = held;
            status.report_blocker(&self.vitals);
        }
    }
}

pub(super) fn wall_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    millis(since)
}
