//! The actor that takes jobs from other subsystems.

use orchestrator_exchange::{JobEnd, JobOffered, JobQueue, JobWithdrawn, PAYLOAD_BYTES_MAX};
use orchestrator_supervise::{Answer, Child, ChildCx, ChildSpec, Factory, Handle, Outbox, mailbox};

use crate::messages::StoreRequest;

/// Capacity of the mailbox.
const CAPACITY: usize = 1_024;
/// Maximum length of an attribute path, in bytes, encoded.
const ATTR_PATH_BYTES_MAX: usize = 4_096;

/// Passes offers and withdrawals to the store.
#[derive(Debug, Clone)]
pub(crate) struct Offers {
    requests: Outbox<StoreRequest>,
}

impl Offers {
    /// Returns the child and what other subsystems send to it.
    pub(crate) fn child(requests: Outbox<StoreRequest>) -> (ChildSpec, JobQueue) {
        let (mailbox, slot) = mailbox::<Self>(CAPACITY);
        let offers = Self { requests };
        let child = ChildSpec::worker("offers", Factory::actor(slot, move |_| Ok(offers.clone())));
        (child, JobQueue { offered: mailbox.recipient(), withdrawn: mailbox.recipient() })
    }
}

impl Child for Offers {}

impl Handle<JobOffered> for Offers {
    fn handle(&mut self, offer: JobOffered, _: &mut ChildCx<'_, Self>) -> Answer<Self, JobEnd> {
        if let Some(reason) = refusal(&offer) {
            return Answer::now(JobEnd::Refused(reason));
        }
        let (reply, answer) = Answer::later();
        // A refused message drops its reply, and the sender tries again.
        let _ = self.requests.tell(StoreRequest::Offer { offer, reply });
        answer
    }
}

impl Handle<JobWithdrawn> for Offers {
    fn handle(&mut self, withdrawn: JobWithdrawn, cx: &mut ChildCx<'_, Self>) -> Answer<Self, ()> {
        let requests = self.requests.clone();
        cx.atomically(
            async move {
                // Fails only when the process ends.
                let _ = requests.send(StoreRequest::Withdraw(withdrawn.job)).await;
            },
            |_, (), _| (),
        )
    }
}

/// Returns why the queue cannot have a job.
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
