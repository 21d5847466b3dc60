//! RangeWorker: one of the eighty that store what concerns one range of identifiers, each alone in its range, so that no
//! two write the same row at once.
//!
//! It gathers what is there, and has the batch written; while that goes on, more gathers. A message is settled when each of
//! its rows is stored or refused for good, never before.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use orchestrator_edge::cap_backoff;
use orchestrator_supervise::{
    Answer, Backoff, Child, ChildCx, Handle, Message, Outbox, StartCx, Vitals, metrics, reply,
};

use crate::{
    batch::Batch,
    messages::{Refusal, Request, WriteRequest},
    method::Method,
};

/// Waits before a writer that was restarted is asked again.
const RETRY: Backoff = Backoff { first: Duration::from_millis(50), max: Duration::from_secs(1) };

impl Message for Request {
    type Result = ();
}

/// The actor.
#[derive(Debug)]
pub(crate) struct RangeWorker {
    writes: Outbox<WriteRequest>,
    limit: usize,
    /// One queue for each method, as there is one on the broker.
    waiting: Vec<(Method, VecDeque<Request>)>,
    /// Index of the queue that is served next: none starves another.
    turn: usize,
    in_hand: Option<Batch>,
    /// Rows that wait or are in hand.
    rows: usize,
    failures: u32,
    vitals: Arc<Vitals>,
    metrics: WorkerMetrics,
}

metrics! {
    /// Metrics of a worker.
    struct WorkerMetrics {
        /// Rows that a worker holds.
        waiting: gauge("rows"),
        /// Rows of messages that were settled as stored, repeated ones included.
        stored: counter("rows"),
        /// Rows that the store can never take; they become dead letters.
        refused: counter("rows"),
        /// Batches that a worker had written.
        batches: counter("batches"),
    }
}

impl RangeWorker {
    /// A worker that writes batches of `limit` rows (or one larger message).
    pub(crate) fn new(writes: Outbox<WriteRequest>, limit: usize, cx: &StartCx) -> Self {
        let (vitals, metrics) = (cx.vitals.clone(), WorkerMetrics::register(&cx.vitals));
        metrics.waiting.set(0);
        Self {
            writes,
            limit,
            waiting: Vec::new(),
            turn: 0,
            in_hand: None,
            rows: 0,
            failures: 0,
            vitals,
            metrics,
        }
    }

    fn push(&mut self, request: Request) {
        let method = request.rows.method();
        self.rows += request.rows.len();
        self.metrics.waiting.set(self.rows as u64);
        match self.waiting.iter_mut().find(|(known, _)| *known == method) {
            Some((_, queue)) => queue.push_back(request),
            None => self.waiting.push((method, VecDeque::from([request]))),
        }
    }

    /// The next batch, queue after queue.
    fn gather(&mut self) -> Option<Batch> {
        let queues = self.waiting.len();
        (0..queues).find_map(|_| {
            self.turn = (self.turn + 1) % queues;
            Batch::gather(&mut self.waiting[self.turn].1, self.limit)
        })
    }

    /// Has the batch in hand written, or a new one.
    fn advance(&mut self, cx: &mut ChildCx<'_, Self>) {
        loop {
            if self.in_hand.is_none() {
                self.in_hand = self.gather();
            }
            let Some(batch) = &self.in_hand else { return };
            if batch.rows().is_empty() {
                self.settle(Vec::new());
                continue;
            }
            let (writes, rows) = (self.writes.clone(), batch.rows().clone());
            let written = async move {
                let (reply, answer) = reply();
                // The inbox closes with the process only; a writer that is restarted drops the reply.
                writes.send(WriteRequest { rows, reply }).await.ok()?;
                answer.await.ok()
            };
            return cx.spawn(written, Self::written);
        }
    }

    fn written(&mut self, refused: Option<Vec<Refusal>>, cx: &mut ChildCx<'_, Self>) {
        let Some(refused) = refused else {
            let delay = cap_backoff(RETRY).delay(self.failures, fastrand::f64());
            self.failures = self.failures.saturating_add(1);
            return cx.after(delay, |worker, cx| worker.advance(cx));
        };
        self.failures = 0;
        self.settle(refused);
        self.advance(cx);
    }

    fn settle(&mut self, refused: Vec<Refusal>) {
        if let Some(batch) = self.in_hand.take() {
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
    fn drained(&self) -> bool {
        self.in_hand.is_none() && self.waiting.iter().all(|(_, queue)| queue.is_empty())
    }
}

impl Handle<Request> for RangeWorker {
    fn handle(&mut self, request: Request, cx: &mut ChildCx<'_, Self>) -> Answer<Self, ()> {
        self.push(request);
        if self.in_hand.is_none() {
            self.advance(cx);
        }
        Answer::done()
    }
}
