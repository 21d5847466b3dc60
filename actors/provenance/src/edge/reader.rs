//! The reader: answers queries through a store of its own.

use orchestrator_edge::Reconnect;
use orchestrator_supervise::{Fault, Inbox, InboxSlot, Metric, MetricKind, StartCx};

use tokio::time::{Instant, timeout_at};

use crate::{
    edge::unless_stopped,
    messages::ReadRequest,
    store::{StoreError, StoreReader},
};

/// Failed tries at the start that are not reported: the writer may be creating the file.
const QUIET_TRIES: u32 = 3;

/// Runs one incarnation. It reconnects by itself; a query to an unavailable store is answered with
/// the error, and the caller decides whether to retry.
///
/// # Errors
/// None.
pub(crate) async fn run<S: StoreReader>(
    cx: &StartCx,
    slot: &InboxSlot<ReadRequest>,
    tries: Reconnect,
    connect: impl AsyncFn() -> Result<S, StoreError>,
) -> Result<(), Fault> {
    let answered = cx.vitals.register("answered", "queries", MetricKind::Counter, "Queries answered.");
    let mut server = QueryServer { cx, inbox: slot.open(), answered, unanswered: None };
    let mut tries = tries.report_after_failures(QUIET_TRIES);
    loop {
        let Some(connected) = unless_stopped(cx, connect()).await else { return Ok(()) };
        let failed = match connected {
            Ok(store) => {
                tries.connected();
                match server.serve(store, &mut tries).await {
                    Served::Stopped => return Ok(()),
                    Served::Stale => continue,
                    Served::Unavailable(error) => error,
                }
            }
            Err(error) => error,
        };
        let delay = tries.failed(failed.to_string());
        if server.refuse_until(&failed, Instant::now() + delay).await.is_none() {
            return Ok(());
        }
    }
}

/// Reason why [`QueryServer::serve`] returned.
enum Served {
    /// The child was stopped.
    Stopped,
    /// A connection that may have been broken for long: try a new one.
    Stale,
    /// The store is unavailable.
    Unavailable(StoreError),
}

/// Inbox of queries.
struct QueryServer<'a> {
    cx: &'a StartCx,
    inbox: Inbox<ReadRequest>,
    answered: Metric,
    /// Query that a lost connection left unanswered.
    unanswered: Option<ReadRequest>,
}

impl QueryServer<'_> {
    /// Answers queries until the store is unavailable or the child is stopped.
    async fn serve<S: StoreReader>(&mut self, mut store: S, tries: &mut Reconnect) -> Served {
        loop {
            let (request, is_retry) = match self.unanswered.take() {
                Some(request) => (request, true),
                None => match self.inbox.next(self.cx).await {
                    Some(request) => (request, false),
                    None => return Served::Stopped,
                },
            };
            if request.reply.is_closed() {
                // The caller has given up, for example a client that disconnected.
                continue;
            }
            let _work = self.cx.vitals.begin_work("question");
            let answer = store.read(&request.query).await;
            let away =
                answer.as_ref().err().filter(|error| matches!(error, StoreError::Unavailable(_))).cloned();
            if away.is_some() && !is_retry {
                // The connection may have been broken for long; a new one decides.
                self.unanswered = Some(request);
                return Served::Stale;
            }
            // The caller may have given up.
            let _ = request.reply.send(answer);
            if let Some(error) = away {
                return Served::Unavailable(error);
            }
            tries.succeeded();
            self.answered.add(1);
        }
    }

    /// Answers queries with `error` until `retry_at`; None when the child is stopped.
    async fn refuse_until(&mut self, error: &StoreError, retry_at: Instant) -> Option<()> {
        let mut next = self.unanswered.take();
        loop {
            if let Some(request) = next {
                let _ = request.reply.send(Err(error.clone()));
            }
            next = match timeout_at(retry_at, self.inbox.next(self.cx)).await {
                Err(_elapsed) => return Some(()),
                Ok(request) => Some(request?),
            };
        }
    }
}
