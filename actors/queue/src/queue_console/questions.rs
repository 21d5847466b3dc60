//! Questions of operators. A question is one message, its verb. The housekeeper asks the store, so that no
//! commit waits for the answer.

use std::sync::Arc;

use orchestrator_queue_rules::storage::{
    Counts, FailedAttempts, FailedJob, InstanceRow, Peeked, Questions, StaleGroup, StorageError,
};
use orchestrator_queue_store::{Maintenance, unix_time};
use orchestrator_subsystem::{Answered, ConsoleReply, Verb};
use orchestrator_supervise::{ChildCx, Handle, Handled, Reply};

use super::{QueueConsole, not_found};
use crate::{
    messages::MaintenanceRequest,
    verbs::{
        AttemptRow, Failed, Failures, InFlight, Instances, Ls, PathReport, Peek, RunRow, RunningRow, Show,
        Stale, Stats, Totals,
    },
};

/// Maximum number of rows of an answer.
const ROWS_MAX: u32 = 1_000;
const SECONDS_PER_DAY: i64 = 86_400;

/// A verb that only reads the database.
pub(crate) trait Question: Verb {
    /// True if the answer is a list of jobs, or their number.
    const SHOWS_JOBS: bool = false;

    /// Asks the store. `now` is in unix seconds.
    fn ask(&self, store: &mut dyn Questions, now: i64) -> Result<Self::Answer, StorageError>;

    /// Adds what only the console knows.
    ///
    /// # Errors
    /// The queue does not know what was asked about.
    fn complete(&self, answer: Self::Answer, _console: &QueueConsole) -> ConsoleReply<Self::Answer> {
        Ok(answer)
    }
}

impl<Q: Question> Handle<Q> for QueueConsole {
    fn handle(&mut self, question: Q, cx: &mut ChildCx<'_, Self>) -> Handled<Self, Answered<Q>> {
        let asked = question.clone();
        self.ask(cx, |reply| request(asked, reply), move |answer, console| question.complete(answer, console))
    }
}

pub(super) fn request<Q: Question>(
    question: Q,
    reply: Reply<Result<Q::Answer, StorageError>>,
) -> MaintenanceRequest {
    request_by(Q::SHOWS_JOBS, move |store, now| question.ask(store, now), reply)
}

/// Request to answer a question, unless its operator has stopped waiting. On SQLite the question ends once
/// the operator does.
pub(super) fn request_by<T: Send + 'static>(
    shows_jobs: bool,
    ask: impl FnOnce(&mut dyn Questions, i64) -> Result<T, StorageError> + Send + 'static,
    reply: Reply<Result<T, StorageError>>,
) -> MaintenanceRequest {
    let answer = move |maintenance: &mut dyn Maintenance| {
        if reply.is_closed() {
            return;
        }
        let reply = Arc::new(reply);
        let asked = reply.clone();
        let store = maintenance.questions(Arc::new(move || !asked.is_closed()));
        let answer = store.and_then(|mut store| ask(store.get(), unix_time()));
        // The connection, which had the other one, is closed.
        if let Some(reply) = Arc::into_inner(reply) {
            drop(reply.send(answer));
        }
    };
    MaintenanceRequest::Question { shows_jobs, answer: Box::new(answer) }
}

impl Question for Ls {
    const SHOWS_JOBS: bool = true;

    fn ask(&self, store: &mut dyn Questions, _now: i64) -> Result<Vec<RunRow>, StorageError> {
        Ok(store.runs()?.into_iter().map(|run| RunRow { run, refused: None }).collect())
    }

    fn complete(&self, mut runs: Vec<RunRow>, console: &QueueConsole) -> ConsoleReply<Vec<RunRow>> {
        runs.extend(console.refused.links.rows());
        runs.extend(console.refused.fetchers.rows());
        Ok(runs)
    }
}

impl Question for Peek {
    const SHOWS_JOBS: bool = true;

    fn ask(&self, store: &mut dyn Questions, now: i64) -> Result<Vec<Peeked>, StorageError> {
        store.peek(self.pattern.as_ref(), now, rows(self.n))
    }
}

impl Question for Stats {
    const SHOWS_JOBS: bool = true;

    fn ask(&self, store: &mut dyn Questions, _now: i64) -> Result<Totals, StorageError> {
        let Counts { rows, ready, held, logged, in_flight } = store.counts()?;
        Ok(Totals { held, in_flight, logged, paused: false, ready, rows })
    }

    fn complete(&self, totals: Totals, console: &QueueConsole) -> ConsoleReply<Totals> {
        Ok(Totals { paused: console.pause.get().is_some(), ..totals })
    }
}

impl Question for Show {
    fn ask(&self, store: &mut dyn Questions, now: i64) -> Result<PathReport, StorageError> {
        let found = store.attr(&self.attr_path, now, rows(self.n))?;
        Ok(PathReport::new(self.attr_path.clone(), found))
    }

    fn complete(&self, report: PathReport, _console: &QueueConsole) -> ConsoleReply<PathReport> {
        let unknown = || not_found("no job has this path", &self.attr_path);
        if report.is_empty() { Err(unknown()) } else { Ok(report) }
    }
}

impl Question for InFlight {
    const SHOWS_JOBS: bool = true;

    fn ask(&self, store: &mut dyn Questions, _now: i64) -> Result<Vec<RunningRow>, StorageError> {
        let jobs = store.in_flight(self.pattern.as_ref(), rows(self.n))?;
        // No job that was found began later.
        let now = unix_time();
        Ok(jobs.into_iter().map(|job| RunningRow::new(job, now)).collect())
    }
}

impl Question for Failed {
    const SHOWS_JOBS: bool = true;

    fn ask(&self, store: &mut dyn Questions, _now: i64) -> Result<Vec<AttemptRow>, StorageError> {
        let Self { code: exit_code, since, ref pattern, n } = *self;
        let which = FailedAttempts { exit_code, since, pattern: pattern.clone(), limit: rows(n) };
        Ok(store.failed(&which)?.into_iter().map(AttemptRow::from).collect())
    }
}

impl Question for Failures {
    fn ask(&self, store: &mut dyn Questions, _now: i64) -> Result<Vec<FailedJob>, StorageError> {
        store.failures(self.after, rows(self.n))
    }
}

impl Question for Stale {
    fn ask(&self, store: &mut dyn Questions, now: i64) -> Result<Vec<StaleGroup>, StorageError> {
        store.stale(now - i64::from(self.days) * SECONDS_PER_DAY, rows(self.n))
    }
}

impl Question for Instances {
    fn ask(&self, store: &mut dyn Questions, _now: i64) -> Result<Vec<InstanceRow>, StorageError> {
        store.instances()
    }
}

/// Limits the number of rows asked for.
fn rows(asked: u32) -> usize {
    asked.min(ROWS_MAX) as usize
}
