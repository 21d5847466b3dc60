//! Subsystems that wait for the end of the jobs that they have offered.

use std::{collections::HashMap, sync::Arc};

use orchestrator_exchange::{JobEnd, JobFinished};
use orchestrator_queue_rules::storage::{OfferEnd, OfferState, OfferedJob};
use orchestrator_supervise::Reply;

/// Maximum number of waiting subsystems' requests. One more is dropped, and its sender offers the job again.
const WAITING_MAX: usize = 16_384;

/// Answer to an offer, for after the commit.
pub(super) enum Offered {
    /// Nobody waits for the answer any more, or too many do: the job was not added.
    Dropped,
    /// The job waits or is in flight.
    Open,
    Ended(JobEnd),
}

impl From<OfferState> for Offered {
    fn from(state: OfferState) -> Self {
        match state {
            OfferState::Open => Self::Open,
            OfferState::Finished(end) => Self::Ended(finished(end)),
        }
    }
}

fn finished(OfferEnd { exit_code, seconds }: OfferEnd) -> JobEnd {
    JobEnd::Finished(JobFinished { exit_code, seconds })
}

/// Claims and replies of offered jobs that have not ended, by owner and attribute path.
#[derive(Default)]
pub(super) struct Offers(HashMap<(Arc<str>, Arc<str>), WaitingOffer>);

struct WaitingOffer {
    claim: Arc<str>,
    reply: Reply<JobEnd>,
}

impl Offers {
    /// Returns the answer to an offer that the storage need not see.
    pub(super) fn decide(&self, job: &OfferedJob, reply: &Reply<JobEnd>) -> Option<Offered> {
        let waiting = self.0.get(&job.owned_path());
        if waiting.is_some_and(|waiting| *waiting.claim != *job.claim() && !waiting.reply.is_closed()) {
            return Some(Offered::Ended(JobEnd::Taken));
        }
        (reply.is_closed() || self.0.len() >= WAITING_MAX).then_some(Offered::Dropped)
    }

    /// Answers an offer after the commit, or keeps its reply.
    pub(super) fn answer(&mut self, job: &OfferedJob, reply: Reply<JobEnd>, offered: Offered) {
        match offered {
            Offered::Dropped => {}
            Offered::Open => {
                self.0.insert(job.owned_path(), WaitingOffer { claim: job.claim().into(), reply });
            }
            // A sender that has stopped waiting asks again, or withdraws the job.
            Offered::Ended(end) => drop(reply.send(end)),
        }
    }

    /// Answers offers whose jobs have ended, after the commit.
    pub(super) fn ended(&mut self, jobs: Vec<(OfferedJob, OfferEnd)>) {
        for (job, end) in jobs {
            if let Some(reply) = self.take(&job) {
                drop(reply.send(finished(end)));
            }
        }
    }

    /// Forgets the reply of a job that was withdrawn.
    pub(super) fn withdrawn(&mut self, job: &OfferedJob) {
        drop(self.take(job));
    }

    fn take(&mut self, job: &OfferedJob) -> Option<Reply<JobEnd>> {
        let path = job.owned_path();
        let is_same = self.0.get(&path).is_some_and(|waiting| *waiting.claim == *job.claim());
        self.0.remove(&path).filter(|_| is_same).map(|waiting| waiting.reply)
    }
}
