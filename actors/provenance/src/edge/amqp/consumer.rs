//! Child that consumes the queues of all workers of this process over one connection.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::{FutureExt, StreamExt, stream::FuturesUnordered};
use orchestrator_edge::{
    LinkState, PeerError, Retries, RetryPolicy,
    amqp::{Broker, Session},
};
use orchestrator_observe::Link;
use orchestrator_supervise::{ChildRef, Factory, StartCx, StopToken};
use parking_lot::Mutex;
use tokio::{
    sync::{Notify, Semaphore, watch},
    time::sleep,
};

use super::{
    consumer_context::{ConsumerContext, ConsumerMetrics, MISSING_REPORT_DELAY, Sink},
    dead_letter::DeadLetterChannel,
    queues::Queues,
    readiness::ConsumerReadiness,
    redeliveries::Redeliveries,
    topology::Topology,
    worker_channel::WorkerChannel,
};
use crate::policy::Worker;

/// Maximum number of channels opened concurrently.
const OPENING_MAX: usize = 16;

/// Maximum number of returned dead letters held; the connection is then closed.
const RETURNED_MAX: usize = 64;

/// Interval at which a consumer that waits for the store looks at the writer's link.
const STORE_CHECK: Duration = Duration::from_millis(100);

/// Interval at which a draining consumer checks whether the writer's database is away.
const DRAIN_CHECK: Duration = Duration::from_millis(100);

#[derive(Clone)]
pub(crate) struct ConsumerOptions {
    /// Workers of this process.
    pub workers: Vec<Worker>,
    /// Type of exchanges and queues. If it is None, queues are transient, or durable where the broker refuses
    /// that.
    pub topology: Option<Topology>,
    /// AMQP prefetch of each queue.
    pub prefetch: u16,
    /// Time that a stop waits for unacknowledged messages. The broker delivers the rest again.
    pub drain: Duration,
    /// Receiver of the requests.
    pub sink: Sink,
    /// Readiness of the queues.
    pub readiness: Arc<ConsumerReadiness>,
    /// Child whose link is the store's.
    pub writer: ChildRef,
}

/// The child starts without the broker and reconnects by itself. List it after the workers, so that it stops
/// before them.
///
/// A stopped child cancels its consumers first and settles the unacknowledged messages. A paused
/// child takes no further deliveries.
pub(crate) fn factory(broker: Broker, options: ConsumerOptions) -> Factory {
    let queues = options.workers.iter().flat_map(|worker| worker.queues()).count();
    let broker = broker.enforce_prefetch(queues * usize::from(options.prefetch) + RETURNED_MAX);
    Factory::task(move |cx: StartCx| {
        let (broker, options) = (broker.clone(), options.clone());
        async move {
            let link = LinkState::new(&cx, "amqp", broker.endpoint(), RetryPolicy::REMOTE);
            let metrics = ConsumerMetrics::register(&cx.vitals);
            let broker = broker.reporting_to(&link).showing(&metrics.held);
            let lasting = Lasting {
                metrics,
                queues: Arc::new(Queues::new(options.topology, cx.vitals.clone())),
                redeliveries: Arc::new(Redeliveries::new(broker.vhost())),
            };
            let mut down_since = Instant::now();
            while let Err(error) = serve(&broker, &options, &lasting, &link, &cx).await {
                // What was held is delivered again, and reported again.
                cx.vitals.clear_blocker();
                if lasting.queues.become_durable(&error) {
                    continue;
                }
                if link.is_up() {
                    down_since = Instant::now();
                }
                let mut failure = lasting.queues.explain(&error);
                if down_since.elapsed() > MISSING_REPORT_DELAY {
                    failure.reason = format!("{}; {}", failure.reason, options.readiness.describe_missing());
                }
                if !link.retry(failure).await {
                    break;
                }
            }
            Ok(())
        }
    })
}

/// State of the child that outlasts its connections.
struct Lasting {
    metrics: ConsumerMetrics,
    queues: Arc<Queues>,
    redeliveries: Arc<Redeliveries>,
}

/// Connects and consumes until the child is stopped, the connection fails, or a dead letter is
/// refused.
async fn serve(
    broker: &Broker,
    options: &ConsumerOptions,
    lasting: &Lasting,
    link: &LinkState,
    cx: &StartCx,
) -> Result<(), PeerError> {
    let _guard = ConsumedQueuesGuard { options, metrics: &lasting.metrics };
    let opening = cx.stop.run_until_cancelled(open(broker, options, lasting, link, cx));
    let attempt = link.request();
    let Some(opened) = opening.await else { return Ok(()) };
    drop(attempt);
    let (session, context) = opened?;
    let opening = Semaphore::new(OPENING_MAX);
    let workers = options.workers.iter();
    let mut running: FuturesUnordered<_> =
        workers.map(|&worker| run_worker(&session, &context, &opening, worker, &cx.stop)).collect();
    let all = async { while running.next().await.is_some() {} };
    let drain_timeout = async {
        cx.stop.cancelled().await;
        let end = Instant::now() + options.drain;
        sleep(DRAIN_CHECK).await;
        // Without its database, the writer commits nothing more.
        while Instant::now() < end && !is_down(&options.writer) {
            sleep(DRAIN_CHECK).await;
        }
    };
    let served = tokio::select! {
        biased;
        error = session.lost() => Err(error),
        error = context.failed() => Err(error),
        () = context.report(link) => Ok(()),
        // The futures inside are polled fairly; tokio's budget would only cause needless wake-ups.
        () = tokio::task::unconstrained(all) => Ok(()),
        () = drain_timeout => {
            tracing::warn!("stopped with unacknowledged messages: the broker delivers them again");
            // Dropped, not closed: the broker may be frozen.
            return Ok(());
        }
    };
    drop(running);
    session.close().await;
    // A connection lost during a stop is not an error.
    if cx.stop.is_cancelled() { Ok(()) } else { served }
}

/// True while the link is unanswered, too.
fn is_down(writer: &ChildRef) -> bool {
    writer.link().is_some_and(|link| matches!(link, Link::Down { .. } | Link::Unanswered { .. }))
}

/// Waits until the writer's store answers. Messages delivered earlier cannot be stored, and each connection
/// that an outage ends would count as a delivery.
async fn store_answers(writer: ChildRef) {
    while writer.link().is_some_and(|link| !matches!(link, Link::Up { .. })) {
        sleep(STORE_CHECK).await;
    }
}

async fn open(
    broker: &Broker,
    options: &ConsumerOptions,
    lasting: &Lasting,
    link: &LinkState,
    cx: &StartCx,
) -> Result<(Session, ConsumerContext), PeerError> {
    let session = broker.connect().await?;
    let dead_letters = session.while_connected(DeadLetterChannel::open(&session)).await?;
    if let Some(&first) = options.workers.first() {
        lasting.queues.try_one(&session, first).await?;
    }
    let ConsumerOptions { prefetch, sink, readiness, writer, .. } = options.clone();
    let Lasting { metrics, queues, redeliveries } = lasting;
    let (metrics, vitals, child) = (metrics.clone(), cx.vitals.clone(), cx.child.clone());
    let (channel_errors, fatal_error) = (Mutex::default(), watch::Sender::default());
    let taken = session.delivery_tracker();
    let context = ConsumerContext {
        queues: queues.clone(),
        prefetch,
        sink,
        readiness,
        dead_letters,
        metrics,
        vitals,
        child,
        store_answers: Box::new(move || store_answers(writer.clone()).boxed()),
        redeliveries: redeliveries.clone(),
        link: link.reporter(),
        taken,
        progress: Notify::new(),
        channel_errors,
        fatal_error,
    };
    Ok((session, context))
}

/// Consumes the queues of one worker until `stop` or the end of the connection. A failed channel is
/// reopened with backoff, without effect on other workers. A queue declared with other flags, for
/// example, fails its worker's channel.
async fn run_worker(
    session: &Session,
    context: &ConsumerContext,
    opening: &Semaphore,
    worker: Worker,
    stop: &StopToken,
) {
    let retries = Retries::new(RetryPolicy::REMOTE, context.vitals.link_retry_max());
    loop {
        let open = async { WorkerChannel::open(session, context, opening, worker).await };
        let Some(opened) = stop.run_until_cancelled(open).await else { return };
        let ended = match opened {
            Ok(mut channel) => {
                retries.connected();
                context.channel_errors.lock().remove(&worker);
                let ended = channel.run(context, stop).await;
                if channel.has_acknowledged() {
                    retries.reset();
                }
                ended
            }
            Err(error) => Err(error),
        };
        let Err(error) = ended else { return };
        context.channel_errors.lock().insert(worker, error);
        context.readiness.consumers_ended(worker);
        if stop.run_until_cancelled(sleep(retries.failed())).await.is_none() {
            return;
        }
    }
}

/// Marks all queues as not consumed when a connection ends.
struct ConsumedQueuesGuard<'a> {
    options: &'a ConsumerOptions,
    metrics: &'a ConsumerMetrics,
}

impl Drop for ConsumedQueuesGuard<'_> {
    fn drop(&mut self) {
        let Self { options, .. } = self;
        options.workers.iter().for_each(|&worker| options.readiness.consumers_ended(worker));
        self.metrics.queues_consumed.set(0);
    }
}

impl fmt::Debug for ConsumerOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConsumerOptions")
            .field("workers", &self.workers.len())
            .field("topology", &self.topology)
            .field("prefetch", &self.prefetch)
            .finish_non_exhaustive()
    }
}
