//! Verbs over many jobs: each is one request of an operator, and many requests to the store.

use std::{sync::Arc, time::Duration};

use orchestrator_queue_rules::storage::{BUMPS_MAX, Bumped, JobFilter, RequeuedSlice};
use orchestrator_subsystem::{Answered, ConsoleReply};
use orchestrator_supervise::{ChildCx, Handle, Handled, Outbox, Reply};
use tokio::time::Instant;

use super::{QueueConsole, questions, refused, restarted};
use crate::{
    messages::{MaintenanceRequest, StoreRequest},
    verbs::{BumpAll, BumpedAll, Peek, RequeueAll, RequeuedAll},
};

/// Time after which `requeue-all` answers although it goes on; the operator waits for 2 s.
const ANSWER_AFTER: Duration = Duration::from_millis(1_200);

impl Handle<RequeueAll> for QueueConsole {
    fn handle(
        &mut self,
        verb: RequeueAll,
        cx: &mut ChildCx<'_, Self>,
    ) -> Handled<Self, Answered<RequeueAll>> {
        if self.requeues {
            return Handled::now(Err(refused(
                "jobs are being requeued by another request: wait for its end",
            )));
        }
        self.requeues = true;
        let RequeueAll { state, code, since, until, pattern, reason: _ } = verb;
        let filter = JobFilter { state, pattern, exit_code: code, since, until };
        let (reply, answer) = Handled::later();
        let work = requeue_all(self.requests.clone(), filter.into(), reply);
        cx.spawn(work, |console, requeued, cx| {
            console.requeues = false;
            // Of a request that was answered before its end.
            if let Some(text) = requeued {
                tracing::info!(text, "the end of a request to requeue jobs");
                cx.vitals().note(text);
            }
        });
        answer
    }
}

impl Handle<BumpAll> for QueueConsole {
    fn handle(&mut self, verb: BumpAll, cx: &mut ChildCx<'_, Self>) -> Handled<Self, Answered<BumpAll>> {
        let (requests, maintenance) = (self.requests.clone(), self.maintenance.clone());
        let (reply, answer) = Handled::later();
        cx.spawn(
            async move {
                // The operator may have stopped waiting.
                let _ = reply.send(bump_all(requests, maintenance, verb).await);
            },
            |_, (), _| {},
        );
        answer
    }
}

/// Requeues the jobs of `filter` slice by slice, and answers at the end or after [`ANSWER_AFTER`]. Returns
/// the outcome for the log if it ends after the answer.
async fn requeue_all(
    requests: Outbox<StoreRequest>,
    filter: Arc<JobFilter>,
    reply: Reply<ConsoleReply<RequeuedAll>>,
) -> Option<String> {
    let answer_at = Instant::now() + ANSWER_AFTER;
    let mut reply = Some(reply);
    let (mut requeued, mut next) = (0, Some(String::new()));
    while let Some(from) = next {
        match slice(&requests, &filter, from).await {
            Ok(done) => {
                requeued += done.jobs;
                next = done.next;
            }
            Err(reason) => {
                let text = format!("{requeued} jobs were requeued, others were not: {reason}");
                let Some(reply) = reply else { return Some(text) };
                let _ = reply.send(Err(refused(text)));
                return None;
            }
        }
        if next.is_some()
            && Instant::now() >= answer_at
            && let Some(reply) = reply.take()
        {
            let _ = reply.send(Ok(RequeuedAll { requeued, finished: false }));
        }
    }
    let Some(reply) = reply else { return Some(format!("{requeued} jobs were requeued")) };
    let _ = reply.send(Ok(RequeuedAll { requeued, finished: true }));
    None
}

async fn slice(
    requests: &Outbox<StoreRequest>,
    filter: &Arc<JobFilter>,
    from: String,
) -> Result<RequeuedSlice, String> {
    let filter = filter.clone();
    let answer = requests.request(|reply| StoreRequest::RequeueSlice { filter, from, reply });
    answer.map_err(|full| full.to_string())?.await.map_err(|_| restarted("store"))
}

/// Bumps the first waiting jobs of the pattern, in their order.
async fn bump_all(
    requests: Outbox<StoreRequest>,
    maintenance: Outbox<MaintenanceRequest>,
    BumpAll { pattern, reason: _ }: BumpAll,
) -> ConsoleReply<BumpedAll> {
    let peek = Peek { n: BUMPS_MAX as u32 + 1, pattern: Some(pattern) };
    let jobs = maintenance.request(|reply| questions::request(peek, reply)).map_err(refused)?;
    let jobs = jobs.await.map_err(|_| refused(restarted("housekeeper")))?.map_err(refused)?;
    let mut answer = BumpedAll { bumped: Vec::new(), full: jobs.len() > BUMPS_MAX };
    for job in jobs.into_iter().take(BUMPS_MAX) {
        let attr_path = job.attr_path.clone();
        let done = requests.request(|reply| StoreRequest::Bump { attr_path, reply }).map_err(refused)?;
        match done.await.map_err(|_| refused(restarted("store")))? {
            Bumped::Done => answer.bumped.push(job.attr_path),
            // Handed out meanwhile.
            Bumped::NothingWaits => {}
            Bumped::TooMany => {
                answer.full = true;
                break;
            }
        }
    }
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use orchestrator_queue_rules::storage::{JobState, RequeuedSlice};
    use orchestrator_supervise::{inbox, reply};

    /// Requeues against a store that needs 100 ms for each slice of one job and is lost after `slices`, or
    /// has no more then. Returns the answer, the time until it, and what is told afterwards.
    async fn run(slices: u64, lost: bool) -> (ConsoleReply<RequeuedAll>, Duration, Option<String>) {
        let (requests, slot) = inbox(1);
        let mut store = slot.open();
        let serve = async move {
            let mut left = slices;
            while let Some(StoreRequest::RequeueSlice { from, reply, .. }) = store.recv().await {
                tokio::time::sleep(Duration::from_millis(100)).await;
                left -= 1;
                if left == 0 && lost {
                    return;
                }
                let next = (left > 0).then(|| format!("{from}a"));
                let is_last = next.is_none();
                let _ = reply.send(RequeuedSlice { jobs: 1, next });
                if is_last {
                    return;
                }
            }
        };
        let filter =
            JobFilter { state: JobState::Failed, pattern: None, exit_code: None, since: None, until: None };
        let (reply, answer) = reply();
        let begun = Instant::now();
        let answered = async { (answer.await.unwrap(), begun.elapsed()) };
        let (told, (answer, after), ()) =
            tokio::join!(requeue_all(requests, filter.into(), reply), answered, serve);
        (answer, after, told)
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_comes_in_time_and_the_rest_follows() {
        let (answer, after, told) = run(5, false).await;
        assert_eq!((answer.unwrap(), told), (RequeuedAll { requeued: 5, finished: true }, None));
        assert_eq!(after.as_millis(), 500);
        let (answer, after, told) = run(40, false).await;
        assert_eq!(answer.unwrap(), RequeuedAll { requeued: 12, finished: false });
        assert_eq!(after.as_millis(), 1_200);
        assert_eq!(told.as_deref(), Some("40 jobs were requeued"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_lost_store_is_told_with_the_number_of_jobs() {
        let (answer, _, told) = run(3, true).await;
        assert!(
            answer
                .unwrap_err()
                .to_string()
                .contains("2 jobs were requeued, others were not: the store was restarted")
        );
        assert_eq!(told, None);
        let (answer, _, told) = run(30, true).await;
        assert!(!answer.unwrap().finished);
        assert!(told.unwrap().starts_with("29 jobs were requeued, others were not"));
    }
}
