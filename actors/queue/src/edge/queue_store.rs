//! The thread that owns the database: opens it, receives requests and ingest operations, and
//! commits them in groups.
//!
//! A thread and not an actor, because a commit waits for the disk (a sync of 854 ms was measured).
//! A thread is shown as stuck and no second one is started beside it. A turn takes all waiting
//! requests into one transaction, where an actor's handler sees one message.
//!
//! A locked, full or missing database is a state of the link, not a crash: requests wait, and
//! nothing is answered before its commit. A damaged database is set aside and rebuilt from the
//! fetcher files, by a restart of this child and the children started after it. If its files were
//! deleted or replaced, a planned restart opens it again, at no cost to the restart intensity.

mod blockers;
mod child;
mod waiting;

use std::time::{Duration, Instant};

use orchestrator_edge::{FileReplaced, LinkState};
use orchestrator_queue_rules::storage::{StorageError, StorageErrorKind};
use orchestrator_queue_store::{OpenStore, Stopped, unix_time};
use orchestrator_supervise::{Fault, Inbox, Origin, StartCx, block_on};

pub(crate) use self::child::QueueStore;
use crate::{
    group_commit::GroupCommit,
    messages::{IngestOp, ReadCommand, StoreRequest},
    store_metrics::{FinishedMetrics, StoreMetrics},
};

/// Maximum number of requests in one transaction.
const GROUP_MAX: usize = 512;
/// Delay after which delivery notices are committed without other work.
const NOTICE_WAIT: Duration = Duration::from_millis(100);
/// Interval of [`OpenStore::check`] and of reports on the waiting jobs.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Time without work after which [`OpenStore::on_idle`] is called.
const IDLE_TIMEOUT: Duration = Duration::from_secs(1);

/// One incarnation of the thread, with the store that it has opened.
struct StoreRun<'a> {
    spec: &'a QueueStore,
    cx: &'a StartCx,
    link: LinkState,
    metrics: StoreMetrics,
    finished: FinishedMetrics,
    store: Box<dyn OpenStore>,
    group: GroupCommit,
    requests: Inbox<StoreRequest>,
    ingest: Inbox<IngestOp>,
    idle: bool,
    /// Number of requests that the next turn waits for, and until when.
    gather: (usize, Instant),
    /// True if the last failure was one of a turn that served requests, false for one of background work.
    /// Success of the other kind is no success of this one.
    failing: Option<bool>,
    /// Time of the next background work; requests are served before.
    background_at: Instant,
    /// Time of the next check of the store.
    check_at: Instant,
    /// Time of the last failure for lack of space.
    full_at: Option<Instant>,
}

impl QueueStore {
    /// Runs one incarnation of the thread.
    fn run(&self, cx: &StartCx) -> Result<(), Fault> {
        let requests = self.requests.open();
        let ingest = self.ingest.open();
        cx.vitals.set_work_unit("job");
        let link = self.store.link(cx);
        let Some(store) = self.open(cx, &link)? else { return Ok(()) };
        let run = StoreRun {
            spec: self,
            metrics: StoreMetrics::declare(&cx.vitals),
            finished: FinishedMetrics::register(&cx.vitals),
            cx,
            link,
            store,
            group: GroupCommit::new(),
            requests,
            ingest,
            idle: false,
            gather: (0, Instant::now()),
            failing: None,
            background_at: Instant::now(),
            check_at: Instant::now() + CHECK_INTERVAL,
            full_at: None,
        };
        match run.work()? {
            None => Ok(()),
            // Connections and inboxes are closed, so waiting requests fail now.
            Some(replaced) => request_restart(cx, &replaced),
        }
    }

    /// Opens the database and waits as long as it is unavailable. Returns None when asked to stop.
    fn open(&self, cx: &StartCx, link: &LinkState) -> Result<Option<Box<dyn OpenStore>>, Fault> {
        self.store.before_open();
        loop {
            match self.store.open(cx, &self.wiring) {
                Ok(store) => {
                    link.connected();
                    return Ok(Some(store));
                }
                Err(error) if self.store.repair(&error)? => {}
                Err(error) if error.is_retryable() => {
                    blockers::report_full(&cx.vitals, &error);
                    if !link.retry_blocking(self.store.link_failure(&error)) {
                        return Ok(None);
                    }
                }
                Err(error) => return Err(Fault::from_error(&error)),
            }
        }
    }
}

impl StoreRun<'_> {
    /// Works until asked to stop, or until a file of the database was replaced, which is returned.
    fn work(mut self) -> Result<Option<FileReplaced>, Fault> {
        while let Some(request) = self.requests.try_recv() {
            self.group.add_request(request);
        }
        match self.recover().and_then(|()| self.serve()) {
            Ok(()) | Err(Stopped::StopRequested) => {
                self.store.close();
                Ok(None)
            }
            Err(Stopped::Replaced(replaced)) => {
                Ok(self.store.close_replaced(&self.link, &replaced).then_some(replaced))
            }
            Err(Stopped::Failed(fault)) => Err(fault),
        }
    }

    /// Runs turns until asked to stop.
    fn serve(&mut self) -> Result<(), Stopped> {
        while self.wait_for_work()? {
            let _work = self.cx.vitals.begin_work("group");
            let _turn = self.link.long_request();
            if self.store.has_background() && !self.group.next_serves_requests(true) {
                self.store.run_background();
                self.group.end_background_turn();
                continue;
            }
            if Instant::now() < self.background_at {
                self.group.end_background_turn();
            }
            let serves = self.group.next_serves_requests(false);
            let paused = self.spec.pause.get().is_some();
            let (begun, jobs, given) = (Instant::now(), self.metrics.worked(), self.metrics.jobs.get());
            // Not while a checkpoint is due, nor after a failed slice: it is tried alone, so that its success
            // is seen.
            let overlap_sync =
                begun >= self.background_at && self.failing != Some(false) && !self.store.has_background();
            let has_new_requests = || !self.requests.is_empty();
            let store = self.store.storage();
            match self.group.turn(store, overlap_sync, paused, &has_new_requests, &self.metrics, unix_time())
            {
                Ok(finished) => {
                    finished.into_iter().for_each(|job| self.finished.record(job));
                    if self.failing != Some(!serves) || !self.group.has_work() {
                        self.failing = None;
                        self.link.succeeded();
                    }
                    if self.metrics.worked() != jobs {
                        self.cx.vitals.record_work();
                    }
                    let given = usize::try_from(self.metrics.jobs.get() - given).unwrap_or_default();
                    self.gather = (
                        self.group.waiting() + given,
                        Instant::now() + self.store.gathering_time(begun.elapsed()),
                    );
                    self.store.after_turn(begun.elapsed());
                    if let Some((run, reason)) = self.group.take_refused()
                        && self
                            .spec
                            .commands
                            .tell(ReadCommand::Refused { run, reason: reason.clone() })
                            .is_err()
                    {
                        tracing::error!(reason, "a file is ignored");
                    }
                }
                Err(error) => {
                    self.failing = Some(serves);
                    if serves {
                        self.retry(&error)?;
                    } else {
                        self.background_at = Instant::now() + self.handle_error(&error)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Undoes hand-outs of former incarnations whose replies were not delivered.
    fn recover(&mut self) -> Result<(), Stopped> {
        loop {
            match self.group.recover(self.store.storage(), unix_time()) {
                Ok(undone) => {
                    if undone > 0 {
                        tracing::warn!(undone, "jobs whose replies were not delivered are available again");
                        self.metrics.undone.add(undone as u64);
                    }
                    return Ok(());
                }
                Err(error) => self.retry(&error)?,
            }
        }
    }

    /// Handles a failed operation and waits before the next try.
    fn retry(&mut self, error: &StorageError) -> Result<(), Stopped> {
        let delay = self.handle_error(error)?;
        if self.link.wait_blocking(delay) { Ok(()) } else { Err(Stopped::StopRequested) }
    }

    /// Handles a failed operation: returns the delay before the next try, or ends the incarnation.
    fn handle_error(&mut self, error: &StorageError) -> Result<Duration, Stopped> {
        self.store.before_retry(error)?;
        if error.is_retryable() {
            self.metrics.retried.add(1);
            if error.kind == StorageErrorKind::Full {
                self.report_full(error);
            }
            let failure = self.spec.store.link_failure(error);
            return Ok(match error.kind {
                StorageErrorKind::Conflict => self.link.conflicted(failure),
                _ => self.link.failed(failure),
            });
        }
        Err(Fault::from_error(error).into())
    }

    /// Receives waiting requests and one ingest operation.
    fn receive(&mut self) {
        self.group.make_room(self.metrics.unsent_bytes());
        while self.group.is_reconciled() && self.group.waiting() < GROUP_MAX {
            let Some(request) = self.requests.try_recv() else {
                break;
            };
            self.group.add_request(request);
        }
        if self.group.has_room_for_ingest()
            && let Some(op) = self.ingest.try_recv()
        {
            self.group.add_ingest(op);
        }
    }

    /// Waits until a turn has something to do. Returns false when asked to stop and nothing is
    /// left.
    fn wait_for_work(&mut self) -> Result<bool, Stopped> {
        let mut quiet_since = Instant::now();
        loop {
            self.check()?;
            self.receive();
            // At a stop, the rest of files and deletions is left to the next start.
            if self.cx.stop.is_cancelled() && !self.group.has_requests() {
                return Ok(self.group.has_delivery_notices());
            }
            let (wanted, until) = self.gather;
            let is_gathering = self.group.waiting() < wanted.min(GROUP_MAX) && Instant::now() < until;
            let is_due = self.group.has_requests() || Instant::now() >= self.background_at;
            if self.group.has_work() && is_due && !is_gathering {
                self.idle = false;
                return Ok(true);
            }
            let notices = self.group.has_delivery_notices();
            let wait = if notices { NOTICE_WAIT } else { IDLE_TIMEOUT };
            let mut due = if notices || !self.idle { quiet_since + wait } else { self.check_at };
            if self.group.has_work() {
                due = if is_gathering { until } else { self.background_at };
            }
            let (requests, ingest) = (&mut self.requests, &mut self.ingest);
            let (reconciled, has_room_for_ingest) =
                (self.group.is_reconciled(), self.group.has_room_for_ingest());
            let event = block_on(Some(due.min(self.check_at)), async {
                tokio::select! {
                    biased;
                    Some(request) = requests.recv(), if reconciled => Event::Request(request),
                    Some(op) = ingest.recv(), if has_room_for_ingest => Event::Ingest(op),
                    () = self.cx.stop.cancelled() => Event::Stop,
                }
            });
            match event {
                Some(Event::Request(request)) => {
                    self.group.add_request(request);
                    quiet_since = Instant::now();
                }
                Some(Event::Ingest(op)) => self.group.add_ingest(op),
                // The last delivery notices need a turn.
                Some(Event::Stop) => return Ok(notices || self.group.has_requests()),
                None if Instant::now() < due || is_gathering => {}
                None if self.group.has_work() => {}
                None if notices => return Ok(true),
                None if self.idle => {}
                None => {
                    self.idle = true;
                    self.store.on_idle();
                }
            }
        }
    }

    /// Checks the store if the next check is due.
    fn check(&mut self) -> Result<(), Stopped> {
        let mut refused = false;
        while self.check_at <= Instant::now() {
            match self.store.check() {
                Ok(()) => {
                    self.report_waiting();
                    self.check_at = Instant::now() + CHECK_INTERVAL;
                }
                Err(error) => {
                    self.retry(&error)?;
                    refused = true;
                }
            }
        }
        if refused {
            self.link.connected();
        }
        Ok(())
    }
}

/// Asks the supervisor to restart this child and the children started after it, which refer to the
/// former database. Returns with the stop that follows.
fn request_restart(cx: &StartCx, replaced: &FileReplaced) -> Result<(), Fault> {
    let path = cx.vitals.path();
    let origin = Origin { by: path.to_owned(), reason: replaced.to_string() };
    cx.tree.request_restart(path, &origin).map_err(|error| Fault::from_error(&error))?;
    // An end without a stop would count as a failure.
    block_on(None, cx.stop.cancelled());
    Ok(())
}

enum Event {
    Request(StoreRequest),
    Ingest(IngestOp),
    Stop,
}
