//! Child that owns one connection: it pushes batches in order and answers `INFO` requests between them.
//!
//! While the server is unavailable, batches wait and `INFO` requests fail at once.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::AcqRel},
};

use orchestrator_edge::{LinkState, PeerError, PeerErrorKind, Reconnecting, RetryPolicy, Sent};
use orchestrator_observe::{FailureKind, LinkFailure, metrics};
use orchestrator_supervise::{Factory, Inbox, InboxSlot, Reply, StartCx};
use tokio::{
    sync::OwnedSemaphorePermit,
    time::{Instant, sleep},
};

use super::{
    connection::Connection,
    error::{connection_lost, not_sent},
    queue_gauges::QueueGauges,
    server::Server,
};
use orchestrator_producer_rules::{batch::Command, queue_state::QueueState};

use crate::queue::Unacknowledged;

/// Consecutive batches without an accepted job after which the refusal is a cause.
const REFUSALS_MAX: u32 = 5;

/// A batch to push.
#[derive(Debug)]
pub(super) struct BatchRequest {
    pub(super) command: Command,
    pub(super) reply: Reply<Result<Option<Unacknowledged>, PeerError>>,
    /// Set by the connection that sends the batch or by the caller that withdraws it, whichever is first.
    pub(super) claimed: Arc<AtomicBool>,
    /// Bytes of the batch in the connection's queue.
    pub(super) _permit: Option<OwnedSemaphorePermit>,
}

/// A request for the lengths of queues and sets.
pub(super) type InfoRequest = Reply<Result<QueueState, PeerError>>;

/// The child serves both inboxes. `shows_queues` adds the gauges of the server's queues.
pub(super) fn factory(
    server: Server,
    batches: &InboxSlot<BatchRequest>,
    infos: &InboxSlot<InfoRequest>,
    shows_queues: bool,
) -> Factory {
    let slots = (batches.clone(), infos.clone());
    let task = Factory::task(move |cx: StartCx| {
        let task = ConnectionTask {
            server: server.clone(),
            batches: slots.0.open(),
            infos: slots.1.open(),
            metrics: ConnectionMetrics::register(&cx.vitals),
            queue_gauges: shows_queues.then(|| QueueGauges::new(&cx.vitals)),
            was_up: false,
            refusals: 0,
            cx,
        };
        async move {
            task.run().await;
            Ok(())
        }
    });
    task.with_inbox("batches", batches).with_inbox("info_requests", infos)
}

struct ConnectionTask {
    server: Server,
    batches: Inbox<BatchRequest>,
    infos: Inbox<InfoRequest>,
    metrics: ConnectionMetrics,
    queue_gauges: Option<QueueGauges>,
    was_up: bool,
    /// Consecutive batches of which the server refused every job.
    refusals: u32,
    cx: StartCx,
}

metrics! {
    /// Metrics of one connection.
    struct ConnectionMetrics {
        /// Jobs that Faktory accepted.
        accepted: counter("jobs"),
        /// Jobs that Faktory refused; they are pushed again.
        refused: counter("jobs"),
        /// Jobs whose reply was lost; they are pushed again under other jids and may be queued twice.
        ambiguous: counter("jobs"),
        /// Batches that Faktory answered.
        batches: counter("batches"),
        /// Bytes of the batches that Faktory answered.
        sent: counter("bytes"),
        /// Time from sending a batch until its reply.
        busy: counter("microseconds"),
        /// Connections to Faktory that replaced a lost one.
        reconnects: counter("connections"),
    }
}

impl ConnectionTask {
    async fn run(mut self) {
        let link = LinkState::new(&self.cx, "faktory", self.server.endpoint(), RetryPolicy::REMOTE);
        Reconnecting::run(&mut self, &link).await;
        while let Some(request) = self.batches.try_recv() {
            let _ = request.reply.send(Err(not_sent("the process stops")));
        }
    }

    async fn info(
        &mut self,
        connection: &mut Connection,
        link: &LinkState,
        request: Option<InfoRequest>,
    ) -> Result<(), PeerError> {
        let _in_progress = self.cx.vitals.begin_work("info");
        let asked = link.request();
        let info = connection.info().await;
        drop(asked);
        let lost = match &info {
            Ok(state) => {
                link.succeeded();
                link.reporter().accepted("INFO");
                if let Some(gauges) = &mut self.queue_gauges {
                    gauges.update(state);
                }
                None
            }
            Err(error) if error.kind == PeerErrorKind::Refused => {
                let failure = error.clone().map_text(|text| format!("INFO: {text}"));
                link.reporter().refused("INFO", &failure, self.server.timeouts.idle);
                None
            }
            Err(error) => Some(error.clone()),
        };
        if let Some(request) = request {
            let _ = request.send(info);
        }
        lost.map_or(Ok(()), Err)
    }

    async fn push(
        &mut self,
        connection: &mut Connection,
        link: &LinkState,
        request: BatchRequest,
    ) -> Result<(), PeerError> {
        let BatchRequest { command, reply, claimed, _permit } = request;
        // A caller that is gone could not push the batch again after an error.
        if reply.is_closed() || claimed.swap(true, AcqRel) {
            return Ok(());
        }
        let _in_progress = self.cx.vitals.begin_work("batch");
        let (started, pushed) = (Instant::now(), link.request());
        let outcome = connection.push(&command).await;
        drop(pushed);
        self.metrics.busy.add(started.elapsed().as_micros() as u64);
        self.metrics.count(&command, &outcome);
        let lost = match &outcome {
            Ok(unacknowledged) => {
                link.succeeded();
                let refused = unacknowledged.as_ref();
                let refused = refused.filter(|refused| refused.positions.len() == command.jids().len());
                self.refusals = refused.map_or(0, |_| self.refusals.saturating_add(1));
                match refused {
                    Some(Unacknowledged { reason, .. }) if self.refusals >= REFUSALS_MAX => {
                        let reason = format!("{} batches in a row: {reason}", self.refusals);
                        let failure = LinkFailure::new(FailureKind::Refused, reason);
                        link.reporter().refused("batches", failure, self.server.timeouts.idle);
                    }
                    Some(_) => {}
                    None => link.reporter().accepted("batches"),
                }
                None
            }
            Err(error) if error.kind == PeerErrorKind::Refused => {
                let failure = error.clone().map_text(|text| format!("batches: {text}"));
                link.reporter().refused("batches", &failure, self.server.timeouts.idle);
                None
            }
            Err(error) => Some(connection_lost(&error.text)),
        };
        let _ = reply.send(outcome);
        lost.map_or(Ok(()), Err)
    }
}

impl Reconnecting for ConnectionTask {
    type Connection = Connection;
    type Error = PeerError;

    async fn connect(&mut self) -> Result<Connection, PeerError> {
        Connection::open(&self.server).await
    }

    /// Serves requests until the connection is lost, or until a stop with empty inboxes.
    async fn serve(&mut self, mut connection: Connection, link: &LinkState) -> Result<(), PeerError> {
        if std::mem::replace(&mut self.was_up, true) {
            self.metrics.reconnects.add(1);
        }
        loop {
            tokio::select! {
                biased;
                // First, so that no batch is sent over a connection that the server has closed.
                error = connection.lost() => return Err(error),
                Some(request) = self.infos.recv() => self.info(&mut connection, link, Some(request)).await?,
                request = self.batches.next(&self.cx) => match request {
                    Some(request) => self.push(&mut connection, link, request).await?,
                    None => break,
                },
                () = sleep(self.server.timeouts.idle) => self.info(&mut connection, link, None).await?,
            }
        }
        connection.end().await;
        Ok(())
    }

    /// Answers `INFO` requests; batches wait.
    async fn refuse(&mut self, error: &PeerError, link: &LinkState) {
        loop {
            tokio::select! {
                biased;
                () = link.stopped() => return,
                Some(request) = self.infos.recv() => drop(request.send(Err(error.clone()))),
            }
        }
    }
}

impl ConnectionMetrics {
    fn count(&self, command: &Command, outcome: &Result<Option<Unacknowledged>, PeerError>) {
        let jobs = command.jids().len() as u64;
        match outcome {
            Ok(refused) => {
                self.batches.add(1);
                self.sent.add(command.bytes().len() as u64);
                let refused = refused.as_ref().map_or(0, |refused| refused.positions.len() as u64);
                self.refused.add(refused);
                self.accepted.add(jobs - refused);
            }
            Err(error) if error.kind == PeerErrorKind::Refused => self.refused.add(jobs),
            Err(error) if error.sent == Sent::No => {}
            Err(_) => self.ambiguous.add(jobs),
        }
    }
}
