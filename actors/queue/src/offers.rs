//! The actor that takes jobs from other subsystems.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use orchestrator_exchange::{
    JobEnd, JobId, JobOffered, JobQueue, JobTakenBack, JobWithdrawn, PAYLOAD_BYTES_MAX,
};
use orchestrator_queue_rules::storage::OfferedJob;
use orchestrator_supervise::{
    Child, ChildCx, ChildSpec, Factory, Handle, Handled, Outbox, Shutdown, mailbox,
};

use crate::messages::StoreRequest;

/// Capacity of the mailbox.
const CAPACITY: usize = 1_024;
/// Maximum length of an attribute path, in bytes, encoded.
const ATTR_PATH_BYTES_MAX: usize = 4_096;

/// Time for which a stop waits for those who ask for their jobs.
const STOP_MAX: Duration = Duration::from_secs(1);
/// Time after a question at which its asker has the answer, as a rule.
const AGAIN: Duration = Duration::from_millis(20);

/// Passes offers and withdrawals to the store.
#[derive(Debug, Clone)]
pub(crate) struct Offers {
    requests: Outbox<StoreRequest>,
    /// Number of those that ask for their jobs at a stop.
    waiting: Arc<AtomicUsize>,
}

impl Offers {
    pub(crate) fn child(requests: Outbox<StoreRequest>) -> (ChildSpec, JobQueue) {
        let (mailbox, slot) = mailbox::<Self>(CAPACITY);
        let waiting = Arc::<AtomicUsize>::default();
        let offers = Self { requests: requests.clone(), waiting: waiting.clone() };
        let child = ChildSpec::worker("offers", Factory::actor(slot, move |_| Ok(offers.clone())))
            .shutdown(Shutdown::After(STOP_MAX))
            .waits_for(&requests);
        let queue = JobQueue {
            offered: mailbox.recipient(),
            withdrawn: mailbox.recipient(),
            taken_back: mailbox.recipient(),
            waiting,
        };
        (child, queue)
    }
}

impl Child for Offers {
    /// Subsystems stop side by side: those that have jobs here ask for them before the queue is gone.
    fn drained(&self) -> bool {
        self.waiting.load(Relaxed) == 0
    }
}

impl Handle<JobOffered> for Offers {
    fn handle(&mut self, offer: JobOffered, _: &mut ChildCx<'_, Self>) -> Handled<Self, JobEnd> {
        if let Some(reason) = refusal(&offer) {
            return Handled::now(JobEnd::Refused(reason));
        }
        let (reply, answer) = Handled::later();
        // A refused message drops its reply, and the sender tries again.
        let _ = self.requests.tell(StoreRequest::Offer {
            job: offered_job(&offer.job),
            former: offer.former_claim,
            payload: offer.payload,
            reply,
        });
        answer
    }
}

impl Handle<JobWithdrawn> for Offers {
    fn handle(&mut self, withdrawn: JobWithdrawn, cx: &mut ChildCx<'_, Self>) -> Handled<Self, ()> {
        let requests = self.requests.clone();
        cx.atomically(
            async move {
                // Fails only when the process ends.
                let _ = requests.send(StoreRequest::Withdraw(offered_job(&withdrawn.job))).await;
            },
            |_, (), _| (),
        )
    }
}

impl Handle<JobTakenBack> for Offers {
    fn handle(&mut self, taken: JobTakenBack, cx: &mut ChildCx<'_, Self>) -> Handled<Self, bool> {
        // The asker is counted until it has the answer, so `drained` is asked again then.
        cx.after(AGAIN, |_, _| ());
        let (reply, answer) = Handled::later();
        // A refused message drops its reply, and the sender leaves the job to its worker.
        let _ = self.requests.tell(StoreRequest::TakeBack { job: offered_job(&taken.job), reply });
        answer
    }
}

fn offered_job(job: &JobId) -> OfferedJob {
    let (owner, attr_path) = job.owned_path();
    OfferedJob::new(owner, attr_path, job.claim())
}

fn refusal(offer: &JobOffered) -> Option<String> {
    let (path, payload) = (offer.job.attr_path().len(), offer.payload.len());
    if path == 0 {
        Some("its attribute path is empty".to_owned())
    } else if path > ATTR_PATH_BYTES_MAX {
        Some(format!("its attribute path has {path} bytes: at most {ATTR_PATH_BYTES_MAX} are allowed"))
    } else if payload > PAYLOAD_BYTES_MAX {
        Some(format!("its payload has {payload} bytes: at most {PAYLOAD_BYTES_MAX} are allowed"))
    } else {
        None
    }
}
