//! The reader: answers queries through a store of its own.

use orchestrator_edge::{LinkState, Reconnecting};
use orchestrator_observe::{Metric, MetricKind};
use orchestrator_supervise::{Fault, Inbox, InboxSlot, StartCx};

use crate::{
    edge::unless_stopped,
    messages::ReadRequest,
    store::{StoreError, StoreReader},
};

/// Runs one incarnation. It reconnects by itself; a query to an unavailable store is answered with
/// the error, and the caller decides whether to retry.
///
/// # Errors
/// None.
pub(crate) async fn run<S: StoreReader>(
    cx: &StartCx,
    slot: &InboxSlot<ReadRequest>,
    link: LinkState,
    connect: impl AsyncFn() -> Result<S, StoreError>,
) -> Result<(), Fault> {
    let answered = cx.vitals.register("answered", "queries", MetricKind::Counter, "Queries answered.");
    // The writer may be creating the file or the tables.
    let link = link.expecting_failures();
    let mut server = QueryServer { cx, inbox: slot.open(), connect, answered, unanswered: None };
    server.run(&link).await;
    Ok(())
}

/// Inbox of queries.
struct QueryServer<'a, C> {
    cx: &'a StartCx,
    inbox: Inbox<ReadRequest>,
    connect: C,
    answered: Metric,
    /// Query that a lost connection left unanswered.
    unanswered: Option<ReadRequest>,
}

impl<S: StoreReader, C: AsyncFn() -> Result<S, StoreError>> Reconnecting for QueryServer<'_, C> {
    type Connection = S;
    type Error = StoreError;

    async fn connect(&mut self) -> Result<S, StoreError> {
        (self.connect)().await
    }

    async fn serve(&mut self, mut store: S, link: &LinkState) -> Result<(), StoreError> {
        loop {
            let (request, is_retry) = match self.unanswered.take() {
                Some(request) => (request, true),
                None => match self.inbox.next(self.cx).await {
                    Some(request) => (request, false),
                    None => return Ok(()),
                },
            };
            if request.reply.is_closed() {
                // The caller has given up, for example a client that disconnected.
                continue;
            }
            let _work = self.cx.vitals.begin_work("question");
            let query = link.request();
            let answer = store.read(&request.query).await;
            drop(query);
            let away =
                answer.as_ref().err().filter(|error| matches!(error, StoreError::Unavailable(_))).cloned();
            if away.is_some() && !is_retry {
                // The connection may have been broken for long; a new one decides.
                self.unanswered = Some(request);
                drop(store);
                let attempt = link.request();
                let Some(connected) = unless_stopped(self.cx, self.connect()).await else { return Ok(()) };
                drop(attempt);
                store = connected?;
                link.connected();
                continue;
            }
            // The caller may have given up.
            let _ = request.reply.send(answer);
            if let Some(error) = away {
                return Err(error);
            }
            link.succeeded();
            self.answered.add(1);
        }
    }

    async fn refuse(&mut self, error: &StoreError, _link: &LinkState) {
        let refuse = |request: ReadRequest| drop(request.reply.send(Err(error.clone())));
        self.unanswered.take().map(refuse);
        while let Some(request) = self.inbox.next(self.cx).await {
            refuse(request);
        }
    }
}
