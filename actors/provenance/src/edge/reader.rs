//! The reader: answers questions beside the writer, through a store of its own.

use orchestrator_edge::Reconnect;
use orchestrator_supervise::{Fault, Figure, FigureKind, Inbox, InboxSlot, StartCx};

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
    let answered = cx.vitals.declare("answered", "questions", FigureKind::Counter);
    let mut desk = Desk { cx, inbox: slot.open(), answered, unanswered: None };
    let mut tries = tries.patient(QUIET_TRIES);
    loop {
        let stopped = match connect().await {
            Ok(store) => {
                tries.succeeded();
                desk.serve(store).await
            }
            Err(error) => desk.decline(&error, Instant::now() + tries.failed(error.to_string())).await,
        };
        if stopped.is_none() {
            return Ok(());
        }
    }
}

/// Where questions come in.
struct Desk<'a> {
    cx: &'a StartCx,
    inbox: Inbox<ReadRequest>,
    answered: Figure,
    /// A lost connection left it so.
    unanswered: Option<ReadRequest>,
}

impl Desk<'_> {
    /// Answers questions until the store is away; none when asked to stop.
    async fn serve<S: Ask>(&mut self, mut store: S) -> Option<()> {
        let mut worked = false;
        loop {
            let request = match self.unanswered.take() {
                Some(request) => request,
                None => self.inbox.next(self.cx).await?,
            };
            let _in_hand = self.cx.vitals.hold("question");
            let answer = store.read(&request.question).await;
            let away = matches!(answer, Err(StoreError::Away(_)));
            if away && worked {
                // The connection may have broken long ago, unnoticed: a new one decides.
                self.unanswered = Some(request);
                return Some(());
            }
            // Whoever asked may have given up.
            let _ = request.reply.send(answer);
            if away {
                return Some(());
            }
            self.answered.add(1);
            worked = true;
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
