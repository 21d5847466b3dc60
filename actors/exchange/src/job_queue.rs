//! The queue as other subsystems see it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use orchestrator_supervise::{AskError, Backoff, Recipient, StopToken};
use tokio::time::sleep;

use crate::{JobEnd, JobId, JobOffered, JobTakenBack, JobWithdrawn};

/// Time after which an offer without an answer is repeated. The answer to the former one is then lost; a
/// repetition has no effect on the job.
const REPEAT: Duration = Duration::from_secs(60);
/// Delays after an offer that the queue could not take: its mailbox is full, or it restarted.
const RETRY: Backoff = Backoff { first: Duration::from_millis(20), max: Duration::from_secs(1) };

/// Time for the answer to a [`JobTakenBack`], which a stop waits for.
const TAKE_BACK_MAX: Duration = Duration::from_secs(1);

/// The caller stopped before the job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stopped {
    /// A worker may have the job, or may have ended it. Otherwise the job is withdrawn.
    pub has_worker: bool,
}

/// Counts one caller as long as it exists.
struct Counted<'a>(&'a AtomicUsize);

impl<'a> Counted<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Relaxed);
        Self(count)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// The queue as other subsystems see it: where jobs are offered and withdrawn.
#[derive(Debug, Clone)]
pub struct JobQueue {
    /// Takes offers.
    pub offered: Recipient<JobOffered>,
    /// Takes withdrawals, after the offers that were sent before.
    pub withdrawn: Recipient<JobWithdrawn>,
    /// Takes withdrawals of jobs that nobody has, after the offers that were sent before.
    pub taken_back: Recipient<JobTakenBack>,
    /// Number of callers in [`Self::end_until`]. At a stop the queue waits for them a short time.
    pub waiting: Arc<AtomicUsize>,
}

impl JobQueue {
    /// Offers a job and waits until it has ended. The queue knows the end until the job is withdrawn. Cancel
    /// safe: the job stays offered.
    pub async fn end_of(&self, offer: &JobOffered) -> JobEnd {
        let mut failures = 0;
        loop {
            match self.offered.ask(offer.clone(), REPEAT).await {
                Ok(end) => return end,
                Err(AskError::TimedOut(_)) => failures = 0,
                Err(AskError::Full(_) | AskError::Lost) => {
                    sleep(RETRY.delay(failures, fastrand::f64())).await;
                    failures = failures.saturating_add(1);
                }
            }
        }
    }

    /// As [`Self::end_of`], but once `stop` is cancelled it withdraws the job, or leaves it to the worker
    /// that has it or has ended it.
    ///
    /// # Errors
    /// `stop` is cancelled. Without an answer of the queue, a worker may have the job.
    pub async fn end_until(&self, offer: &JobOffered, stop: &StopToken) -> Result<JobEnd, Stopped> {
        let _counted = Counted::new(&self.waiting);
        tokio::select! {
            biased;
            end = self.end_of(offer) => return Ok(end),
            () = stop.cancelled() => {}
        }
        let job = offer.job.clone();
        let is_free = self.taken_back.ask(JobTakenBack { job }, TAKE_BACK_MAX).await.unwrap_or(false);
        Err(Stopped { has_worker: !is_free })
    }

    /// Withdraws a job. If the mailbox is full, the withdrawal is lost, and a worker may do the job for
    /// nothing. A restart of the queue before then forgets the job.
    pub fn withdraw(&self, job: JobId) {
        let _ = self.withdrawn.tell(JobWithdrawn { job });
    }
}
