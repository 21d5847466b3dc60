//! Group commit: waiting requests share one transaction, and answers are sent after its commit.
//!
//! A turn is one transaction: either all waiting requests, or one slice of ingest or deletion that takes a
//! few milliseconds. The two kinds alternate, so that a worker waits for one slice and its commit at most. A
//! slice of deletion needs no sync, so it runs while the commit of the requests before it is synced. It ends
//! sooner if new requests wait. Works with any [`Storage`]; it has no inbox and no clock except `now`.

mod answers;
mod ingest;
mod offers;
mod slices;
mod sync_beside;
mod turn;

use ingest::{Ingest, IngestProgress};
use offers::{Offered, Offers};
use orchestrator_queue_rules::storage::{HandoutId, Log, Operation, RunId, RunState, Storage, StorageError};
use slices::Slices;
use sync_beside::sync_beside;
use turn::{RequestAnswer, Turn, operation};

use crate::{
    messages::{IngestOp, StoreRequest},
    store_metrics::{FinishedJob, StoreMetrics},
};

/// Maximum number of consecutive turns without a sync. A sync takes longer the more was written before it.
const UNSYNCED_MAX: u32 = 2;
/// Maximum number of slices of deletion beside one sync, which takes longer than a slice on a busy disk only.
/// Each adds about 2.5 MB to the log.
const BESIDE_SYNC_MAX: usize = 8;

/// Requests and operations that wait for a turn, and state kept between turns.
pub(crate) struct GroupCommit {
    requests: Vec<StoreRequest>,
    /// Requests whose jobs have no room, and the size of the payloads that were not sent then, in bytes.
    without_room: (Vec<StoreRequest>, u64),
    delivered: Vec<HandoutId>,
    offers: Offers,
    ingest: Option<Ingest>,
    /// Run that belongs to another instance, with the reason.
    refused: Option<(RunId, String)>,
    deleting: bool,
    delete_turn: bool,
    reconciled: bool,
    ingest_slices: Slices,
    deletion_slices: Slices,
    /// Number of turns since the last one with a sync.
    unsynced: u32,
    /// True if the last turn served requests, so that background work is next.
    background_next: bool,
}

impl GroupCommit {
    /// Requests wait until the first directory listing was processed. Rows of deleted runs may be left.
    pub(crate) fn new() -> Self {
        Self {
            requests: Vec::new(),
            without_room: (Vec::new(), 0),
            delivered: Vec::new(),
            offers: Offers::default(),
            ingest: None,
            refused: None,
            deleting: true,
            delete_turn: false,
            reconciled: false,
            ingest_slices: Slices::ingest(),
            deletion_slices: Slices::deletion(),
            unsynced: 0,
            background_next: false,
        }
    }

    /// Requests are served once the database matches the input directory.
    pub(crate) fn is_reconciled(&self) -> bool {
        self.reconciled
    }

    pub(crate) fn waiting(&self) -> usize {
        self.requests.len()
    }

    pub(crate) fn add_request(&mut self, request: StoreRequest) {
        match request {
            // Stored with the next turn, without a commit of its own.
            StoreRequest::Delivered(handout) => self.delivered.push(handout),
            other => self.requests.push(other),
        }
    }

    /// Lets requests whose jobs had no room wait for a turn again once fewer than then are the bytes of
    /// payloads that are `unsent`.
    pub(crate) fn make_room(&mut self, unsent: u64) {
        if unsent == 0 || unsent < self.without_room.1 {
            let later = std::mem::take(&mut self.requests);
            self.requests = std::mem::take(&mut self.without_room.0);
            self.requests.extend(later);
        }
    }

    pub(crate) fn has_room_for_ingest(&self) -> bool {
        self.ingest.is_none()
    }

    pub(crate) fn add_ingest(&mut self, op: IngestOp) {
        // Checked in every build: overwriting an operation would lose rows.
        assert!(self.ingest.is_none(), "an ingest operation is in progress");
        self.ingest = Some(Ingest { op, from: 0, staged: false });
    }

    /// Returns a run that the last turn has refused, with the reason.
    pub(crate) fn take_refused(&mut self) -> Option<(RunId, String)> {
        self.refused.take()
    }

    pub(crate) fn has_work(&self) -> bool {
        self.has_requests() || self.ingest.is_some() || self.deleting
    }

    /// `other` tells of background work besides ingest and deletion.
    pub(crate) fn next_serves_requests(&self, other: bool) -> bool {
        let background = self.ingest.is_some() || self.deleting || other;
        self.has_requests() && !(background && self.background_next)
    }

    pub(crate) fn has_requests(&self) -> bool {
        !self.served().is_empty()
    }

    /// Records other background work as a turn, so that requests are next.
    pub(crate) fn end_background_turn(&mut self) {
        self.background_next = false;
    }

    fn served(&self) -> &[StoreRequest] {
        if self.reconciled { &self.requests } else { &[] }
    }

    fn notices(&self) -> Vec<Operation<'static>> {
        self.delivered.iter().copied().map(Operation::Delivered).collect()
    }

    pub(crate) fn has_delivery_notices(&self) -> bool {
        !self.delivered.is_empty()
    }

    /// Runs the first transaction of an incarnation at `now`. Stores waiting delivery notices, then undoes
    /// hand-outs of former incarnations without a recorded delivery, and withdraws jobs that other subsystems
    /// offer again. Returns the number of undone hand-outs.
    pub(crate) fn recover(&mut self, store: &mut dyn Storage, now: i64) -> Result<usize, StorageError> {
        let mut undone = 0;
        Turn::attempt(store, false, |store, _| {
            store.serve(&self.notices(), 0, now)?;
            undone = store.undo_undelivered()?;
            store.withdraw_waiting(now).map(drop)
        })?;
        self.delivered.clear();
        Ok(undone)
    }

    /// Runs one transaction over the waiting work, and sends the answers after its commit. Returns the jobs
    /// that workers reported done. `now` is wall-clock time in seconds, read after the requests arrived. With
    /// `overlap_sync`, slices of deletion may run beside the sync for requests, in transactions of their own.
    /// `has_new_requests` tells of those that were not added yet.
    ///
    /// # Errors
    /// Nothing was stored, all work still waits, and the turn may be repeated. After
    /// `StorageErrorKind::Unsynced` it must not: nothing was answered, but a new incarnation has to
    /// [`Self::recover`].
    pub(crate) fn turn(
        &mut self,
        store: &mut dyn Storage,
        overlap_sync: bool,
        paused: bool,
        has_new_requests: &dyn Fn() -> bool,
        metrics: &StoreMetrics,
        now: i64,
    ) -> Result<Vec<FinishedJob>, StorageError> {
        if let Some(Ingest { op: IngestOp::Rows { rows, .. }, staged, .. }) = &mut self.ingest
            && !*staged
        {
            match store.stage(rows) {
                Ok(()) => *staged = true,
                Err(error) => tracing::warn!(%error, "cannot stage a long line: storing it from memory"),
            }
        }
        let serves = self.next_serves_requests(false);
        // Set even if the turn fails: on a full disk requests may succeed where ingest does not.
        self.background_next = serves;
        let log = if serves && overlap_sync && self.is_deletion_next() { store.log() } else { None };
        let is_unsynced =
            if serves { log.is_some() } else { self.is_deletion_next() && self.unsynced < UNSYNCED_MAX };
        let turn = Turn::attempt(store, is_unsynced, |store, turn| {
            turn.deleting = self.deleting;
            if serves {
                return self.serve(store, paused, metrics.unsent_bytes(), now, turn);
            }
            if !is_unsynced && self.has_delivery_notices() {
                store.serve(&self.notices(), 0, now)?;
            }
            self.background(store, has_new_requests, turn)
        });
        let skipped = store.take_skipped();
        let turn = turn?;
        metrics.unstorable.add(skipped);
        match log {
            None => Ok(self.end(turn, metrics)),
            Some(log) => self.end_beside_slices(turn, store, &*log, has_new_requests, metrics),
        }
    }

    /// Ends a committed turn as soon as it is durable, while slices of deletion go on.
    fn end_beside_slices(
        &mut self,
        mut turn: Turn,
        store: &mut dyn Storage,
        log: &dyn Log,
        has_new_requests: &dyn Fn() -> bool,
        metrics: &StoreMetrics,
    ) -> Result<Vec<FinishedJob>, StorageError> {
        turn.is_unsynced = false;
        let (duration, mut slices) = (self.deletion_slices.next(), Vec::new());
        let end = || self.end(std::mem::take(&mut turn), metrics);
        let (finished, sliced) = sync_beside(log, end, |is_synced| {
            loop {
                let slice = Turn::attempt(store, true, |store, slice| {
                    slice.delete(store, duration, has_new_requests)
                })?;
                let may_continue = slice.deleting && slices.len() + 1 < BESIDE_SYNC_MAX && !is_synced();
                slices.push(slice);
                if !may_continue {
                    return Ok::<_, StorageError>(());
                }
            }
        });
        // After a failure, the next turn is the same slice alone, and reports it.
        self.background_next = sliced.is_err();
        slices.into_iter().for_each(|slice| drop(self.end(slice, metrics)));
        finished
    }

    /// Applies a committed turn, whose answers are durable. Returns the jobs that workers reported done.
    fn end(&mut self, mut turn: Turn, metrics: &StoreMetrics) -> Vec<FinishedJob> {
        if matches!(turn.ingest, IngestProgress::At(_)) {
            self.ingest_slices.took(turn.took);
        } else if turn.is_unsynced && turn.deleting {
            self.deletion_slices.took(turn.took);
        }
        let finished = std::mem::take(&mut turn.finished);
        let ended = std::mem::take(&mut turn.ended);
        metrics.finished.add(finished.len() as u64);
        self.apply(turn, metrics);
        self.offers.ended(ended);
        finished
    }

    /// Removing rows of deleted runs needs no sync: the run's mark is durable, and after a power failure the
    /// rows are removed again.
    fn is_deletion_next(&self) -> bool {
        self.deleting && (self.delete_turn || self.ingest.is_none())
    }

    /// Runs a slice of ingest or deletion, in alternation. A deletion that blocks an ingest goes
    /// first.
    fn background(
        &self,
        store: &mut dyn Storage,
        has_new_requests: &dyn Fn() -> bool,
        turn: &mut Turn,
    ) -> Result<(), StorageError> {
        if let Some(waiting) = self.ingest.as_ref().filter(|_| !self.is_deletion_next()) {
            turn.ingest = waiting.step(store, self.ingest_slices.next(), &mut turn.rows)?;
        }
        let is_blocked = matches!(turn.ingest, IngestProgress::Blocked);
        if is_blocked || (self.deleting && matches!(turn.ingest, IngestProgress::Untouched)) {
            turn.delete(store, self.deletion_slices.next(), has_new_requests)?;
        }
        Ok(())
    }

    /// Applies the committed turn and sends the answers.
    fn apply(&mut self, turn: Turn, metrics: &StoreMetrics) {
        if turn.is_unsynced {
            self.unsynced += 1;
        } else {
            self.unsynced = 0;
            self.delivered.clear();
        }
        self.deleting = turn.deleting;
        if turn.answers.is_empty() {
            self.delete_turn = !self.delete_turn;
        }
        metrics.commits.add(1);
        metrics.undone.add(turn.undone);
        metrics.rows.add(turn.rows);
        match turn.ingest {
            IngestProgress::Untouched | IngestProgress::Blocked => {}
            IngestProgress::At(from) => self.ingest.iter_mut().for_each(|ingest| ingest.from = from),
            IngestProgress::Done => self.finish_ingest(None),
            IngestProgress::Refused(reason) => {
                if let Some(Ingest { op: IngestOp::UpsertRun { run, .. }, .. }) = self.ingest.take() {
                    self.refused = Some((run, reason));
                }
            }
            IngestProgress::Runs(runs) => self.finish_ingest(Some(runs)),
        }
        let rest = self.requests.split_off(turn.answers.len());
        let served = std::mem::replace(&mut self.requests, rest);
        for (request, answer) in served.into_iter().zip(turn.answers) {
            self.answer(request, answer, metrics);
        }
        self.without_room.1 = metrics.unsent_bytes();
    }

    fn finish_ingest(&mut self, runs: Option<Vec<RunState>>) {
        match self.ingest.take().map(|ingest| ingest.op) {
            Some(IngestOp::Reconciled) => self.reconciled = true,
            Some(IngestOp::DeleteRun { .. }) => self.deleting = true,
            // A restarted reader asks again.
            Some(IngestOp::KnownRuns { reply }) => drop(reply.send(runs.unwrap_or_default())),
            _ => {}
        }
    }

    /// Carries out the notices and the waiting requests as one batch.
    fn serve(
        &self,
        store: &mut dyn Storage,
        paused: bool,
        unsent: u64,
        now: i64,
        turn: &mut Turn,
    ) -> Result<(), StorageError> {
        let mut batch = self.notices();
        let first = batch.len();
        // An offer that the storage does not see has no operation.
        let mut decided: Vec<Option<Offered>> = Vec::new();
        for request in self.served() {
            let offered = match request {
                StoreRequest::Offer { job, reply, .. } => self.offers.decide(job, reply),
                _ => None,
            };
            if offered.is_none() {
                batch.push(operation(request, paused));
            }
            decided.push(offered);
        }
        let mut outcomes = store.serve(&batch, unsent, now)?.into_iter().skip(first);
        for (request, offered) in self.served().iter().zip(decided) {
            let answer = match (offered, request) {
                (Some(offered), _) => RequestAnswer::Offered(offered),
                (None, request) => {
                    let Some(outcome) = outcomes.next() else { break };
                    turn.record(request, outcome)
                }
            };
            turn.answers.push(answer);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
