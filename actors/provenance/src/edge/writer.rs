//! The writer: merges waiting write requests into groups and commits each group to the store
//! (CONTRACT PO07).
//!
//! An unavailable store is a state of the link, not a crash: requests wait, and none is answered
//! before its rows are durable. The parts of a refused group take turns with waiting requests.

use std::{cell::RefCell, rc::Rc, time::Duration};

use futures_util::{FutureExt, future::try_join_all};
use orchestrator_edge::{LinkState, RetryPolicy};
use orchestrator_observe::{LinkFailure, metrics};
use orchestrator_supervise::{Fault, Inbox, InboxSlot, StartCx};
use tokio::{
    sync::Mutex,
    task::yield_now,
    time::{Instant, sleep, sleep_until, timeout_at},
};

use crate::{
    edge::{omissions::OmissionLog, unless_stopped},
    group::Group,
    messages::WriteRequest,
    refused_groups::RefusedGroups,
    row::Rows,
    store::{OmittedRows, Store, StoreError},
};

/// Maximum number of rows in a transaction, except for one larger request.
const GROUP_ROWS: usize = 4_000;

/// Delays before a refused row is tried again (CONTRACT PE03), which are no attempts to reach the store.
const ROW_RETRY: RetryPolicy = RetryPolicy::exception(Duration::from_millis(50), Duration::from_secs(1));

/// Number of times that a group is written again after an error that may be that of a row (CONTRACT PE17).
const UNDECIDED_RETRIES: u32 = 5;

/// Delays before these tries. A call of the console waits 1.8 s for all tries of its rows.
const UNDECIDED_RETRY: RetryPolicy =
    RetryPolicy::exception(Duration::from_millis(50), Duration::from_millis(100));

/// Interval at which a stopped writer checks whether somebody still waits for its answer.
const ABANDONED_CHECK: Duration = Duration::from_millis(50);

/// State of one incarnation. Each connection has a store of its own; all share the inbox.
struct WriterRun<'a, C> {
    cx: &'a StartCx,
    inbox: Mutex<Inbox<WriteRequest>>,
    link: LinkState,
    connect: C,
    metrics: WriterMetrics,
    omissions: RefCell<OmissionLog>,
}

metrics! {
    /// Metrics of the writer.
    struct WriterMetrics {
        /// Transactions committed.
        commits: counter("commits"),
        /// Rows committed, not counting repeated rows.
        rows: counter("rows") as "written",
        /// Writes and connections that failed and were repeated.
        retries: counter("retries"),
        /// Relations left out because their source, destination or path is not registered.
        unregistered: counter("rows"),
        /// Origins left out because their url is known under another identifier.
        url_taken: counter("rows"),
        /// Revisions stored without their preferred origin, which is not registered.
        origin_unknown: counter("rows"),
        /// Time spent in writes of the store.
        busy: counter("milliseconds"),
    }
}

/// Runs one incarnation with `write_connections` stores in parallel, each opened by `connect`.
///
/// # Errors
/// None: an unavailable store is tried again until the child is stopped.
pub(crate) async fn run<S: Store>(
    cx: &StartCx,
    slot: &InboxSlot<WriteRequest>,
    link: LinkState,
    write_connections: usize,
    connect: impl AsyncFn() -> Result<S, StoreError>,
) -> Result<(), Fault> {
    cx.vitals.set_work_unit("row");
    let metrics = WriterMetrics::register(&cx.vitals);
    let inbox = Mutex::new(slot.open());
    let run = Rc::new(WriterRun { cx, inbox, link, connect, metrics, omissions: RefCell::default() });
    try_join_all((0..write_connections).map(|_| write_over_connection(run.clone()))).await.map(drop)
}

async fn write_over_connection<S, C>(run: Rc<WriterRun<'_, C>>) -> Result<(), Fault>
where
    S: Store,
    C: AsyncFn() -> Result<S, StoreError>,
{
    let Some(mut store) = run.connect(None).await else { return Ok(()) };
    let mut refused = RefusedGroups::default();
    while let Some(mut group) = run.next(&mut refused).await {
        let _work = run.cx.vitals.begin_work("group");
        let mut undecided = 0;
        while let Some(part) = group.next_part() {
            let (started, request) = (Instant::now(), run.link.request());
            let outcome = tokio::select! {
                biased;
                outcome = store.write(&part) => outcome,
                // A frozen server would delay the stop. The broker delivers the rows again.
                () = run.stopped_in_vain(&group) => return Ok(()),
            };
            drop(request);
            run.metrics.busy.add(started.elapsed().as_millis() as u64);
            match outcome {
                Ok(omitted) => {
                    run.count(&part, omitted);
                    group.part_stored();
                    break;
                }
                Err(StoreError::Undecided(reason))
                    if undecided < UNDECIDED_RETRIES && !group.is_refused() =>
                {
                    // The store answers, so its link stays up.
                    run.metrics.retries.add(1);
                    run.cx.vitals.note(reason);
                    undecided += 1;
                    if !run.link.wait(UNDECIDED_RETRY.delay(undecided)).await {
                        return Ok(());
                    }
                }
                Err(StoreError::Refused(reason) | StoreError::Undecided(reason)) => {
                    group.part_refused(reason, |refusals| Instant::now() + ROW_RETRY.delay(refusals));
                    break;
                }
                Err(StoreError::Unavailable(failure)) => {
                    // An open connection may hold locks that the next one needs.
                    drop(store);
                    let Some(fresh) = run.connect(Some(failure)).await else { return Ok(()) };
                    store = fresh;
                }
            }
        }
        refused.push(group);
    }
    Ok(())
}

impl<S, C> WriterRun<'_, C>
where
    S: Store,
    C: AsyncFn() -> Result<S, StoreError>,
{
    /// Opens a store, however long it takes, first after a delay if one has just `failed`; None when
    /// the child is stopped.
    async fn connect(&self, mut failed: Option<LinkFailure>) -> Option<S> {
        loop {
            if let Some(failure) = failed {
                self.metrics.retries.add(1);
                if !self.link.retry(failure).await {
                    return None;
                }
            }
            let attempt = self.link.request();
            let connected = unless_stopped(self.cx, (self.connect)()).await?;
            drop(attempt);
            match connected {
                Ok(store) => {
                    self.link.connected();
                    return Some(store);
                }
                Err(error) => failed = Some((&error).into()),
            }
        }
    }
}

impl<C> WriterRun<'_, C> {
    /// Waiting requests in turn with refused groups. None when the child is stopped and all is written.
    async fn next(&self, refused: &mut RefusedGroups) -> Option<Group> {
        let Some(due) = refused.due(Instant::now()) else { return self.gather().await };
        if refused.others_served()
            && let Some(group) = refused.take(Instant::now())
        {
            return Some(group);
        }
        // A blocking store would otherwise starve the other tasks of this thread.
        yield_now().await;
        let gathered = if due <= Instant::now() {
            self.gather().now_or_never()
        } else {
            timeout_at(due, self.gather()).await.ok()
        };
        if let Some(group) = gathered.flatten() {
            refused.set_others_served();
            return Some(group);
        }
        // The time has come, or the child is stopped and no request will follow.
        sleep_until(due).await;
        refused.take(Instant::now())
    }

    /// Merges the waiting requests, up to [`GROUP_ROWS`]; None when the child is stopped and none
    /// is left.
    async fn gather(&self) -> Option<Group> {
        let mut inbox = self.inbox.lock().await;
        let first = inbox.next(self.cx).await?;
        let (mut rows, mut requests) = (first.rows.len(), vec![first]);
        while rows < GROUP_ROWS
            && let Some(more) = inbox.try_recv()
        {
            rows += more.rows.len();
            requests.push(more);
        }
        Some(Group::new(requests))
    }

    /// Waits for a stop after which nobody waits for the answer to `group`.
    async fn stopped_in_vain(&self, group: &Group) {
        self.cx.stop.cancelled().await;
        while !group.is_abandoned() {
            sleep(ABANDONED_CHECK).await;
        }
    }

    fn count(&self, part: &[Rows], omitted: OmittedRows) {
        self.link.succeeded();
        let OmittedRows { unregistered, url_taken, origin_unknown } = omitted;
        self.cx.vitals.record_work();
        self.metrics.commits.add(1);
        self.metrics.rows.add(part.iter().map(|rows| rows.len() as u64).sum());
        self.metrics.unregistered.add(unregistered);
        self.metrics.url_taken.add(url_taken);
        self.metrics.origin_unknown.add(origin_unknown);
        if let Some(rows) = self.omissions.borrow_mut().add(omitted, Instant::now().into_std()) {
            let OmittedRows { unregistered, url_taken, origin_unknown } = rows;
            tracing::info!(unregistered, url_taken, origin_unknown, "rows left out, as in the original");
        }
    }
}

#[cfg(test)]
mod tests;
