//! The child that consumes the queues of all workers of this process, over one connection.

use std::{fmt, sync::Arc, time::Duration};

use futures_util::{StreamExt, TryStreamExt, stream, stream::FuturesUnordered};
use orchestrator_edge::{
    Reconnect,
    amqp::{AmqpError, Broker, Session},
};
use orchestrator_supervise::{Backoff, Factory, Figure, FigureKind, StartCx, Vitals};
use tokio::time::sleep;

use super::{
    dead_letter::DeadLetters, presence::Presence, topology::Topology, worker_channel::WorkerChannel,
};
use crate::{
    messages::Request,
    policy::{Worker, binding_keys},
};

/// How many channels are opened side by side: the broker answers each in turn.
const OPENING_MAX: usize = 16;

/// Hands a request to its worker; gives it back when the worker has no place for it.
pub type Sink = Arc<dyn Fn(Worker, Request) -> Result<(), Request> + Send + Sync>;

/// What is consumed, and how.
#[derive(Clone)]
pub struct Consumption {
    /// The workers of this process.
    pub workers: Vec<Worker>,
    /// What their exchanges and queues are made of.
    pub topology: Topology,
    /// How many messages of each queue are in hand at the most.
    pub prefetch: u16,
    /// How long a stop waits for what is in hand. The broker delivers again what is left.
    pub drain: Duration,
    /// Where requests go.
    pub sink: Sink,
    /// Told which queues have their consumer.
    pub presence: Arc<Presence>,
}

/// The child that consumes from `broker`. It starts without the broker and comes back by itself. List it after the workers,
/// so that it stops before them.
///
/// Stopped, it ends its consumers first and settles what is in hand; paused, it takes nothing more in hand.
pub fn factory(broker: Broker, consumption: Consumption) -> Factory {
    Factory::task(move |cx: StartCx| {
        let (broker, consumption) = (broker.clone(), consumption.clone());
        async move {
            let mut reconnect = Reconnect::new(cx.vitals.link("amqp", broker.endpoint()), Backoff::DEFAULT);
            let figures = Figures::declare(&cx.vitals);
            while let Err(error) = serve(&broker, &consumption, &figures, &mut reconnect, &cx).await {
                let delay = reconnect.failed(error.to_string());
                tokio::select! {
                    biased;
                    () = cx.stop.cancelled() => break,
                    () = sleep(delay) => {}
                }
            }
            Ok(())
        }
    })
}

/// Connects and consumes until `cx` stops, or the connection or anything that was asked of it fails.
async fn serve(
    broker: &Broker,
    consumption: &Consumption,
    figures: &Figures,
    reconnect: &mut Reconnect,
    cx: &StartCx,
) -> Result<(), AmqpError> {
    let _present = Present { consumption, figures };
    let opened = tokio::select! {
        biased;
        () = cx.stop.cancelled() => return Ok(()),
        opened = open(broker, consumption, figures, cx) => opened,
    };
    let (mut session, house, channels) = opened?;
    reconnect.succeeded();
    figures.queues_consumed.set(consumption.presence.consumed() as u64);
    let mut running: FuturesUnordered<_> =
        channels.into_iter().map(|channel| channel.run(&house, &cx.stop)).collect();
    let all = async {
        while let Some(ended) = running.next().await {
            ended?;
        }
        Ok(())
    };
    let too_late = async {
        cx.stop.cancelled().await;
        sleep(consumption.drain).await;
    };
    let served = tokio::select! {
        biased;
        error = session.lost() => Err(error),
        // The children of this future have a fair order of their own; tokio's budget would only wake it up in vain.
        served = tokio::task::unconstrained(all) => served,
        () = too_late => {
            tracing::warn!("stopped with messages in hand: the broker delivers them again");
            Ok(())
        }
    };
    drop(running);
    session.close().await;
    // A stop that found the connection lost is a stop.
    if cx.stop.is_cancelled() { Ok(()) } else { served }
}

async fn open(
    broker: &Broker,
    consumption: &Consumption,
    figures: &Figures,
    cx: &StartCx,
) -> Result<(Session, House, Vec<WorkerChannel>), AmqpError> {
    let session = broker.connect().await?;
    let dead_letters = DeadLetters::open(&session).await?;
    let Consumption { topology, prefetch, sink, presence, .. } = consumption.clone();
    let (figures, vitals) = (figures.clone(), cx.vitals.clone());
    let house = House { topology, prefetch, sink, presence, dead_letters, figures, vitals };
    let channels = stream::iter(&consumption.workers)
        .map(|&worker| WorkerChannel::open(&session, &house, worker))
        .buffer_unordered(OPENING_MAX)
        .try_collect()
        .await?;
    Ok((session, house, channels))
}

/// What all channels of a connection share.
pub(super) struct House {
    pub(super) topology: Topology,
    pub(super) prefetch: u16,
    pub(super) sink: Sink,
    pub(super) presence: Arc<Presence>,
    pub(super) dead_letters: DeadLetters,
    pub(super) figures: Figures,
    pub(super) vitals: Arc<Vitals>,
}

/// The child's figures.
#[derive(Debug, Clone)]
pub(super) struct Figures {
    pub(super) deliveries: Figure,
    pub(super) rows: Figure,
    pub(super) acked: Figure,
    pub(super) responses: Figure,
    pub(super) dead_lettered: Figure,
    pub(super) unreadable: Figure,
    pub(super) malformed: Figure,
    pub(super) redelivered: Figure,
    pub(super) queues_consumed: Figure,
}

impl Figures {
    fn declare(vitals: &Vitals) -> Self {
        let counter = |name, unit| vitals.declare(name, unit, FigureKind::Counter);
        Self {
            deliveries: counter("deliveries", "messages"),
            rows: counter("rows", "rows"),
            acked: counter("acked", "messages"),
            responses: counter("responses", "messages"),
            dead_lettered: counter("dead_lettered", "messages"),
            unreadable: counter("unreadable", "messages"),
            malformed: counter("malformed", "rows"),
            redelivered: counter("redelivered", "messages"),
            queues_consumed: vitals.declare("consumed", "queues", FigureKind::Gauge),
        }
    }
}

/// However a connection ends, its consumers are gone.
struct Present<'a> {
    consumption: &'a Consumption,
    figures: &'a Figures,
}

impl Drop for Present<'_> {
    fn drop(&mut self) {
        let workers = self.consumption.workers.iter();
        let queues = workers.flat_map(|worker| binding_keys(worker.exchange, worker.range));
        self.consumption.presence.left(queues);
        self.figures.queues_consumed.set(0);
    }
}

impl fmt::Debug for Consumption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Consumption")
            .field("workers", &self.workers.len())
            .field("topology", &self.topology)
            .field("prefetch", &self.prefetch)
            .finish_non_exhaustive()
    }
}
