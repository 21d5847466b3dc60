//! The reader: answers questions beside the writer, through a store of its own.

use orchestrator_edge::Reconnect;
use orchestrator_supervise::{Fault, Inbox, InboxSlot, Metric, MetricKind, StartCx};

use tokio::time::{Instant, timeout_at};

use crate::{
    messages::ReadRequest,
    store::{Ask, StoreError},
};

/// Tries of a start that make no news: the writer may be making the file just now.
const QUIET_TRIES: u32 = 3;

/// One incarnation of the reader. It connects at once and comes back by itself; a question that meets a store that is away
/// is answered so: whoever asks decides whether to wait.
///
/// # Errors
/// None.
pub(crate) async fn run<S: Ask>(
    cx: &StartCx,
    slot: &InboxSlot<ReadRequest>,
    tries: Reconnect,
    connect: impl AsyncFn() -> Result<S, StoreError>,
) -> Result<(), Fault> {
    let answered = cx.vitals.register("answered", "questions", MetricKind::Counter, "Questions answered.");
    let mut desk = Desk { cx, inbox: slot.open(), answered, unanswered: None };
    let mut tries = tries.report_after_failures(QUIET_TRIES);
    loop {
        let failed = match connect().await {
            Ok(store) => {
                tries.connected();
                match desk.serve(store, &mut tries).await {
                    Served::Stopped => return Ok(()),
                    Served::Stale => continue,
                    Served::Away(error) => error,
                }
            }
            Err(error) => error,
        };
        let delay = tries.failed(failed.to_string());
        if desk.decline(&failed, Instant::now() + delay).await.is_none() {
            return Ok(());
        }
    }
}

/// End of serving.
enum Served {
    /// It was asked to stop.
    Stopped,
    /// A connection that had answered before, or not been asked yet, broke: a new one may be better.
    Stale,
    /// The store is away.
    Away(StoreError),
}

/// Where questions come in.
struct Desk<'a> {
    cx: &'a StartCx,
    inbox: Inbox<ReadRequest>,
    answered: Metric,
    /// A lost connection left it so.
    unanswered: Option<ReadRequest>,
}

impl Desk<'_> {
    /// Answers questions until the store is away or the child is asked to stop.
    async fn serve<S: Ask>(&mut self, mut store: S, tries: &mut Reconnect) -> Served {
        loop {
            let (request, again) = match self.unanswered.take() {
                Some(request) => (request, true),
                None => match self.inbox.next(self.cx).await {
                    Some(request) => (request, false),
                    None => return Served::Stopped,
                },
            };
            let _in_hand = self.cx.vitals.begin_work("question");
            let answer = store.read(&request.question).await;
            let away = answer.as_ref().err().filter(|error| matches!(error, StoreError::Away(_))).cloned();
            if away.is_some() && !again {
                // The connection may have broken long ago, unnoticed: a new one decides.
                self.unanswered = Some(request);
                return Served::Stale;
            }
            // Whoever asked may have given up.
            let _ = request.reply.send(answer);
            if let Some(error) = away {
                return Served::Away(error);
            }
            tries.succeeded();
            self.answered.add(1);
        }
    }

    /// Answers questions with `error` until `retry_at`; none when asked to stop.
    async fn decline(&mut self, error: &StoreError, retry_at: Instant) -> Option<()> {
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
