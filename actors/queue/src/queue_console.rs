//! The actor that answers operators and pauses hand-outs. Jobs go from the store to the worker
//! socket without it.

mod bulk;
mod explain;
mod questions;

use std::{fmt::Display, time::Duration};

use orchestrator_queue_rules::storage::{Bumped, StorageError};
use orchestrator_subsystem::{Answered, ConsoleError, ConsoleReply, Explain, Until, Verbs, until_text};
use orchestrator_supervise::{
    Child, ChildCx, ChildSpec, Durable, Factory, Fault, Handle, Handled, Outbox, PauseSpan, Pending, Reply,
    mailbox,
};
use orchestrator_text::sanitize;

use crate::{
    messages::{MaintenanceRequest, StoreRequest},
    refused_files::RefusedInDirectory,
    verbs::{
        Adopt, Bump, BumpAll, BumpAnswer, Failed, Failures, InFlight, Instances, Ls, Pause, Paused, Peek,
        Requeue, RequeueAll, RequeueAnswer, Resume, Show, Stale, Stats,
    },
    workers_seen::WorkersSeen,
};

/// Interval of questions whether another instance paused hand-outs.
const FOLLOW_INTERVAL: Duration = Duration::from_secs(1);

/// State of the actor: its outboxes and the pause switch.
#[derive(Debug, Clone)]
pub(crate) struct QueueConsole {
    pub(crate) requests: Outbox<StoreRequest>,
    /// Requests to the housekeeper.
    pub(crate) maintenance: Outbox<MaintenanceRequest>,
    pub(crate) pause: Durable<Option<PauseSpan>>,
    /// True if other instances share the queue.
    pub(crate) is_shared: bool,
    pub(crate) refused: RefusedInDirectory,
    pub(crate) workers: WorkersSeen,
    /// True while jobs of a filter are requeued.
    pub(crate) requeues: bool,
    /// True while the database is asked whether hand-outs are paused.
    pub(crate) asks_for_pause: bool,
}

/// The verbs are the commands of the queue, too.
pub(crate) fn verbs() -> Verbs<QueueConsole> {
    Verbs::default()
        .with::<Ls>()
        .with::<Peek>()
        .with::<Stats>()
        .with::<Show>()
        .without_command::<Explain>()
        .with::<InFlight>()
        .with::<Failed>()
        .with::<Failures>()
        .with::<Stale>()
        .with::<Instances>()
        .with::<Adopt>()
        .with::<Bump>()
        .with::<BumpAll>()
        .with::<Requeue>()
        .with::<RequeueAll>()
        .with::<Pause>()
        .with::<Resume>()
}

impl Child for QueueConsole {
    fn started(&mut self, cx: &mut ChildCx<'_, Self>) {
        self.report_pause(cx);
        self.await_pause_end(cx);
        if self.is_shared {
            cx.every(FOLLOW_INTERVAL, |console, cx| console.follow_pause(cx));
        }
    }
}

impl Handle<Adopt> for QueueConsole {
    fn handle(
        &mut self,
        Adopt { fetcher, .. }: Adopt,
        cx: &mut ChildCx<'_, Self>,
    ) -> Handled<Self, Answered<Adopt>> {
        if self.refused.fetchers.has_fetcher(&fetcher) {
            return self.ask(cx, |reply| MaintenanceRequest::Adopt(fetcher, reply), |adopted, _| Ok(adopted));
        }
        let reason = "no file of this fetcher is refused here: copy its files to this instance first";
        Handled::now(Err(not_found(reason, &fetcher)))
    }
}

impl Handle<Bump> for QueueConsole {
    fn handle(
        &mut self,
        Bump { attr_path }: Bump,
        cx: &mut ChildCx<'_, Self>,
    ) -> Handled<Self, Answered<Bump>> {
        let asked = attr_path.clone();
        let answer = self.requests.request(|reply| StoreRequest::Bump { attr_path: asked, reply });
        after(answer, cx, "store", move |_, done, _| match done {
            Bumped::Done => Ok(BumpAnswer { bumped: true }),
            Bumped::NothingWaits => {
                Err(not_found("no such job waits: see orchestrator queue show, or requeue it", &attr_path))
            }
            Bumped::TooMany => Err(refused("too many jobs are bumped: wait until they are handed out")),
        })
    }
}

impl Handle<Requeue> for QueueConsole {
    fn handle(
        &mut self,
        Requeue { attr_path }: Requeue,
        cx: &mut ChildCx<'_, Self>,
    ) -> Handled<Self, Answered<Requeue>> {
        let unknown = not_found("no job of this path was handed out", &attr_path);
        let answer = self.requests.request(|reply| StoreRequest::Requeue { attr_path, reply });
        after(answer, cx, "store", |_, done, _| {
            if done.rows == 0 && !done.was_in_flight {
                return Err(unknown);
            }
            Ok(RequeueAnswer { requeued: done.rows as u64, was_in_flight: done.was_in_flight })
        })
    }
}

impl Handle<Pause> for QueueConsole {
    fn handle(&mut self, verb: Pause, cx: &mut ChildCx<'_, Self>) -> Handled<Self, Answered<Pause>> {
        self.set_pause(Some(Until::pause(verb.until.as_ref())), cx)
    }
}

impl Handle<Resume> for QueueConsole {
    fn handle(&mut self, _: Resume, cx: &mut ChildCx<'_, Self>) -> Handled<Self, Answered<Resume>> {
        self.set_pause(None, cx)
    }
}

impl QueueConsole {
    /// Returns the child, with a mailbox of `capacity`. Each incarnation begins with this state.
    pub(crate) fn child(self, capacity: usize) -> ChildSpec {
        let (mailbox, slot) = mailbox(capacity);
        let console = self.clone();
        let factory = Factory::actor(slot, move |_| Ok(self.clone()));
        ChildSpec::worker("queue_console", factory)
            .attach(verbs().console(&mailbox))
            .durable(&console.pause)
            .waits_for(&console.requests)
            .waits_for(&console.maintenance)
    }

    /// Pauses or resumes hand-outs, also for later starts. While paused, workers get `NOJOBS`, and
    /// their DONE lines still count.
    fn set_pause(
        &self,
        pause: Option<PauseSpan>,
        cx: &mut ChildCx<'_, Self>,
    ) -> Handled<Self, ConsoleReply<Paused>> {
        let recorded = self.maintenance.request(|reply| MaintenanceRequest::RecordPause(pause, reply));
        after(recorded, cx, "housekeeper", move |console, recorded, cx| {
            recorded.map_err(|error| refused(Fault::from_error(&error)))?;
            console.pause.update(|value| *value = pause);
            console.report_pause(cx);
            console.await_pause_end(cx);
            tracing::info!(?pause, "hand-outs paused or resumed");
            Ok(Paused { paused: pause.is_some(), until_ms: pause.and_then(|pause| pause.until_ms) })
        })
    }

    /// Takes over the pause that an operator of another instance sets or clears.
    fn follow_pause(&mut self, cx: &mut ChildCx<'_, Self>) {
        if self.asks_for_pause {
            return;
        }
        let Ok(answer) = self.maintenance.request(MaintenanceRequest::SharedPause) else { return };
        self.asks_for_pause = true;
        cx.spawn(answer, |console, answer, cx| {
            console.asks_for_pause = false;
            if let Ok(Ok(pause)) = answer
                && console.pause.get() != pause
            {
                console.pause.update(|value| *value = pause);
                console.report_pause(cx);
                console.await_pause_end(cx);
                tracing::info!(?pause, "hand-outs paused or resumed for all instances");
            }
        });
    }

    /// Resumes hand-outs once the time of the pause is over.
    fn await_pause_end(&self, cx: &mut ChildCx<'_, Self>) {
        let Some(delay) = self.pause.get().and_then(PauseSpan::look_again) else { return };
        cx.after(delay, |console, cx| {
            if !console.pause.get().is_some_and(PauseSpan::is_over) {
                return console.await_pause_end(cx);
            }
            console.pause.update(|value| *value = None);
            console.report_pause(cx);
            tracing::info!("hand-outs are resumed: the time of the pause is over");
            // The file says the same without it.
            let _ = console.maintenance.request(|reply| MaintenanceRequest::RecordPause(None, reply));
        });
    }

    fn report_pause(&self, cx: &ChildCx<'_, Self>) {
        match self.pause.get() {
            Some(pause) => {
                let text = format!("an operator paused hand-outs{}", until_text(pause.until_ms));
                cx.vitals().set_blocker("paused", &text, "orchestrator queue resume");
            }
            None => cx.vitals().clear_blocker(),
        }
    }

    /// Sends a request to the housekeeper, and answers with what `complete` makes of its answer. Other
    /// messages are handled meanwhile. A question ends if its operator stops waiting.
    fn ask<T: 'static, R: Send + 'static>(
        &self,
        cx: &mut ChildCx<'_, Self>,
        request: impl FnOnce(Reply<Result<T, StorageError>>) -> MaintenanceRequest,
        complete: impl FnOnce(T, &Self) -> ConsoleReply<R> + 'static,
    ) -> Handled<Self, ConsoleReply<R>> {
        let asked = match self.maintenance.request(request) {
            Ok(asked) => asked,
            Err(full) => return Handled::now(Err(refused(full))),
        };
        let (mut reply, answer) = Handled::later();
        let found = async move {
            tokio::select! {
                biased;
                () = reply.closed() => None,
                found = asked => Some((reply, found)),
            }
        };
        cx.spawn(found, |console, found, _| {
            let Some((reply, found)) = found else { return };
            let found = found.map_err(|_| refused(restarted("housekeeper")));
            let found = found.and_then(|found| found.map_err(refused));
            drop(reply.send(found.and_then(|found| complete(found, console))));
        });
        answer
    }
}

/// Answers with the result of `done` once `child` has answered.
fn after<T: 'static, R: Send + 'static>(
    answer: Result<Pending<T>, impl Display>,
    cx: &mut ChildCx<'_, QueueConsole>,
    child: &'static str,
    done: impl FnOnce(&mut QueueConsole, T, &mut ChildCx<'_, QueueConsole>) -> ConsoleReply<R> + 'static,
) -> Handled<QueueConsole, ConsoleReply<R>> {
    match answer {
        Ok(answer) => cx.atomically(answer, move |console, answer, cx| match answer {
            Ok(answer) => done(console, answer, cx),
            Err(_) => Err(refused(restarted(child))),
        }),
        Err(full) => Handled::now(Err(refused(full))),
    }
}

fn refused(reason: impl Display) -> ConsoleError {
    ConsoleError::Refused(reason.to_string())
}

fn restarted(child: &str) -> String {
    format!("the {child} was restarted before it answered: ask again")
}

fn not_found(reason: &str, attr_path: &str) -> ConsoleError {
    ConsoleError::NotFound(format!("{}: {reason}", sanitize(attr_path)))
}
