//! The writer: takes what the workers want written, as much as waits, and has the store commit it in one go.
//!
//! A store that is away is a state of the link, never a crash: requests wait, nothing is answered before it is durable. A group that the
//! store refuses takes turns with what waits, part by part.

use std::{cell::RefCell, rc::Rc, time::Duration};

use futures_util::{FutureExt, future::try_join_all};
use orchestrator_edge::{Reconnect, cap_backoff};
use orchestrator_supervise::{Backoff, Fault, Inbox, InboxSlot, StartCx, metrics};
use tokio::{
    sync::Mutex,
    task::yield_now,
    time::{Instant, sleep_until, timeout_at},
};

use crate::{
    edge::{left_out::LeftOut, pause},
    group::Group,
    messages::WriteRequest,
    refused_groups::RefusedGroups,
    row::Rows,
    store::{Store, StoreError, Written},
};

/// Rows that share a transaction at the most, beside one request that is larger.
const GROUP_ROWS: usize = 4_000;

/// Waits before a row that the store refused is tried again.
const ROW_RETRY: Backoff = Backoff { first: Duration::from_millis(50), max: Duration::from_secs(1) };

/// What one incarnation works with. Several lanes, each with a store of its own, take turns at the inbox.
struct Shift<'a, C> {
    cx: &'a StartCx,
    inbox: Mutex<Inbox<WriteRequest>>,
    tries: RefCell<Reconnect>,
    connect: C,
    metrics: WriterMetrics,
    left_out: RefCell<LeftOut>,
}

metrics! {
    /// Metrics of the writer.
    struct WriterMetrics {
        /// Transactions; what waits shares one.
        commits: counter("commits"),
        /// Rows committed, without repeated ones.
        rows: counter("rows") as "written",
        /// Writes and connections that failed and were tried again.
        retries: counter("retries"),
        /// Relations left out because an end or the path is not registered.
        unregistered: counter("rows"),
        /// Origins left out because their url is known under another identifier.
        url_taken: counter("rows"),
        /// Revisions stored without their preferred origin, which is not registered.
        origin_unknown: counter("rows"),
        /// Time spent in the store's writes.
        busy: counter("milliseconds"),
    }
}

/// One incarnation of the writer: `lanes` stores at once, each made by `connect`.
///
/// # Errors
/// None: a store that cannot be reached is tried again and again.
pub(crate) async fn run<S: Store>(
    cx: &StartCx,
    slot: &InboxSlot<WriteRequest>,
    tries: Reconnect,
    lanes: usize,
    connect: impl AsyncFn() -> Result<S, StoreError>,
) -> Result<(), Fault> {
    let metrics = WriterMetrics::register(&cx.vitals);
    let inbox = Mutex::new(slot.open());
    let shift = Rc::new(Shift {
        cx,
        inbox,
        tries: RefCell::new(tries),
        connect,
        metrics,
        left_out: RefCell::default(),
    });
    try_join_all((0..lanes).map(|_| lane(shift.clone()))).await.map(drop)
}

async fn lane<S, C>(shift: Rc<Shift<'_, C>>) -> Result<(), Fault>
where
    S: Store,
    C: AsyncFn() -> Result<S, StoreError>,
{
    let Some(mut store) = shift.connect().await else { return Ok(()) };
    let mut refused = RefusedGroups::default();
    while let Some(mut group) = shift.next(&mut refused).await {
        let _in_hand = shift.cx.vitals.begin_work("group");
        while let Some(part) = group.next_part() {
            let begun = Instant::now();
            let outcome = store.write(&part).await;
            shift.metrics.busy.add(begun.elapsed().as_millis() as u64);
            match outcome {
                Ok(written) => {
                    shift.count(&part, written);
                    group.part_stored();
                    break;
                }
                Err(StoreError::Refused(reason)) => {
                    group.part_refused(reason, retry_at);
                    break;
                }
                Err(StoreError::Away(reason)) => {
                    // It may hold a lock that the next one needs.
                    drop(store);
                    if !shift.endure(reason).await {
                        return Ok(());
                    }
                    match shift.connect().await {
                        Some(fresh) => store = fresh,
                        None => return Ok(()),
                    }
                }
            }
        }
        refused.put(group);
    }
    Ok(())
}

/// When a row that was refused so often is tried again.
fn retry_at(refusals: u32) -> Instant {
    Instant::now() + cap_backoff(ROW_RETRY).delay(refusals - 1, fastrand::f64())
}

impl<S, C> Shift<'_, C>
where
    S: Store,
    C: AsyncFn() -> Result<S, StoreError>,
{
    /// A store, however long it takes; None when asked to stop meanwhile.
    async fn connect(&self) -> Option<S> {
        loop {
            match (self.connect)().await {
                Ok(store) => {
                    self.tries.borrow_mut().connected();
                    return Some(store);
                }
                Err(StoreError::Away(reason) | StoreError::Refused(reason)) => {
                    if !self.endure(reason).await {
                        return None;
                    }
                }
            }
        }
    }
}

impl<C> Shift<'_, C> {
    /// What a lane writes next: what waits, in turn with the groups that were refused. None when asked to stop and nothing is left.
    async fn next(&self, refused: &mut RefusedGroups) -> Option<Group> {
        let Some(due) = refused.due(Instant::now()) else { return self.gather().await };
        if refused.is_next()
            && let Some(group) = refused.take(Instant::now())
        {
            return Some(group);
        }
        // A store that blocks lets nobody else run.
        yield_now().await;
        let gathered = if due <= Instant::now() {
            self.gather().now_or_never()
        } else {
            timeout_at(due, self.gather()).await.ok()
        };
        if let Some(group) = gathered.flatten() {
            refused.pass_turn();
            return Some(group);
        }
        // It is time, or there will be nothing else.
        sleep_until(due).await;
        refused.take(Instant::now())
    }

    /// What waits, up to a bound; None when asked to stop and nothing is left.
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

    /// Waits before the next try; false when asked to stop meanwhile.
    async fn endure(&self, reason: String) -> bool {
        self.metrics.retries.add(1);
        let delay = self.tries.borrow_mut().failed(reason);
        pause(self.cx, delay).await
    }

    fn count(&self, part: &[Rows], written: Written) {
        self.tries.borrow_mut().succeeded();
        let Written { unregistered, url_taken, origin_unknown } = written;
        self.metrics.commits.add(1);
        self.metrics.rows.add(part.iter().map(|rows| rows.len() as u64).sum());
        self.metrics.unregistered.add(unregistered);
        self.metrics.url_taken.add(url_taken);
        self.metrics.origin_unknown.add(origin_unknown);
        if let Some(rows) = self.left_out.borrow_mut().add(written, Instant::now().into_std()) {
            let Written { unregistered, url_taken, origin_unknown } = rows;
            tracing::info!(
                unregistered,
                url_taken,
                origin_unknown,
                "rows were left out, as the original leaves them out"
            );
        }
    }
}

#[cfg(test)]
mod tests;
