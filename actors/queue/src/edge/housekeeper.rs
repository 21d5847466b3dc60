//! The housekeeper: a thread that carries out upkeep of the database, answers operators and counts for the
//! metrics. It has connections of its own, so that no commit waits for it.

use std::{sync::Arc, time::Duration};

use orchestrator_queue_rules::storage::Questions;
use orchestrator_queue_store::{IsAsked, Maintenance, Store, unix_time};
use orchestrator_supervise::{ChildSpec, Factory, Fault, InboxSlot, Received, Reply, StartCx};

use crate::{
    config::QueueConfig,
    edge::{expected_runs::ExpectedRuns, gauges::Gauges},
    messages::{Answer, Chore},
};

/// Time limit of an operator's question; the console itself waits 2 s.
const QUESTION_TIMEOUT: Duration = Duration::from_millis(1_500);

/// The child: configuration and inbox of all incarnations.
pub(crate) struct Housekeeper {
    pub(crate) config: QueueConfig,
    pub(crate) chores: InboxSlot<Chore>,
    pub(crate) store: Arc<dyn Store>,
}

/// State of one incarnation.
struct Incarnation(Box<dyn Maintenance>);

impl Housekeeper {
    pub(crate) fn child(self) -> ChildSpec {
        let chores = self.chores.clone();
        let factory = Factory::thread(move |cx| self.run(&cx)).with_inbox("chores", &chores);
        ChildSpec::worker("housekeeper", factory)
    }

    /// Runs one incarnation of the thread.
    fn run(&self, cx: &StartCx) -> Result<(), Fault> {
        let mut chores = self.chores.open();
        let mut gauges = Gauges::new(&cx.vitals);
        let expected = ExpectedRuns::new(&self.config.expect, &self.config.input_dir, &cx.vitals);
        let mut incarnation = Incarnation(self.store.maintenance(QUESTION_TIMEOUT, &cx.stop));
        loop {
            match chores.recv_blocking(&cx.stop, Some(gauges.next_sample())) {
                Received::Item(chore) => {
                    let _work = cx.vitals.begin_work(chore.name());
                    if chore.shows_jobs() {
                        gauges.hasten();
                    }
                    incarnation.execute(chore);
                }
                Received::TimedOut => {
                    let _work = cx.vitals.begin_work("sample");
                    gauges.sample(|| {
                        let always: IsAsked = Arc::new(|| true);
                        let sample =
                            incarnation.ask(always.clone(), |inspector| inspector.sample(unix_time()))?;
                        if !expected.is_empty() {
                            expected.update(
                                &incarnation.ask(always, |inspector| inspector.last_runs())?,
                                unix_time(),
                            );
                        }
                        Ok(sample)
                    });
                }
                Received::Stopped => return Ok(()),
            }
        }
    }
}

impl Incarnation {
    fn execute(&mut self, chore: Chore) {
        match chore {
            Chore::Upkeep(upkeep) => self.0.upkeep(upkeep),
            Chore::Runs(reply) => self.answer(reply, |inspector| inspector.runs()),
            Chore::Peek(pattern, limit, reply) => {
                self.answer(reply, |inspector| inspector.peek(pattern.as_ref(), unix_time(), limit))
            }
            Chore::Counts(reply) => self.answer(reply, |inspector| inspector.counts()),
            Chore::Attr(attr_path, limit, reply) => {
                self.answer(reply, |inspector| inspector.attr(&attr_path, unix_time(), limit))
            }
            Chore::InFlight(pattern, limit, reply) => {
                self.answer(reply, |inspector| inspector.in_flight(pattern.as_ref(), limit))
            }
            Chore::Failed(which, reply) => self.answer(reply, |inspector| inspector.failed(&which)),
            Chore::Failures(after, limit, reply) => {
                self.answer(reply, |inspector| inspector.failures(after, limit))
            }
            Chore::Stale(before, limit, reply) => {
                self.answer(reply, |inspector| inspector.stale(before, limit))
            }
            Chore::Instances(reply) => self.answer(reply, |inspector| inspector.instances()),
            Chore::RecordPause(pause, reply) => drop(reply.send(self.0.record_pause(pause))),
            Chore::Adopt(fetcher, reply) => drop(reply.send(self.0.adopt(&fetcher))),
            Chore::SharedPause(reply) => drop(reply.send(self.0.shared_pause())),
        }
    }

    /// Answers a question, unless the operator has stopped waiting. On SQLite it ends once the operator does.
    fn answer<T: Send + 'static>(
        &mut self,
        reply: Reply<Answer<T>>,
        question: impl FnOnce(&mut dyn Questions) -> Answer<T>,
    ) {
        if reply.is_closed() {
            return;
        }
        let reply = Arc::new(reply);
        let asked = reply.clone();
        let answer = self.ask(Arc::new(move || !asked.is_closed()), question);
        // The connection, which had the other one, is closed.
        if let Some(reply) = Arc::into_inner(reply) {
            drop(reply.send(answer));
        }
    }

    fn ask<T>(
        &mut self,
        is_asked: IsAsked,
        question: impl FnOnce(&mut dyn Questions) -> Answer<T>,
    ) -> Answer<T> {
        question(self.0.questions(is_asked)?.get())
    }
}

impl Chore {
    /// Returns true for a question whose answer is a list of jobs, or their number.
    fn shows_jobs(&self) -> bool {
        matches!(
            self,
            Self::Runs(_) | Self::Peek(..) | Self::Counts(_) | Self::InFlight(..) | Self::Failed(..)
        )
    }

    fn name(&self) -> &'static str {
        match self {
            Chore::Upkeep(_) => "checkpoint",
            Chore::RecordPause(..) | Chore::SharedPause(_) => "pause",
            _ => "question",
        }
    }
}
