//! Group commit: all requests that wait share one transaction, and no answer leaves before it is durable.
//!
//! A turn is one transaction: either all requests that wait, or a slice of ingest or deletion of a few milliseconds. When
//! both wait they take turns, so that workers are answered while a million rows come in, and a worker waits for one slice
//! and its commit at the most. Knows any [`Storage`], no inbox and no clock but `now`.

mod slices;

use std::time::{Duration, Instant};

use slices::{SLICE_DELETE, Slices};

use crate::{
    messages::{IngestOp, StoreRequest},
    storage::{Deletion, HandoutId, Job, Requeued, RunState, Storage, StorageError, Upsert},
    store_metrics::StoreMetrics,
};

/// The work at hand and what is known of the storage between turns.
pub(crate) struct GroupCommit {
    requests: Vec<StoreRequest>,
    delivered: Vec<HandoutId>,
    ingest: Option<Ingest>,
    deleting: bool,
    delete_turn: bool,
    reconciled: bool,
    slices: Slices,
    /// The last turn was for requests: the next one is for ingest or deletion, if there is any.
    background_next: bool,
}

/// An ingest operation and how far it got.
struct Ingest {
    op: IngestOp,
    from: usize,
    /// Its long lines are with the storage already.
    staged: bool,
}

/// What a request's answer will be once the turn is committed.
enum Outcome {
    Nothing,
    Job(Option<Job>),
    Requeued(Requeued),
}

/// What one turn did; it counts only once it is committed.
struct Turn {
    outcomes: Vec<Outcome>,
    ingest: Progress,
    deleting: bool,
    counts: Counts,
}

#[derive(Default)]
struct Counts {
    finished: u64,
    undone: u64,
    rows: u64,
}

/// What became of the ingest operation in a turn.
enum Progress {
    Untouched,
    /// Rows of a deleted run are in its way.
    Blocked,
    At(usize),
    Done,
    Runs(Vec<RunState>),
}

impl GroupCommit {
    /// At the start of an incarnation: rows of deleted runs may be left, and nobody is answered before the first
    /// listing of the input directory was worked in.
    pub(crate) fn new() -> Self {
        Self {
            requests: Vec::new(),
            delivered: Vec::new(),
            ingest: None,
            deleting: true,
            delete_turn: false,
            reconciled: false,
            slices: Slices::default(),
            background_next: false,
        }
    }

    /// May requests have their turn? Not before the database was reconciled with the input directory.
    pub(crate) fn is_reconciled(&self) -> bool {
        self.reconciled
    }

    /// Requests waiting for a turn.
    pub(crate) fn waiting(&self) -> usize {
        self.requests.len()
    }

    pub(crate) fn add_request(&mut self, request: StoreRequest) {
        match request {
            // Not worth a commit of its own: it travels with the next group.
            StoreRequest::Delivered(handout) => self.delivered.push(handout),
            // The peer closed without reading: as long as the notice waits, there is a way back.
            StoreRequest::Undo(handout) => {
                self.delivered.retain(|delivered| *delivered != handout);
                self.requests.push(request);
            }
            other => self.requests.push(other),
        }
    }

    /// Is there room for an ingest operation?
    pub(crate) fn takes_ingest(&self) -> bool {
        self.ingest.is_none()
    }

    pub(crate) fn add_ingest(&mut self, op: IngestOp) {
        // In every build: an operation that is overwritten would be rows lost.
        assert!(self.ingest.is_none(), "one ingest operation at a time keeps their order");
        self.ingest = Some(Ingest { op, from: 0, staged: false });
    }

    /// Is there anything that wants a turn now?
    pub(crate) fn has_work(&self) -> bool {
        !self.served().is_empty() || self.ingest.is_some() || self.deleting
    }

    /// Is the next turn one for requests, if there is `other` work in the background beside ingest and deletion?
    pub(crate) fn serves_next(&self, other: bool) -> bool {
        let background = self.ingest.is_some() || self.deleting || other;
        let requests = !self.served().is_empty();
        requests && !(background && self.background_next)
    }

    /// Something else took the place of a turn of ingest or deletion: requests that wait are next.
    pub(crate) fn background_had_its_turn(&mut self) {
        self.background_next = false;
    }

    /// The requests that may be served.
    fn served(&self) -> &[StoreRequest] {
        if self.reconciled { &self.requests } else { &[] }
    }

    /// Are there notices that can wait for company?
    pub(crate) fn has_notices(&self) -> bool {
        !self.delivered.is_empty()
    }

    /// The first transaction of an incarnation: what a former one handed out and nobody received is taken back, after
    /// the notices that still waited were heard.
    pub(crate) fn recover<S: Storage>(&mut self, store: &mut S) -> Result<usize, StorageError> {
        let recovered = (|| {
            store.begin()?;
            for handout in &self.delivered {
                store.delivered(*handout)?;
            }
            let undone = store.undo_undelivered()?;
            store.commit()?;
            Ok(undone)
        })();
        match recovered {
            Ok(undone) => {
                self.delivered.clear();
                Ok(undone)
            }
            Err(error) => {
                store.rollback()?;
                Err(error)
            }
        }
    }

    /// One transaction over what waits. `now` is wall-clock time in seconds, read once per request.
    ///
    /// # Errors
    /// Nothing happened, everything still waits, and the turn may be tried again.
    pub(crate) fn turn<S: Storage>(
        &mut self,
        store: &mut S,
        paused: bool,
        metrics: &StoreMetrics,
        now: impl Fn() -> i64,
    ) -> Result<(), StorageError> {
        if let Some(Ingest { op: IngestOp::Rows { rows, .. }, staged, .. }) = &mut self.ingest
            && !*staged
        {
            match store.stage(rows) {
                Ok(()) => *staged = true,
                Err(error) => tracing::warn!(%error, "a long line is stored from memory"),
            }
        }
        let serves = self.serves_next(false);
        // Whatever becomes of this turn: on a disk that is full for ingest, requests may still find room.
        self.background_next = serves;
        let begun = Instant::now();
        match self.attempt(store, serves, paused, &now) {
            Ok(turn) => {
                if matches!(turn.ingest, Progress::At(_)) {
                    self.slices.ingest_took(begun.elapsed());
                }
                self.settle(turn, metrics);
                Ok(())
            }
            Err(error) => {
                store.rollback()?;
                Err(error)
            }
        }
    }

    fn attempt<S: Storage>(
        &self,
        store: &mut S,
        serves: bool,
        paused: bool,
        now: &impl Fn() -> i64,
    ) -> Result<Turn, StorageError> {
        store.begin()?;
        for handout in &self.delivered {
            store.delivered(*handout)?;
        }
        let mut turn = Turn {
            outcomes: Vec::new(),
            ingest: Progress::Untouched,
            deleting: self.deleting,
            counts: Counts::default(),
        };
        if serves {
            for request in self.served() {
                turn.outcomes.push(serve(store, request, paused, now(), &mut turn.counts)?);
            }
        } else {
            self.background(store, &mut turn)?;
        }
        store.commit()?;
        Ok(turn)
    }

    /// A slice of ingest or deletion. They take turns; a deletion that is in the way of an ingest goes first.
    fn background<S: Storage>(&self, store: &mut S, turn: &mut Turn) -> Result<(), StorageError> {
        let delete_first = self.deleting && self.delete_turn;
        if let Some(waiting) = self.ingest.as_ref().filter(|_| !delete_first) {
            turn.ingest = waiting.step(store, self.slices.ingest(), &mut turn.counts)?;
        }
        if self.deleting && matches!(turn.ingest, Progress::Untouched | Progress::Blocked) {
            turn.deleting = store.delete_slice(SLICE_DELETE)? != Deletion::Idle;
        }
        Ok(())
    }

    /// Takes over what is durable now, and lets the answers out.
    fn settle(&mut self, turn: Turn, metrics: &StoreMetrics) {
        self.delivered.clear();
        self.deleting = turn.deleting;
        if turn.outcomes.is_empty() {
            self.delete_turn = !self.delete_turn;
        }
        metrics.groups.add(1);
        metrics.finished.add(turn.counts.finished);
        metrics.undone.add(turn.counts.undone);
        metrics.rows.add(turn.counts.rows);
        match turn.ingest {
            Progress::Untouched | Progress::Blocked => {}
            Progress::At(from) => self.ingest.iter_mut().for_each(|ingest| ingest.from = from),
            Progress::Done => self.finish_ingest(None),
            Progress::Runs(runs) => self.finish_ingest(Some(runs)),
        }
        let rest = self.requests.split_off(turn.outcomes.len());
        let served = std::mem::replace(&mut self.requests, rest);
        for (request, outcome) in served.into_iter().zip(turn.outcomes) {
            self.answer(request, outcome, metrics);
        }
    }

    fn finish_ingest(&mut self, runs: Option<Vec<RunState>>) {
        match self.ingest.take().map(|ingest| ingest.op) {
            Some(IngestOp::Reconciled) => self.reconciled = true,
            Some(IngestOp::DeleteRun { .. }) => self.deleting = true,
            // A reader that went away asks again after its restart.
            Some(IngestOp::KnownRuns { reply }) => drop(reply.send(runs.unwrap_or_default())),
            _ => {}
        }
    }

    fn answer(&mut self, request: StoreRequest, outcome: Outcome, metrics: &StoreMetrics) {
        match (request, outcome) {
            (StoreRequest::Ready { reply } | StoreRequest::Done { reply, .. }, Outcome::Job(job)) => {
                metrics.answered(job.is_some());
                if let Err(Some(job)) = reply.send(job) {
                    // The connection went away meanwhile and never had the job.
                    self.requests.push(StoreRequest::Undo(job.handout));
                }
            }
            // An operator who no longer waits needs no answer.
            (StoreRequest::Requeue { reply, .. }, Outcome::Requeued(done)) => drop(reply.send(done)),
            _ => {}
        }
    }
}

fn serve<S: Storage>(
    store: &mut S,
    request: &StoreRequest,
    paused: bool,
    now: i64,
    counts: &mut Counts,
) -> Result<Outcome, StorageError> {
    let reply = match request {
        StoreRequest::Ready { reply } => reply,
        StoreRequest::Done { attr_path, exit_code, reply } => {
            counts.finished += u64::from(store.finish(attr_path, *exit_code, now)?);
            reply
        }
        StoreRequest::Delivered(handout) => {
            store.delivered(*handout)?;
            return Ok(Outcome::Nothing);
        }
        StoreRequest::Undo(handout) => {
            counts.undone += u64::from(store.undo(*handout)?);
            return Ok(Outcome::Nothing);
        }
        StoreRequest::Requeue { attr_path, .. } => {
            return Ok(Outcome::Requeued(store.requeue(attr_path, now)?));
        }
    };
    // A connection that is gone gets no job; what it reported counts all the same.
    if reply.is_closed() {
        return Ok(Outcome::Nothing);
    }
    if paused {
        return Ok(Outcome::Job(None));
    }
    Ok(Outcome::Job(store.dequeue(now)?))
}

impl Ingest {
    /// Carries the operation on for about `slice`.
    fn step<S: Storage>(
        &self,
        store: &mut S,
        slice: Duration,
        counts: &mut Counts,
    ) -> Result<Progress, StorageError> {
        match &self.op {
            IngestOp::UpsertRun { run, complete } => match store.upsert_run(run, *complete)? {
                Upsert::Done => Ok(Progress::Done),
                Upsert::Pending => Ok(Progress::Blocked),
            },
            IngestOp::Rows { run, rows, complete } => {
                let deadline = Instant::now() + slice;
                let reached = match store.enqueue(run, rows, self.from, Some(deadline)) {
                    Ok(reached) => reached,
                    Err(error @ StorageError::UnknownRun { .. }) => {
                        tracing::warn!(%error, "rows of a run that is gone are dropped");
                        return Ok(Progress::Done);
                    }
                    Err(error) => return Err(error),
                };
                counts.rows += (reached - self.from) as u64;
                if reached < rows.len() {
                    return Ok(Progress::At(reached));
                }
                // `complete` is durable together with the last rows, so that a crash before it reads the file again.
                if *complete && store.upsert_run(run, true)? == Upsert::Pending {
                    return Ok(Progress::At(reached));
                }
                Ok(Progress::Done)
            }
            IngestOp::DeleteRun { run } => {
                store.mark_deleted(run)?;
                Ok(Progress::Done)
            }
            IngestOp::KnownRuns { .. } => Ok(Progress::Runs(store.known_runs()?)),
            IngestOp::Reconciled => Ok(Progress::Done),
        }
    }
}

#[cfg(test)]
mod tests;
