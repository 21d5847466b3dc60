//! Change notices (CONTRACT CP13, CP14). After each write to any of its catalogs, an ERMrest server
//! publishes a message without content. Notices may be lost, so they only advance a poll; polling
//! goes on without them.

use std::{sync::Arc, time::Instant};

use futures_util::StreamExt;
use lapin::{
    Channel, Consumer, ExchangeKind,
    options::{BasicConsumeOptions, ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions},
    types::FieldTable,
};
use orchestrator_edge::{
    LinkState, PeerError, Reconnecting, RetryPolicy,
    amqp::{Broker, Deliveries, Session, connection_lost, with_timeout},
};
use orchestrator_observe::metrics;
use orchestrator_supervise::{ChildSpec, Factory, StartCx};
use tokio::sync::watch;

/// Exchange that the server publishes to.
const EXCHANGE: &str = "ermrest_changes";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NoticeState {
    /// Number of notices since the process began. A new binding counts as one, since earlier
    /// notices were missed.
    pub count: u64,
    /// The consumer is active.
    pub is_up: bool,
    /// Time of the last change of `is_up`.
    pub since: Instant,
}

/// Handle of the consumer's state. Each clone waits on its own.
#[derive(Debug, Clone)]
pub(crate) struct Notices(watch::Receiver<NoticeState>);

impl Notices {
    /// Notices of a catalog without a broker: none come.
    pub(crate) fn none() -> Self {
        Self(watch::channel(NoticeState { count: 0, is_up: false, since: Instant::now() }).1)
    }

    pub(crate) fn state(&self) -> NoticeState {
        *self.0.borrow()
    }

    /// Waits for a state that this handle has not returned from this method or
    /// [`Notices::mark_seen`]. Cancel safe. Without a broker it waits forever.
    pub(crate) async fn changed(&mut self) -> NoticeState {
        if self.0.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
        self.mark_seen()
    }

    pub(crate) fn mark_seen(&mut self) -> NoticeState {
        *self.0.borrow_and_update()
    }
}

/// Specification of the child `notices`, which consumes from `broker`, and its state. It starts
/// without the broker and reconnects by itself.
pub(crate) fn child_spec(broker: Broker) -> (Notices, ChildSpec) {
    // A notice has six bytes.
    let broker = broker.small_frames();
    let (sender, state) = watch::channel(NoticeState { count: 0, is_up: false, since: Instant::now() });
    let sender = Arc::new(sender);
    let factory = Factory::task(move |cx: StartCx| {
        let link = LinkState::new(&cx, "rabbitmq", broker.endpoint(), RetryPolicy::REMOTE);
        let mut consumer = NoticeConsumer {
            broker: broker.clone().reporting_to(&link),
            state: sender.clone(),
            metrics: NoticeMetrics::register(&cx.vitals),
        };
        async move {
            consumer.run(&link).await;
            Ok(())
        }
    });
    (Notices(state), ChildSpec::worker("notices", factory))
}

metrics! {
    /// Metrics of the consumer.
    struct NoticeMetrics {
        /// Notices received: some catalog of the server has changed.
        notices: counter("notices"),
        /// Queues bound to the exchange of notices.
        bindings: counter("bindings"),
    }
}

struct NoticeConsumer {
    broker: Broker,
    state: Arc<watch::Sender<NoticeState>>,
    metrics: NoticeMetrics,
}

impl Reconnecting for NoticeConsumer {
    type Connection = (Session, Channel, Consumer);
    type Error = PeerError;

    async fn connect(&mut self) -> Result<Self::Connection, PeerError> {
        let session = self.broker.connect().await?;
        let bind = async {
            let channel = session.channel().await?;
            let consumer = bind(&channel).await?;
            Ok((channel, consumer))
        };
        let (channel, consumer) = session.while_connected(bind).await?;
        Ok((session, channel, consumer))
    }

    async fn serve(
        &mut self,
        (session, _channel, consumer): Self::Connection,
        link: &LinkState,
    ) -> Result<(), PeerError> {
        self.metrics.bindings.add(1);
        let result = tokio::select! {
            biased;
            () = link.stopped() => Ok(()),
            error = session.lost() => Err(error),
            error = self.consume(Deliveries::new(consumer), link) => Err(error),
        };
        session.close().await;
        result
    }
}

impl NoticeConsumer {
    /// Counts notices until the consumer ends. Only a notice resets the delays: a broker that
    /// cancels each consumer at once is tried less and less often.
    async fn consume(&self, mut notices: Deliveries, link: &LinkState) -> PeerError {
        // The state is down however this function ends.
        let _mark_down = MarkDown(&self.state);
        // Changes before the binding were missed, so a poll is due.
        self.count_notice(true);
        while let Some(notice) = notices.next().await {
            if let Err(reason) = notice {
                return connection_lost(reason);
            }
            self.metrics.notices.add(1);
            self.count_notice(false);
            link.succeeded();
        }
        // The broker cancelled the consumer (CONTRACT CX09).
        connection_lost("the queue was deleted, or its channel closed")
    }

    fn count_notice(&self, begins: bool) {
        self.state.send_modify(|state| {
            state.count += 1;
            if begins {
                (state.is_up, state.since) = (true, Instant::now());
            }
        });
    }
}

/// Marks the notices as down when dropped.
struct MarkDown<'a>(&'a watch::Sender<NoticeState>);

impl Drop for MarkDown<'_> {
    fn drop(&mut self) {
        self.0.send_if_modified(|state| {
            let was_up = state.is_up;
            if was_up {
                (state.is_up, state.since) = (false, Instant::now());
            }
            was_up
        });
    }
}

/// Declares the exchange with the server's flags and consumes an exclusive queue. Without
/// acknowledgements: unacknowledged notices would pile up until the broker closes the channel
/// (CONTRACT CX08).
async fn bind(channel: &Channel) -> Result<Consumer, PeerError> {
    let declare = channel.exchange_declare(
        EXCHANGE.into(),
        ExchangeKind::Fanout,
        ExchangeDeclareOptions::default(),
        FieldTable::default(),
    );
    with_timeout("declare the exchange ermrest_changes (if it exists with other flags, delete it)", declare)
        .await?;
    let options = QueueDeclareOptions { exclusive: true, ..QueueDeclareOptions::default() };
    let queue =
        with_timeout("declare a queue", channel.queue_declare("".into(), options, FieldTable::default()))
            .await?;
    let name = queue.name().clone();
    let bind = channel.queue_bind(
        name.clone(),
        EXCHANGE.into(),
        name.clone(),
        QueueBindOptions::default(),
        FieldTable::default(),
    );
    with_timeout("bind the queue", bind).await?;
    let options = BasicConsumeOptions { exclusive: true, no_ack: true, ..BasicConsumeOptions::default() };
    with_timeout("consume the queue", channel.basic_consume(name, "".into(), options, FieldTable::default()))
        .await
}
