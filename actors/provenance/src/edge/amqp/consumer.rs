//! The child that consumes the queues of all workers of this process, over one connection.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::{StreamExt, stream::FuturesUnordered};
use orchestrator_edge::{
    Reconnect,
    amqp::{AmqpError, Broker, Session},
    cap_backoff,
};
use orchestrator_supervise::{Factory, StartCx, StopToken};
use parking_lot::Mutex;
use tokio::{
    sync::{Notify, Semaphore, watch},
    time::sleep,
};

use super::{
    consumer_context::{ConsumerContext, ConsumerMetrics, PATIENCE, Sink},
    dead_letter::DeadLetterChannel,
    presence::Presence,
    topology::Topology,
    worker_channel::WorkerChannel,
};
use crate::{
    edge::RETRY,
    policy::{Worker, binding_keys},
};

/// How many channels are opened side by side: the broker answers each in turn.
const OPENING_MAX: usize = 16;

/// Dead letters that may have come back at a time: the connection is given up then.
const RETURNED_MAX: usize = 64;

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
    let queues: usize =
        consumption.workers.iter().map(|worker| binding_keys(worker.exchange, worker.range).count()).sum();
    let broker = broker.enforce_prefetch(queues * usize::from(consumption.prefetch) + RETURNED_MAX);
    Factory::task(move |cx: StartCx| {
        let (broker, consumption) = (broker.clone(), consumption.clone());
        async move {
            let mut reconnect = Reconnect::new(cx.vitals.link("amqp", broker.endpoint()), RETRY);
            let metrics = ConsumerMetrics::register(&cx.vitals);
            let mut away_since = Instant::now();
            while let Err(error) = serve(&broker, &consumption, &metrics, &mut reconnect, &cx).await {
                if reconnect.is_up() {
                    away_since = Instant::now();
                }
                let mut reason = error.to_string();
                if away_since.elapsed() > PATIENCE {
                    reason = format!("{reason}; {}", consumption.presence.describe_missing());
                }
                let delay = reconnect.failed(reason);
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

/// Connects and consumes until `cx` stops, the connection fails, or dead letters are not taken.
async fn serve(
    broker: &Broker,
    consumption: &Consumption,
    metrics: &ConsumerMetrics,
    reconnect: &mut Reconnect,
    cx: &StartCx,
) -> Result<(), AmqpError> {
    let _present = Present { consumption, metrics };
    let opened = tokio::select! {
        biased;
        () = cx.stop.cancelled() => return Ok(()),
        opened = open(broker, consumption, metrics, cx) => opened,
    };
    let (session, context) = opened?;
    let opening = Semaphore::new(OPENING_MAX);
    let workers = consumption.workers.iter();
    let mut running: FuturesUnordered<_> =
        workers.map(|&worker| attend(&session, &context, &opening, worker, &cx.stop)).collect();
    let all = async { while running.next().await.is_some() {} };
    let too_late = async {
        cx.stop.cancelled().await;
        sleep(consumption.drain).await;
    };
    let served = tokio::select! {
        biased;
        error = session.lost() => Err(error),
        error = context.doomed() => Err(error),
        () = context.report(reconnect) => Ok(()),
        // The children of this future have a fair order of their own; tokio's budget would only wake it up in vain.
        () = tokio::task::unconstrained(all) => Ok(()),
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
    metrics: &ConsumerMetrics,
    cx: &StartCx,
) -> Result<(Session, ConsumerContext), AmqpError> {
    let session = broker.connect().await?;
    let dead_letters = DeadLetterChannel::open(&session).await?;
    let Consumption { topology, prefetch, sink, presence, .. } = consumption.clone();
    let (metrics, vitals) = (metrics.clone(), cx.vitals.clone());
    let (troubles, doom) = (Mutex::default(), watch::Sender::default());
    let taken = session.delivery_tracker();
    let context = ConsumerContext {
        topology,
        prefetch,
        sink,
        presence,
        dead_letters,
        metrics,
        vitals,
        taken,
        progress: Notify::new(),
        troubles,
        doom,
    };
    Ok((session, context))
}

/// Has a worker's queues consumed until `stop`, for as long as the connection lasts. What keeps it from that, say a queue
/// that another program declared with other flags, keeps no other worker: it is tried again and again.
async fn attend(
    session: &Session,
    context: &ConsumerContext,
    opening: &Semaphore,
    worker: Worker,
    stop: &StopToken,
) {
    let mut failures = 0;
    loop {
        let open = async {
            // It is never closed.
            let _turn = opening.acquire().await;
            WorkerChannel::open(session, context, worker).await
        };
        let opened = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            opened = open => opened,
        };
        let begun = Instant::now();
        let ended = match opened {
            Ok(mut channel) => {
                context.troubles.lock().remove(&worker);
                let ended = channel.run(context, stop).await;
                if channel.has_acknowledged() {
                    failures = 0;
                }
                ended
            }
            Err(error) => Err(error),
        };
        let Err(error) = ended else { return };
        let backoff = cap_backoff(RETRY);
        // An idle channel is no storm, however it ends.
        if begun.elapsed() > backoff.max {
            failures = 0;
        }
        context.troubles.lock().insert(worker, error.to_string());
        context.presence.left(binding_keys(worker.exchange, worker.range));
        let delay = backoff.delay(failures, fastrand::f64());
        failures = failures.saturating_add(1);
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = sleep(delay) => {}
        }
    }
}

/// However a connection ends, its consumers are gone.
struct Present<'a> {
    consumption: &'a Consumption,
    metrics: &'a ConsumerMetrics,
}

impl Drop for Present<'_> {
    fn drop(&mut self) {
        let workers = self.consumption.workers.iter();
        let queues = workers.flat_map(|worker| binding_keys(worker.exchange, worker.range));
        self.consumption.presence.left(queues);
        self.metrics.queues_consumed.set(0);
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
