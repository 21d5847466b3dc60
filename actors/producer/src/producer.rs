//! The actor StencilProducer: runs the rules over database and queue for one incarnation, and answers operators.
//!
//! What is durable is in the database; what people see, and their switch, is a [`Status`] that outlives a restart.

mod live;

use std::time::Duration;

use orchestrator_supervise::{
    Answer, Child, ChildCx, ConsoleError, ConsoleReply, ConsoleRequest, Durable, Factory, Handle,
    MailboxSlot, StartCx,
};
use serde_json::json;
use tokio::sync::watch;
use uuid::Uuid;

use crate::{
    advance::{Action, Event, Halt, Machine, Rules},
    config::{Compat, ProducerConfig},
    edge::{MongoStore, faktory},
    pace::{Pace, Peer, Stopped},
    perform::{Performer, Settings},
    queue::Queue,
    reading::Judgement,
    status::Status,
    watermark::WaterMarks,
};
use live::Live;

const VERBS: &str = "status, pause, resume";

/// How an incarnation's work ended.
enum Ended {
    /// It was asked to stop.
    Stopped,
    /// All is done, as `until_done` wants it.
    Finished,
    /// It cannot go on.
    Halted(Halt),
}

/// The actor.
pub struct StencilProducer<Q> {
    config: ProducerConfig,
    queue_name: String,
    queue: Option<Q>,
    status: Durable<Status>,
    /// The switch, for this incarnation's work.
    paused: watch::Sender<bool>,
    cx: StartCx,
    working: bool,
}

/// The status of a producer that has not begun: state of the child that outlives its restarts.
pub fn status() -> Durable<Status> {
    Durable::new("status", Status::starting())
}

/// The child. `queue` gives each incarnation its way to the queue called `queue_name`.
///
/// It ends with [`Exit::Normal`](orchestrator_supervise::Exit::Normal) once all is done: give it a restart that knows
/// that for an end.
pub fn factory<Q: Queue + Unpin + 'static>(
    config: &ProducerConfig,
    queue_name: &str,
    slot: MailboxSlot<StencilProducer<Q>>,
    status: &Durable<Status>,
    mut queue: impl FnMut(&StartCx) -> Q + Send + 'static,
) -> Factory {
    let (config, queue_name, status) = (config.clone(), queue_name.to_owned(), status.clone());
    Factory::actor(slot, move |cx| {
        Ok(StencilProducer {
            config: config.clone(),
            queue_name: queue_name.clone(),
            queue: Some(queue(cx)),
            status: status.clone(),
            paused: watch::Sender::new(status.lock().paused),
            cx: cx.clone(),
            working: false,
        })
    })
}

impl<Q: Queue + Unpin + 'static> Child for StencilProducer<Q> {
    fn started(&mut self, cx: &mut ChildCx<'_, Self>) {
        let Some(queue) = self.queue.take() else { return };
        self.working = true;
        let pace = Live::new(&self.cx, self.status.clone(), self.paused.subscribe(), &self.config);
        let work = work(self.config.clone(), self.queue_name.clone(), self.cx.incarnation, queue, pace);
        cx.spawn(work, |producer, ended, cx| {
            producer.working = false;
            match ended {
                Ended::Stopped => {}
                Ended::Finished => cx.stop(),
                Ended::Halted(halt) => cx.fail(orchestrator_supervise::Fault::new(halt.to_string())),
            }
        });
    }

    /// The chunk in hand is noted before it ends.
    fn drained(&self) -> bool {
        !self.working
    }
}

impl<Q: Queue + Unpin + 'static> Handle<ConsoleRequest> for StencilProducer<Q> {
    fn handle(&mut self, request: ConsoleRequest, _: &mut ChildCx<'_, Self>) -> Answer<Self, ConsoleReply> {
        let switch = |paused: bool| {
            self.paused.send_replace(paused);
            self.status.lock().paused = paused;
            tracing::info!(paused, "pushing switched");
            Ok(json!({ "paused": paused }))
        };
        Answer::now(match request.verb.as_str() {
            "status" => serde_json::to_value(self.shown())
                .map_err(|error| ConsoleError::Refused(format!("the status cannot be shown: {error}"))),
            "pause" => switch(true),
            "resume" => switch(false),
            _ => Err(ConsoleError::UnknownVerb(VERBS.to_owned())),
        })
    }
}

impl<Q> StencilProducer<Q> {
    /// The answer to `producer status`: the queue is away also while one of its connections is down and nothing waits for it.
    fn shown(&self) -> Status {
        let mut status = self.status.get();
        let branch = self.cx.vitals.path().rsplit_once('/').map_or("", |(branch, _)| branch);
        if let Some(reason) = faktory::outage(&self.cx.tree, &format!("{branch}/{}", faktory::POOL)) {
            status.away.entry("queue").or_insert(reason);
        }
        status
    }
}

/// One incarnation's work.
async fn work<Q: Queue>(
    config: ProducerConfig,
    queue_name: String,
    incarnation: u64,
    queue: Q,
    pace: Live,
) -> Ended {
    let strict = config.compat == Compat::Strict;
    let store = match open(&config, strict, &pace).await {
        Ok(store) => store,
        Err(Stopped) => return Ended::Stopped,
    };
    if tend_indexes(config.ensure_indexes, &store, &pace).await.is_err() {
        return Ended::Stopped;
    }
    let mut machine = machine(&config, &queue_name);
    let mut performer =
        Performer::new(settings(&config, strict, queue_name, incarnation), store, queue, pace);
    let mut event = Event::Started;
    loop {
        let action = machine.on(event);
        performer.pace().enter(&mut machine);
        let ended = match action {
            Action::Finish => Ended::Finished,
            Action::Halt(halt) => Ended::Halted(halt),
            action => match performer.perform(action).await {
                Ok(next) => {
                    event = next;
                    continue;
                }
                Err(Stopped) => Ended::Stopped,
            },
        };
        performer.leave().await;
        return ended;
    }
}

/// A client of the database, as soon as its address can be read.
async fn open(config: &ProducerConfig, strict: bool, pace: &Live) -> Result<MongoStore, Stopped> {
    let at = &config.mongodb;
    let place = at.place();
    loop {
        let opened = match at.target() {
            Ok(uri) => MongoStore::open(&uri, place.clone(), strict).await.map_err(|error| error.to_string()),
            Err(reason) => Err(reason),
        };
        match opened {
            Ok(store) => return Ok(store),
            Err(reason) => pace.endure(Peer::Store, reason).await?,
        }
    }
}

/// Without the indexes that pages need, each page is a walk over all tangles: they are made, or that is told.
async fn tend_indexes(ensure: bool, store: &MongoStore, pace: &Live) -> Result<(), Stopped> {
    if !ensure {
        if let Ok(missing) = store.missing_indexes().await
            && !missing.is_empty()
        {
            tracing::warn!(
                missing = missing.join(", "),
                "pages are walks over all tangles: run `orchestrator producer plan --ensure-indexes`"
            );
        }
        return Ok(());
    }
    loop {
        // The server goes on with an index that nobody waits for.
        let made = tokio::select! {
            made = store.ensure_indexes() => made,
            stopped = pace.stopped() => return Err(stopped),
        };
        match made {
            Ok(()) => return Ok(()),
            Err(error) => pace.endure(Peer::Store, error.to_string()).await?,
        }
    }
}

fn machine(config: &ProducerConfig, queue_name: &str) -> Machine {
    if config.compat == Compat::Strict {
        return Machine::strict(queue_name);
    }
    let queue = queue_name.to_owned();
    let judgement = Judgement { queue, count: config.count, ignore_dead: config.ignore_dead };
    Machine::mended(Rules { judgement, page_size: config.page_size, until_done: config.until_done })
}

fn settings(config: &ProducerConfig, strict: bool, queue: String, incarnation: u64) -> Settings {
    // The original has no bound.
    let high = if strict { 0 } else { config.high_water };
    Settings {
        strict,
        queue,
        page_size: config.page_size,
        chunk: config.chunk as usize,
        marks: WaterMarks { high, low: config.low_water },
        poll: Duration::from_millis(config.poll_ms.into()),
        holder: holder(incarnation),
        lease: Duration::from_millis(config.lease_ms.into()),
    }
}

/// Tells a holder of the lease from all others, also from the same process before, whose calls may still be under way.
fn holder(incarnation: u64) -> String {
    let machine = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("{}:{}:{incarnation}:{}", machine.trim(), std::process::id(), Uuid::new_v4().simple())
}
