//! Declaration of the workers' exchanges, queues and bindings (CONTRACT PP02 to PP04).

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::SeqCst},
};

use lapin::{Channel, ExchangeKind, options::QueueBindOptions, types::FieldTable};
use orchestrator_edge::{
    PeerError,
    amqp::{Session, unless_different, with_timeout},
};
use orchestrator_observe::LinkFailure;
use orchestrator_supervise::Vitals;

use super::topology::{QueueKind, Topology};
use crate::policy::{Worker, binding_key, methods};

/// Feature that a broker names when it refuses transient queues. It closes the connection with 541
/// INTERNAL_ERROR then, which has other reasons, too.
const TRANSIENT_QUEUES: &str = "transient_nonexcl_queues";

/// Kinds of the queues that a consumer declares.
#[derive(Debug)]
pub(super) struct Queues {
    configured: Option<Topology>,
    /// True once queues are durable although no topology is configured.
    durable: AtomicBool,
    vitals: Arc<Vitals>,
}

/// Channel that has declared the queues of a worker.
pub(super) struct Declared {
    pub(super) channel: Channel,
    /// True if a queue exists with other properties than those of a new one.
    pub(super) differs: bool,
}

impl Queues {
    pub(super) fn new(configured: Option<Topology>, vitals: Arc<Vitals>) -> Self {
        Self { configured, durable: AtomicBool::new(false), vitals }
    }

    /// Topology of the exchanges.
    pub(super) fn topology(&self) -> Topology {
        self.configured.unwrap_or_default()
    }

    /// Kind of a new queue, and the other kind that an existing one may have.
    fn kinds(&self) -> (QueueKind, Option<QueueKind>) {
        match self.configured {
            Some(Topology::Transient) => (QueueKind::Transient, None),
            Some(Topology::Durable) => (QueueKind::Durable, None),
            Some(Topology::Quorum) => (QueueKind::Quorum, Some(QueueKind::OldQuorum)),
            None if self.durable.load(SeqCst) => (QueueKind::Durable, Some(QueueKind::Transient)),
            None => (QueueKind::Transient, Some(QueueKind::Durable)),
        }
    }

    /// Declares the queues of one worker if they may be transient, before others do: a broker that refuses
    /// transient queues closes the connection.
    ///
    /// # Errors
    /// The broker refuses transient queues. The worker itself reports other errors.
    pub(super) async fn try_one(&self, session: &Session, worker: Worker) -> Result<(), PeerError> {
        if self.topology() != Topology::Transient {
            return Ok(());
        }
        let tried = session.while_connected(self.declare(session, worker)).await;
        tried.map(drop).or_else(|error| if refuses_transient(&error) { Err(error) } else { Ok(()) })
    }

    /// True if `error` is the refusal of transient queues, which are declared durable from now on.
    pub(super) fn become_durable(&self, error: &PeerError) -> bool {
        self.configured.is_none()
            && refuses_transient(error)
            && self.set_durable(&format!("the broker refuses transient queues ({TRANSIENT_QUEUES})"))
    }

    /// False if queues were declared durable before.
    fn set_durable(&self, reason: &str) -> bool {
        let is_new = !self.durable.swap(true, SeqCst);
        if is_new {
            let text =
                format!("{reason}: without a topology in the configuration, queues are declared durable");
            tracing::warn!(path = self.vitals.path(), "{text}");
            self.vitals.note(text);
        }
        is_new
    }

    /// Reason of `error` for operators.
    pub(super) fn explain(&self, error: &PeerError) -> LinkFailure {
        let failure = LinkFailure::from(error);
        match refuses_transient(error) {
            true => failure.with_help(
                "set provenance.amqp.topology = \"durable\", or permit the feature in rabbitmq.conf",
            ),
            false => failure,
        }
    }

    /// Opens a channel and declares the exchange of `worker`, its queues and their bindings, in the
    /// original's order. Repeating it changes nothing. Each queue that exists with other properties costs a
    /// channel.
    ///
    /// # Errors
    /// The broker refuses, for example because the queue exists with another [`Topology`].
    pub(super) async fn declare(&self, session: &Session, worker: Worker) -> Result<Declared, PeerError> {
        let mut different = Vec::new();
        loop {
            let channel = session.channel().await?;
            match self.declare_on(&channel, worker, &different).await? {
                Some(queue) => different.push(queue),
                None => return Ok(Declared { channel, differs: !different.is_empty() }),
            }
        }
    }

    /// Declares queues in `different` with the other kind. Returns the name of a further queue that exists
    /// with other properties; the channel is then closed.
    async fn declare_on(
        &self,
        channel: &Channel,
        worker: Worker,
        different: &[(String, QueueKind)],
    ) -> Result<Option<(String, QueueKind)>, PeerError> {
        let exchange = worker.exchange.name();
        let what = |what: &str| format!("{what} (if it exists with other flags: see the setting topology)");
        let flags = self.topology().exchange();
        let declare =
            channel.exchange_declare(exchange.into(), ExchangeKind::Direct, flags, FieldTable::default());
        with_timeout(&what(&format!("declare the exchange {exchange}")), declare).await?;
        let names = || methods(worker.exchange).iter().map(|&method| binding_key(method, worker.range));
        for name in names() {
            let known = different.iter().find(|(queue, _)| *queue == name).map(|&(_, kind)| kind);
            let (first, other) = self.kinds();
            let (flags, arguments) = known.unwrap_or(first).declaration();
            let declare = channel.queue_declare(name.as_str().into(), flags, arguments);
            let what = what(&format!("declare the queue {name}"));
            match other.filter(|_| known.is_none()) {
                None => drop(with_timeout(&what, declare).await?),
                Some(other) => {
                    if unless_different(&what, declare).await?.is_none() {
                        return Ok(Some((name, other)));
                    }
                }
            }
            if known == Some(QueueKind::Durable) {
                self.set_durable(&format!("the queue {name} is durable"));
            }
        }
        for name in names() {
            let (queue, key) = (name.as_str().into(), name.as_str().into());
            let (options, none) = (QueueBindOptions::default(), FieldTable::default());
            let bind = channel.queue_bind(queue, exchange.into(), key, options, none);
            with_timeout(&format!("bind the queue {name}"), bind).await?;
        }
        Ok(None)
    }
}

fn refuses_transient(error: &PeerError) -> bool {
    error.text.contains(TRANSIENT_QUEUES)
}
