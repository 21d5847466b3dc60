//! The thread that keeps on disk what is over a worker's budget, and brings it back as the worker takes.
//!
//! What it has to do stands in the queues, so that nothing is lost with the thread: a message leaves memory once it is written, and the
//! disk once it is in memory again. How much may wait for it is bounded there, too.

use std::time::{Duration, Instant};

use orchestrator_supervise::{Factory, Fault, Metric, MetricKind, StartCx, block_on};

use super::{
    Egress,
    peers::{DiskJob, News},
};

/// After a failure the same is not tried again for so long. Where writing fails reading goes on: it may give back what is missing.
const RETRY: Duration = Duration::from_secs(1);

/// The thread child that spills for `egress`. Without it, and while the disk is full or fails, spilling counts as exhausted: what is in
/// memory stays there, what is on disk stays there, and [`Egress::try_send`] refuses beyond the budgets.
pub fn spill_factory(egress: Egress) -> Factory {
    Factory::thread(move |cx: StartCx| {
        let failures = cx.vitals.register(
            "spill_failures",
            "failures",
            MetricKind::Counter,
            "Times that the disk took nothing of what waits for a worker.",
        );
        let news = egress.lock().retry_disk(true);
        egress.tell(news);
        Shift { egress: &egress, cx: &cx, failures }.run();
        Ok::<(), Fault>(())
    })
}

/// One incarnation at work.
struct Shift<'a> {
    egress: &'a Egress,
    cx: &'a StartCx,
    failures: Metric,
}

impl Shift<'_> {
    fn run(&self) {
        let mut retry_at = None;
        while !self.cx.stop.is_cancelled() {
            let work = self.cx.vitals.begin_work("spill");
            if retry_at.is_some_and(|at| Instant::now() >= at) {
                retry_at = None;
                let news = self.egress.lock().retry_disk(false);
                self.egress.tell(news);
            }
            // Carried out without the lock: disks take their time.
            let job = self.egress.lock().next_job();
            if let Some(job) = job {
                if !self.carry_out(job) {
                    retry_at.get_or_insert_with(|| Instant::now() + RETRY);
                }
                continue;
            }
            drop(work);
            // Woken or not, it looks again.
            let _ = block_on(retry_at, async {
                tokio::select! {
                    biased;
                    () = self.cx.stop.cancelled() => {}
                    () = self.egress.inner.disk.notified() => {}
                }
            });
        }
    }

    /// Writes, then reads. False if either failed.
    fn carry_out(&self, job: DiskJob) -> bool {
        let limits = &self.egress.inner.limits;
        let mut file = job.file.lock();
        let mut well = true;
        if let Some(entries) = &job.write {
            let written = file.append(entries, &limits.spill_dir, limits.segment_bytes);
            let bytes = written.map_err(|error| self.fail("write", &error)).ok();
            well &= bytes.is_some();
            self.report(|| self.egress.lock().written(&job.peer, job.epoch, bytes));
        }
        if let Some(bytes) = job.read {
            let read = file.read(bytes).map_err(|error| self.fail("read", &error));
            well &= read.is_ok();
            let (entries, bytes) = read.unwrap_or_default();
            self.report(|| self.egress.lock().read_back(&job.peer, job.epoch, entries, bytes));
        }
        well
    }

    fn report(&self, change: impl FnOnce() -> News) {
        let news = change();
        self.egress.tell(news);
    }

    fn fail(&self, what: &str, error: &std::io::Error) {
        self.failures.add(1);
        let directory = self.egress.inner.limits.spill_dir.display();
        let text = format!(
            "cannot {what} spilled messages in {directory}: free space there, or choose another directory ({error})"
        );
        tracing::error!("{text}");
        self.cx.vitals.note(text);
    }
}
