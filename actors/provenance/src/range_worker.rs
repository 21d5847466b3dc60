//! One of the 80 workers of the pool. Each stores the rows of one exchange and one range, so that
//! no two workers write the same row at once.
//!
//! A worker writes one batch at a time and queues the messages that arrive meanwhile. A message is
//! settled when each of its rows is stored or permanently refused (CONTRACT PS01).

use std::{collections::VecDeque, sync::Arc, time::Duration};

use orchestrator_edge::{Retries, RetryPolicy};
use orchestrator_observe::metrics;
use orchestrator_supervise::{Child, ChildCx, Handle, Handled, Message, Outbox, StartCx, Vitals, reply};

use crate::{
    batch::Batch,
    messages::{Refusal, Request, WriteRequest},
    method::Method,
};

/// Delays before a request is sent again to a writer that was restarted. They are shorter than those of a
/// server, since the supervisor starts the writer again soon.
const RETRY: RetryPolicy = RetryPolicy::exception(Duration::from_millis(50), Duration::from_secs(1));

impl Message for Request {
    type Result = ();
}

#[derive(Debug)]
pub(crate) struct RangeWorker {
    writes: Outbox<WriteRequest>,
    limit: usize,
    /// One queue for each method, as on the broker.
    waiting: Vec<(Method, VecDeque<Request>)>,
    /// Index of the queue served last; queues are served in turn.
    last_queue: usize,
    current_batch: Option<Batch>,
    /// Rows of the queued messages and of the current batch.
    rows: usize,
    retries: Retries,
    vitals: Arc<Vitals>,
    metrics: WorkerMetrics,
}

metrics! {
    /// Metrics of a worker.
    struct WorkerMetrics {
        /// Rows that a worker has accepted and not yet settled.
        waiting: gauge("rows"),
        /// Rows that the workers reported as stored, including repeated rows.
        stored: counter("rows"),
        /// Rows that the store permanently refuses; they become dead letters.
        refused: counter("rows"),
        /// Batches written.
        batches: counter("batches"),
    }
}

impl RangeWorker {
    /// A batch has at most `limit` rows, or is one message with more.
    pub(crate) fn new(writes: Outbox<WriteRequest>, limit: usize, cx: &StartCx) -> Self {
        let (vitals, metrics) = (cx.vitals.clone(), WorkerMetrics::register(&cx.vitals));
        metrics.waiting.set(0);
        Self {
            writes,
            limit,
            waiting: Vec::new(),
            last_queue: 0,
            current_batch: None,
            rows: 0,
            retries: Retries::new(RETRY, cx.vitals.link_retry_max()),
            vitals,
            metrics,
        }
    }

    fn enqueue(&mut self, request: Request) {
        let method = request.rows.method();
        self.rows += request.rows.len();
        self.metrics.waiting.set(self.rows as u64);
        match self.waiting.iter_mut().find(|(known, _)| *known == method) {
            Some((_, queue)) => queue.push_back(request),
            None => self.waiting.push((method, VecDeque::from([request]))),
        }
    }

    /// Takes the next batch, from the methods' queues in turn.
    fn next_batch(&mut self) -> Option<Batch> {
        let queues = self.waiting.len();
        (0..queues).find_map(|_| {
            self.last_queue = (self.last_queue + 1) % queues;
            Batch::gather(&mut self.waiting[self.last_queue].1, self.limit)
        })
    }

    /// Sends the current batch to the writer, or takes the next one first.
    fn advance(&mut self, cx: &mut ChildCx<'_, Self>) {
        loop {
            if self.current_batch.is_none() {
                self.current_batch = self.next_batch();
            }
            let Some(batch) = &self.current_batch else { return };
            if batch.rows().is_empty() {
                self.settle(Vec::new());
                continue;
            }
            let (writes, rows) = (self.writes.clone(), batch.rows().clone());
            let written = async move {
                let (reply, answer) = reply();
                // The inbox closes only with the process; a writer that is restarted drops the
                // reply.
                writes.send(WriteRequest { rows, reply }).await.ok()?;
                answer.await.ok()
            };
            return cx.spawn(written, Self::written);
        }
    }

    fn written(&mut self, refused: Option<Vec<Refusal>>, cx: &mut ChildCx<'_, Self>) {
        let Some(refused) = refused else {
            return cx.after(self.retries.failed(), |worker, cx| worker.advance(cx));
        };
        self.retries.reset();
        self.settle(refused);
        self.advance(cx);
    }

    fn settle(&mut self, refused: Vec<Refusal>) {
        if let Some(batch) = self.current_batch.take() {
            self.rows -= batch.rows().len();
            if let Some(Refusal { reason, .. }) = refused.last() {
                self.vitals.note(format!("row refused: {reason}"));
            }
            let (stored, refused) = batch.settle(refused);
            self.metrics.waiting.set(self.rows as u64);
            self.metrics.stored.add(stored as u64);
            self.metrics.refused.add(refused as u64);
            self.metrics.batches.add(1);
        }
    }
}

impl Child for RangeWorker {
    /// Waits for the rows whose senders wait for the outcome.
    fn drained(&self) -> bool {
        let mut waiting = self.waiting.iter().flat_map(|(_, queue)| queue);
        self.current_batch.as_ref().is_none_or(Batch::is_abandoned)
            && waiting.all(|request| request.reply.is_closed())
    }
}

impl Handle<Request> for RangeWorker {
    fn handle(&mut self, request: Request, cx: &mut ChildCx<'_, Self>) -> Handled<Self, ()> {
        self.enqueue(request);
        if self.current_batch.is_none() {
            self.advance(cx);
        }
        Handled::done()
    }
}
