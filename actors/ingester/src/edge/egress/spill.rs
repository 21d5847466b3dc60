//! Thread that writes messages beyond a worker's memory budget to disk and reads them back.
//!
//! Its jobs are in the queues, so a crash loses nothing: a message leaves memory after it is
//! written, and the disk after it is read. The queues also bound the pending work.

use std::time::{Duration, Instant};

use orchestrator_edge::{is_full, report_full};
use orchestrator_observe::{Metric, MetricKind};
use orchestrator_supervise::{Factory, Fault, StartCx, block_on};

use super::{
    Egress,
    peers::{DiskJob, Wakeups},
};

/// Delay after a failed write or read. While writing fails, reading continues.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Factory of the thread that spills for `egress`. While it is down, or the disk is full or fails, spilling
/// counts as exhausted and [`Burst::try_send`](super::Burst::try_send) refuses messages beyond the memory
/// budget.
pub(crate) fn spill_factory(egress: Egress) -> Factory {
    Factory::thread(move |cx: StartCx| {
        let failures = cx.vitals.register(
            "spill_failures",
            "failures",
            MetricKind::Counter,
            "Failed writes and reads of spilled messages.",
        );
        let wakeups = egress.lock().retry_disk(true);
        egress.wake(wakeups);
        SpillWorker { egress: &egress, cx: &cx, failures }.run();
        Ok::<(), Fault>(())
    })
}

/// One incarnation of the thread.
struct SpillWorker<'a> {
    egress: &'a Egress,
    cx: &'a StartCx,
    failures: Metric,
}

impl SpillWorker<'_> {
    fn run(&self) {
        let mut retry_at = None;
        while !self.cx.stop.is_cancelled() {
            let work = self.cx.vitals.begin_work("spill");
            if retry_at.is_some_and(|at| Instant::now() >= at) {
                retry_at = None;
                let wakeups = self.egress.lock().retry_disk(false);
                self.egress.wake(wakeups);
            }
            // Without the lock, since disks are slow.
            let job = self.egress.lock().next_job();
            if let Some(job) = job {
                if !self.execute(job) {
                    retry_at.get_or_insert_with(|| Instant::now() + RETRY_DELAY);
                }
                continue;
            }
            drop(work);
            if retry_at.is_none() {
                // Nothing is left to be written.
                self.cx.vitals.clear_blocker();
            }
            // The outcome does not matter: the loop checks again.
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
    fn execute(&self, job: DiskJob) -> bool {
        let limits = &self.egress.inner.limits;
        let mut file = job.file.lock();
        let mut succeeded = true;
        if let Some(entries) = &job.write {
            let written = file.append(entries, &limits.spill_dir, limits.segment_bytes);
            let bytes = written.map_err(|error| self.fail("write", &error)).ok();
            succeeded &= bytes.is_some();
            if succeeded {
                self.cx.vitals.clear_blocker();
            }
            self.report(|| self.egress.lock().written(&job.peer, job.epoch, bytes));
        }
        if let Some(bytes) = job.read {
            let read = file.read(bytes).map_err(|error| self.fail("read", &error));
            succeeded &= read.is_ok();
            let (entries, bytes) = read.unwrap_or_default();
            self.report(|| self.egress.lock().read_back(&job.peer, job.epoch, entries, bytes));
        }
        succeeded
    }

    fn report(&self, change: impl FnOnce() -> Wakeups) {
        let wakeups = change();
        self.egress.wake(wakeups);
    }

    fn fail(&self, what: &str, error: &std::io::Error) {
        self.failures.add(1);
        let directory = self.egress.inner.limits.spill_dir.display();
        let text = format!(
            "cannot {what} spilled messages in {directory}: free space there, or choose another directory ({error})"
        );
        tracing::error!("{text}");
        if is_full(error) {
            report_full(&self.cx.vitals, &self.egress.inner.limits.spill_dir, &text);
        }
        self.cx.vitals.note(text);
    }
}
