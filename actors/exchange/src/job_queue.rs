//! The queue as other subsystems see it.

use std::time::Duration;

use orchestrator_supervise::{AskError, Backoff, Recipient};
use tokio::time::sleep;

use crate::{JobEnd, JobId, JobOffered, JobWithdrawn};

/// Time after which an offer without an answer is repeated. The answer to the former one is then lost; a repetition has no effect
/// on the job.
const REPEAT: Duration = Duration::from_secs(60);
/// Delays after an offer that the queue could not take: its mailbox is full, or it restarted.
const RETRY: Backoff = Backoff { first: Duration::from_millis(20), max: Duration::from_secs(1) };

/// The queue as other subsystems see it: where jobs are offered and withdrawn.
#[derive(Debug, Clone)]
pub struct JobQueue {
    /// Takes offers.
    pub offered: Recipient<JobOffered>,
    /// Takes withdrawals, after the offers that were sent before.
    pub withdrawn: Recipient<JobWithdrawn>,
}

impl JobQueue {
    /// Offers a job and waits until it has ended. The queue knows the end until the job is withdrawn. Cancel safe: the job stays
    /// offered.
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

    /// Withdraws a job. A full mailbox drops the withdrawal: the job is then handed out in vain, unless the queue restarts before.
    pub fn withdraw(&self, job: JobId) {
        let _ = self.withdrawn.tell(JobWithdrawn { job });
    }
}
