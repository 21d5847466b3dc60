//! Notices of change (CONTRACT CP13, CP14): after each write, to whichever of its catalogs, a server of ERMrest says so to a broker. They carry
//! nothing, and may be lost; so they mean "look now", and whoever looks goes on looking without them.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::StreamExt;
use lapin::{
    Channel, Consumer, ExchangeKind,
    options::{BasicConsumeOptions, ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions},
    types::FieldTable,
};
use orchestrator_edge::{
    Reconnect,
    amqp::{AmqpError, Broker, with_timeout},
};
use orchestrator_supervise::{Backoff, ChildSpec, Factory, StartCx, metrics};
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};

/// Where the server publishes.
const EXCHANGE: &str = "ermrest_changes";
/// What is waited between two tries to connect, unless said otherwise.
pub const RETRY: Backoff = Backoff { first: Duration::from_millis(500), max: Duration::from_secs(60) };
/// While a broker is away, how often it is looked whether anybody listens there again.
const KNOCK: Duration = Duration::from_secs(3);

/// What was heard so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heard {
    /// Notices since the process began. A new binding counts as one: what was missed before it can only be seen by looking.
    pub count: u64,
    /// Would a notice be heard now?
    pub is_up: bool,
    /// Since when that is so.
    pub since: Instant,
}

/// What the child hears. Clones each wait for themselves.
#[derive(Debug, Clone)]
pub struct Notices(watch::Receiver<Heard>);

impl Notices {
    /// Without a broker: never up.
    pub fn none() -> Self {
        Self(watch::channel(Heard { count: 0, is_up: false, since: Instant::now() }).1)
    }

    /// What was heard so far.
    pub fn heard(&self) -> Heard {
        *self.0.borrow()
    }

    /// Waits until there is something that neither this nor [`Notices::heard_now`] has given yet: a notice, or that notices begin or
    /// cease to come. Nothing is lost between two calls; it may be dropped and called again. Without a broker it waits for ever.
    pub async fn changed(&mut self) -> Heard {
        if self.0.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
        self.heard_now()
    }

    /// What was heard so far, which [`Notices::changed`] need not tell any more.
    pub fn heard_now(&mut self) -> Heard {
        *self.0.borrow_and_update()
    }
}

/// The child that listens at `broker`, named `notices`, and what it hears. It starts without the broker and comes back by itself: after
/// the delays of `retry`, or as soon as somebody listens where nobody did.
pub fn child_spec(broker: Broker, retry: Backoff) -> (Notices, ChildSpec) {
    // A notice has six bytes.
    let broker = broker.small_frames();
    let (told, heard) = watch::channel(Heard { count: 0, is_up: false, since: Instant::now() });
    let told = Arc::new(told);
    let factory = Factory::task(move |cx: StartCx| {
        let ear = Ear {
            broker: broker.clone(),
            retry,
            told: told.clone(),
            metrics: NoticeMetrics::register(&cx.vitals),
            cx,
        };
        async move {
            ear.run().await;
            Ok(())
        }
    });
    (Notices(heard), ChildSpec::worker("notices", factory))
}

metrics! {
    /// Metrics of the listener.
    struct NoticeMetrics {
        /// Notices heard: something in some catalog of the server has changed.
        notices: counter("notices"),
        /// Times that a queue was bound to the broker's notices.
        bindings: counter("bindings"),
    }
}

struct Ear {
    broker: Broker,
    retry: Backoff,
    told: Arc<watch::Sender<Heard>>,
    metrics: NoticeMetrics,
    cx: StartCx,
}

impl Ear {
    async fn run(self) {
        let mut reconnect =
            Reconnect::new(self.cx.vitals.link("rabbitmq", self.broker.endpoint()), self.retry);
        while let Err(lost) = self.listen(&mut reconnect).await {
            let delay = reconnect.failed(lost.to_string());
            tokio::select! {
                biased;
                () = self.cx.stop.cancelled() => return,
                is_back = self.is_back(delay) => if is_back { reconnect.reset_backoff() },
            }
        }
    }

    /// Listens until a stop, or until that fails.
    async fn listen(&self, reconnect: &mut Reconnect) -> Result<(), AmqpError> {
        let bound = async {
            let session = self.broker.connect().await?;
            let channel = session.channel().await?;
            let consumer = bind(&channel).await?;
            Ok::<_, AmqpError>((session, channel, consumer))
        };
        let (session, _channel, consumer) = tokio::select! {
            biased;
            () = self.cx.stop.cancelled() => return Ok(()),
            bound = bound => bound?,
        };
        self.metrics.bindings.add(1);
        reconnect.connected();
        let heard = tokio::select! {
            biased;
            () = self.cx.stop.cancelled() => Ok(()),
            error = session.lost() => Err(error),
            error = self.hear(consumer, reconnect) => Err(error),
        };
        session.close().await;
        heard
    }

    /// Tells of each notice until there will be no more. The first is progress: a broker that confirms consumers and drops them is tried
    /// ever less often.
    async fn hear(&self, mut consumer: Consumer, reconnect: &mut Reconnect) -> AmqpError {
        // However it ends, nothing is heard then.
        let _deaf = Deaf(&self.told);
        // Whoever looks now sees all that was written before notices come.
        self.tell(true);
        while let Some(notice) = consumer.next().await {
            if let Err(error) = notice {
                return AmqpError::Lost(error.to_string());
            }
            self.metrics.notices.add(1);
            self.tell(false);
            reconnect.succeeded();
        }
        // The broker cancelled it: the original stays deaf then.
        AmqpError::Lost("the queue was deleted, or its channel closed".to_owned())
    }

    /// One notice more.
    fn tell(&self, begins: bool) {
        self.told.send_modify(|heard| {
            heard.count += 1;
            if begins {
                (heard.is_up, heard.since) = (true, Instant::now());
            }
        });
    }

    /// Waits before the next try: for `delay`, or until somebody listens where nobody did; true then.
    async fn is_back(&self, delay: Duration) -> bool {
        let back = async {
            // A broker that listens and does not let us in is not asked any sooner.
            while self.broker.is_listening().await {
                sleep(KNOCK).await;
            }
            while !self.broker.is_listening().await {
                sleep(KNOCK).await;
            }
        };
        timeout(delay, back).await.is_ok()
    }
}

/// Tells that nothing is heard any more.
struct Deaf<'a>(&'a watch::Sender<Heard>);

impl Drop for Deaf<'_> {
    fn drop(&mut self) {
        self.0.send_if_modified(|heard| {
            let was_up = heard.is_up;
            if was_up {
                (heard.is_up, heard.since) = (false, Instant::now());
            }
            was_up
        });
    }
}

/// Declares the exchange as the server does, and consumes a queue of our own. Nothing is acknowledged: the original's notices, which it
/// never acknowledges either, pile up in the broker until that closes the channel.
async fn bind(channel: &Channel) -> Result<Consumer, AmqpError> {
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
