//! One connection's child: pushes what comes, one batch after the other, and answers questions in between. A server that is away is
//! a state of its link: batches wait then, and questions are told so.

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::AcqRel},
    },
    time::Duration,
};

use orchestrator_edge::Reconnect;
use orchestrator_supervise::{Backoff, Factory, Inbox, InboxSlot, Reply, StartCx, metrics};
use tokio::{
    sync::OwnedSemaphorePermit,
    time::{Instant, sleep},
};

use super::{
    connection::Connection,
    error::{FaktoryError, PushError, Pushed},
    server::Server,
};
use crate::{batch::Command, reading::Reading};

/// Between two tries.
const RETRY: Backoff = Backoff { first: Duration::from_millis(50), max: Duration::from_secs(5) };

/// A batch on its way, with its share of the lane's bytes.
#[derive(Debug)]
pub(super) struct Parcel {
    pub(super) command: Command,
    pub(super) outcome: Reply<Result<Pushed, PushError>>,
    /// Taken by who comes first: the connection that sends it, or the sender that does not want that any more.
    pub(super) claimed: Arc<AtomicBool>,
    pub(super) _room: OwnedSemaphorePermit,
}

/// Somebody who wants to know queues and sets.
pub(super) type Question = Reply<Result<Reading, FaktoryError>>;

/// What a lane is fed through.
#[derive(Debug, Clone)]
pub(super) struct Slots {
    pub(super) parcels: InboxSlot<Parcel>,
    pub(super) questions: InboxSlot<Question>,
}

/// The child.
pub(super) fn factory(server: Server, slots: &Slots) -> Factory {
    let taken = slots.clone();
    let task = Factory::task(move |cx: StartCx| {
        let lane = Lane {
            server: server.clone(),
            parcels: taken.parcels.open(),
            questions: taken.questions.open(),
            metrics: LaneMetrics::register(&cx.vitals),
            cx,
        };
        async move {
            lane.run().await;
            Ok(())
        }
    });
    task.with_inbox("batches", &slots.parcels).with_inbox("questions", &slots.questions)
}

struct Lane {
    server: Server,
    parcels: Inbox<Parcel>,
    questions: Inbox<Question>,
    metrics: LaneMetrics,
    cx: StartCx,
}

metrics! {
    /// Metrics of one connection.
    struct LaneMetrics {
        /// Jobs that Faktory took, over each connection.
        accepted: counter("jobs"),
        /// Jobs that Faktory refused; they are pushed again.
        refused: counter("jobs"),
        /// Jobs whose reply was lost: they were pushed again under other jids.
        ambiguous: counter("jobs"),
        /// Chunks that Faktory answered.
        batches: counter("batches"),
        /// Bytes sent to Faktory.
        sent: counter("bytes"),
        /// Time that a connection waited for its replies.
        busy: counter("microseconds"),
        /// Connections to Faktory made anew.
        reconnects: counter("connections"),
    }
}

impl Lane {
    async fn run(mut self) {
        let mut reconnect = Reconnect::new(self.cx.vitals.link("faktory", self.server.endpoint()), RETRY);
        let mut was_up = false;
        loop {
            let opened = tokio::select! {
                biased;
                opened = Connection::open(&self.server) => opened,
                () = self.cx.stop.cancelled() => break,
            };
            let error = match opened {
                Ok(mut connection) => {
                    reconnect.connected();
                    if std::mem::replace(&mut was_up, true) {
                        self.metrics.reconnects.add(1);
                    }
                    match self.converse(&mut connection, &mut reconnect).await {
                        Ok(()) => return connection.end().await,
                        Err(error) => error,
                    }
                }
                Err(error) => error,
            };
            let delay = reconnect.failed(error.to_string());
            if !self.wait(delay, &error).await {
                break;
            }
        }
        while let Some(parcel) = self.parcels.try_recv() {
            parcel.answer(Err(PushError::NotSent("the process stops".to_owned())));
        }
    }

    /// Pushes and answers over one connection until it is lost; no error after a stop, once nothing waits any more.
    ///
    /// A connection that the server has closed is noticed at once, before a batch is lost on it; a server that hangs is found out by
    /// an `INFO` each time nothing was asked of it for a while.
    async fn converse(
        &mut self,
        connection: &mut Connection,
        reconnect: &mut Reconnect,
    ) -> Result<(), FaktoryError> {
        loop {
            tokio::select! {
                biased;
                error = connection.lost() => return Err(error),
                Some(question) = self.questions.recv() => {
                    let _in_hand = self.cx.vitals.begin_work("info");
                    let info = connection.info().await;
                    let checked = check(&info, reconnect);
                    // Who does not wait any more needs no answer.
                    let _ = question.send(info);
                    checked?;
                }
                parcel = self.parcels.next(&self.cx) => match parcel {
                    Some(parcel) => self.push(connection, parcel, reconnect).await?,
                    None => return Ok(()),
                },
                () = sleep(self.server.patience.idle) => {
                    let _in_hand = self.cx.vitals.begin_work("info");
                    check(&connection.info().await, reconnect)?;
                }
            }
        }
    }

    async fn push(
        &self,
        connection: &mut Connection,
        parcel: Parcel,
        reconnect: &mut Reconnect,
    ) -> Result<(), FaktoryError> {
        // Whoever sent it has gone, and would not know what became of it.
        if parcel.outcome.is_closed() || parcel.claimed.swap(true, AcqRel) {
            return Ok(());
        }
        let _in_hand = self.cx.vitals.begin_work("batch");
        let begun = Instant::now();
        let outcome = connection.push(&parcel.command).await;
        self.metrics.busy.add(begun.elapsed().as_micros() as u64);
        self.metrics.count(&parcel.command, &outcome);
        if outcome.is_ok() {
            reconnect.succeeded();
        }
        let lost = outcome.as_ref().err().filter(|error| !error.spares_connection()).map(ToString::to_string);
        parcel.answer(outcome);
        lost.map_or(Ok(()), |reason| Err(FaktoryError::Lost(reason)))
    }

    /// Waits before the next try; false when asked to stop meanwhile. Questions hear what the matter is.
    async fn wait(&mut self, delay: Duration, error: &FaktoryError) -> bool {
        let mut over = pin!(sleep(delay));
        loop {
            tokio::select! {
                biased;
                () = self.cx.stop.cancelled() => return false,
                () = &mut over => return true,
                Some(question) = self.questions.recv() => {
                    // Who does not wait any more needs no answer.
                    let _ = question.send(Err(error.clone()));
                }
            }
        }
    }
}

/// An answered `INFO` is progress; after an error the connection may be of no use any more.
fn check(info: &Result<Reading, FaktoryError>, reconnect: &mut Reconnect) -> Result<(), FaktoryError> {
    match info {
        Ok(_) => reconnect.succeeded(),
        Err(error @ FaktoryError::Lost(_)) => return Err(error.clone()),
        // It is there, and does not want to tell.
        Err(_) => {}
    }
    Ok(())
}

impl Parcel {
    fn answer(self, outcome: Result<Pushed, PushError>) {
        // Who does not wait any more needs no answer.
        let _ = self.outcome.send(outcome);
    }
}

impl LaneMetrics {
    fn count(&self, command: &Command, outcome: &Result<Pushed, PushError>) {
        let jobs = command.jids().len() as u64;
        match outcome {
            Ok(Pushed { refused }) => {
                self.batches.add(1);
                self.sent.add(command.bytes().len() as u64);
                self.refused.add(refused.len() as u64);
                self.accepted.add(jobs - refused.len() as u64);
            }
            Err(PushError::Refused(_)) => self.refused.add(jobs),
            Err(PushError::Ambiguous(_)) => self.ambiguous.add(jobs),
            Err(PushError::NotSent(_)) => {}
        }
    }
}
