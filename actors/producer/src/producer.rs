//! Actor StencilProducer: runs the state machine for one incarnation and answers operators' requests.
//!
//! The database has all durable state. [`Status`], with the pause switch, outlives a restart of the actor.

mod environment;
mod explain;

use std::{collections::BTreeSet, time::Duration};

use orchestrator_observe::LinkFailure;
use orchestrator_producer_rules::{
    advance::{Action, Event, Halt, Machine, Rules},
    queue_state::CompletionCriteria,
    watermark::WaterMarks,
};
use orchestrator_subsystem::{Answered, Explain, Until, Verbs};
use orchestrator_supervise::{
    Child, ChildCx, ChildRef, Durable, Factory, Handle, Handled, MailboxSlot, Outbox, PauseSpan, StartCx,
};
use tokio::sync::watch;

use crate::{
    completion::Delivery,
    config::{Compat, ProducerConfig},
    edge::{MongoStore, faktory},
    environment::{Environment, Peer, Stopped},
    executor::{Executor, Settings},
    holder,
    queue::Queue,
    status::Status,
    verbs::{self, Pause, Paused, Resume, ShowStatus, StatusAnswer},
};
use environment::{LiveEnvironment, wall_ms};

/// Time-out of the release of the lease at a stop.
const RELEASE_TIMEOUT: Duration = Duration::from_millis(500);

/// End of an incarnation's work.
enum Ended {
    /// A stop was requested.
    Stopped,
    /// `max_tcn` is complete and `until_done` is set.
    Finished,
    /// An operator has to act first.
    Halted(Halt),
}

/// Actor that runs the producer over the queue `Q`.
pub(crate) struct StencilProducer<Q> {
    config: ProducerConfig,
    queues: BTreeSet<String>,
    completions: Option<Outbox<Delivery>>,
    queue: Option<Q>,
    status: Durable<Status>,
    /// Pause switch of this incarnation's work.
    paused: watch::Sender<bool>,
    siblings: Siblings,
    cx: StartCx,
    working: bool,
}

/// Children whose links the status tells.
#[derive(Debug, Clone, Default)]
pub(crate) struct Siblings {
    /// Supervisor of all.
    pub(crate) branch: ChildRef,
    /// Connections to Faktory.
    pub(crate) pool: ChildRef,
}

/// The status outlives restarts of the actor.
pub(crate) fn status() -> Durable<Status> {
    Durable::new("status", Status::starting(wall_ms()))
}

/// `queue` returns each incarnation's client of the queue server, and `queues` are the producer's own.
/// `completions` takes completed TCNs.
///
/// The child ends with [`Exit::Normal`](orchestrator_supervise::Exit::Normal) once `until_done` is reached,
/// so its restart must be `Transient`.
pub(crate) fn factory<Q: Queue + Unpin + 'static>(
    config: &ProducerConfig,
    queues: BTreeSet<String>,
    completions: Option<Outbox<Delivery>>,
    slot: MailboxSlot<StencilProducer<Q>>,
    (status, siblings): (&Durable<Status>, &Siblings),
    mut queue: impl FnMut(&StartCx) -> Q + Send + 'static,
) -> Factory {
    let (config, status, siblings) = (config.clone(), status.clone(), siblings.clone());
    Factory::actor(slot, move |cx| {
        Ok(StencilProducer {
            config: config.clone(),
            queues: queues.clone(),
            completions: completions.clone(),
            queue: Some(queue(cx)),
            status: status.clone(),
            paused: watch::Sender::new(status.lock().paused),
            siblings: siblings.clone(),
            cx: cx.clone(),
            working: false,
        })
    })
}

impl<Q: Queue + Unpin + 'static> Child for StencilProducer<Q> {
    fn started(&mut self, cx: &mut ChildCx<'_, Self>) {
        let Some(queue) = self.queue.take() else { return };
        self.working = true;
        self.await_pause_end(cx);
        let settings = settings(&self.config, self.queues.clone(), self.cx.incarnation);
        let paused = self.paused.subscribe();
        let env = LiveEnvironment::new(&self.cx, self.status.clone(), paused, &self.config, settings.marks);
        let work = run(self.config.clone(), settings, self.completions.clone(), queue, env);
        cx.spawn(work, |producer, ended, cx| {
            producer.working = false;
            match ended {
                Ended::Stopped => {}
                Ended::Finished => cx.stop(),
                Ended::Halted(halt) => cx.fail(orchestrator_supervise::Fault::new(halt.to_string())),
            }
        });
    }

    /// Waits until the chunk in flight is acknowledged and its cursor written.
    fn drained(&self) -> bool {
        !self.working
    }
}

impl<Q: Queue + Unpin + 'static> Handle<ShowStatus> for StencilProducer<Q> {
    fn handle(&mut self, _: ShowStatus, _: &mut ChildCx<'_, Self>) -> Handled<Self, Answered<ShowStatus>> {
        let links =
            self.cx.tree.node(self.siblings.branch.path()).as_ref().map(verbs::links).unwrap_or_default();
        Handled::now(Ok(StatusAnswer { status: self.current_status(), links }))
    }
}

impl<Q: Queue + Unpin + 'static> Handle<Pause> for StencilProducer<Q> {
    fn handle(&mut self, verb: Pause, cx: &mut ChildCx<'_, Self>) -> Handled<Self, Answered<Pause>> {
        let answer = self.set_pause(Some(Until::pause(verb.until.as_ref())));
        self.await_pause_end(cx);
        Handled::now(Ok(answer))
    }
}

impl<Q: Queue + Unpin + 'static> Handle<Resume> for StencilProducer<Q> {
    fn handle(&mut self, _: Resume, _: &mut ChildCx<'_, Self>) -> Handled<Self, Answered<Resume>> {
        Handled::now(Ok(self.set_pause(None)))
    }
}

impl<Q: Queue + Unpin + 'static> StencilProducer<Q> {
    /// Resumes pushing once the time of the pause is over.
    fn await_pause_end(&self, cx: &mut ChildCx<'_, Self>) {
        let Some(delay) = self.status.lock().pause.and_then(PauseSpan::look_again) else { return };
        cx.after(delay, |producer, cx| {
            let is_over = producer.status.lock().pause.is_some_and(PauseSpan::is_over);
            if is_over {
                producer.set_pause(None);
            } else {
                producer.await_pause_end(cx);
            }
        });
    }

    pub(crate) fn verbs() -> Verbs<Self> {
        Verbs::default().with::<ShowStatus>().with::<Pause>().with::<Resume>().without_command::<Explain>()
    }
}

impl<Q> StencilProducer<Q> {
    /// The queue is unavailable, too, while a connection is down without a pending request.
    fn current_status(&self) -> Status {
        let mut status = self.status.get();
        if let Some(reason) = faktory::outage(&self.cx.tree, self.siblings.pool.path()) {
            status.unavailable.entry("queue".into()).or_insert(reason);
        }
        status
    }

    fn set_pause(&self, pause: Option<PauseSpan>) -> Paused {
        let paused = pause.is_some();
        self.paused.send_replace(paused);
        let mut status = self.status.lock();
        (status.paused, status.pause) = (paused, pause);
        status.report_blocker(&self.cx.vitals);
        tracing::info!(?pause, "pushing paused or resumed");
        Paused { paused, until_ms: pause.and_then(|pause| pause.until_ms) }
    }
}

/// Runs one incarnation.
async fn run<Q: Queue>(
    config: ProducerConfig,
    settings: Settings,
    completions: Option<Outbox<Delivery>>,
    queue: Q,
    env: LiveEnvironment,
) -> Ended {
    let opened = tokio::select! {
        biased;
        opened = open(&config, settings.strict, &env) => opened,
        stopped = env.stopped() => Err(stopped),
    };
    let Ok(store) = opened else { return Ended::Stopped };
    if prepare_indexes(config.ensure_indexes, &store, &env).await.is_err() {
        return Ended::Stopped;
    }
    let mut machine = machine(&config, settings.queues.clone());
    let mut executor = Executor::new(settings, store, queue, env);
    if let Some(completions) = completions {
        executor = executor.delivering(completions);
    }
    let overdue = executor.env().drain_overdue();
    let ended = tokio::select! {
        biased;
        ended = work(&mut machine, &mut executor) => ended,
        () = overdue => {
            // The lease is left to its end: the chunk may be in the queue, and its reply may still come.
            tracing::warn!("stopped while Faktory does not reply: the chunk in flight is pushed again");
            return Ended::Stopped;
        }
    };
    if executor.env().is_store_up() {
        // Otherwise the lease ends by itself.
        let _ = tokio::time::timeout(RELEASE_TIMEOUT, executor.release_lease()).await;
    }
    ended
}

/// Runs the machine until it ends.
async fn work<Q: Queue>(
    machine: &mut Machine,
    executor: &mut Executor<MongoStore, Q, LiveEnvironment>,
) -> Ended {
    let mut event = Event::Started;
    loop {
        let action = machine.on(event);
        executor.env().report_phase(machine);
        event = match action {
            Action::Finish => match executor.deliver_completions().await {
                Ok(true) => return Ended::Finished,
                Ok(false) => Event::LeaseLost,
                Err(Stopped) => return Ended::Stopped,
            },
            Action::Halt(halt) => return Ended::Halted(halt),
            action => match executor.execute(action).await {
                Ok(next) => next,
                Err(Stopped) => return Ended::Stopped,
            },
        };
    }
}

/// Opens the database, as soon as its address can be read.
async fn open(config: &ProducerConfig, strict: bool, env: &LiveEnvironment) -> Result<MongoStore, Stopped> {
    let mongodb = &config.mongodb;
    let collections = mongodb.collections();
    loop {
        let opened = match mongodb.target() {
            Ok(uri) => {
                let opened = MongoStore::open(&uri, collections.clone(), strict, Some(env.store_link()));
                opened.await.map_err(|error| LinkFailure::from(&error))
            }
            Err(error) => Err(error.to_string().into()),
        };
        match opened {
            Ok(store) => return Ok(store),
            Err(reason) => env.back_off(Peer::Store, reason).await?,
        }
    }
}

/// Creates the missing indexes, or logs them.
async fn prepare_indexes(ensure: bool, store: &MongoStore, env: &LiveEnvironment) -> Result<(), Stopped> {
    if !ensure {
        let missing = tokio::select! {
            missing = store.missing_indexes() => missing,
            stopped = env.stopped() => return Err(stopped),
        };
        if let Ok(missing) = missing
            && !missing.is_empty()
        {
            tracing::warn!(
                missing = missing.join(", "),
                "indexes are missing, so each page is a full collection scan: run `orchestrator producer plan --ensure-indexes`"
            );
        }
        return Ok(());
    }
    loop {
        // After a stop, the server completes the index by itself.
        let created = tokio::select! {
            created = store.ensure_indexes() => created,
            stopped = env.stopped() => return Err(stopped),
        };
        match created {
            Ok(()) => return Ok(()),
            Err(error) => env.back_off(Peer::Store, (&error).into()).await?,
        }
    }
}

fn machine(config: &ProducerConfig, queues: BTreeSet<String>) -> Machine {
    if config.compat == Compat::Strict {
        return Machine::strict(queues);
    }
    let criteria = CompletionCriteria { queues, count: config.count, ignore_dead: config.ignore_dead };
    Machine::resilient(Rules { criteria, page_size: config.page_size, until_done: config.until_done })
}

fn settings(config: &ProducerConfig, queues: BTreeSet<String>, incarnation: u64) -> Settings {
    let strict = config.compat == Compat::Strict;
    // The original has no bound.
    let high = if strict { 0 } else { config.high_water };
    Settings {
        strict,
        queues,
        page_size: config.page_size,
        chunk: config.chunk as usize,
        marks: WaterMarks { high, low: config.low_water },
        poll: Duration::from_millis(config.poll_ms.into()),
        holder: holder::name(incarnation),
        lease: Duration::from_millis(config.lease_ms.into()),
    }
}
