//! `actor`: an actor of another subsystem works on the rows, each handed over as a message.

use std::time::Duration;

use orchestrator_supervise::{Message, Recipient};
use tokio::{sync::oneshot, time::timeout};

use crate::handling::{Handler, Task, Verdict};

/// Asks an actor to work on a row. It answers with [`HandleRow::answer`], whenever it is done: what takes long must not keep its
/// mailbox waiting. Dropped without an answer, it has failed.
#[derive(Debug)]
pub struct HandleRow {
    /// The row.
    pub task: Task,
    answer: oneshot::Sender<Verdict>,
}

impl Message for HandleRow {
    type Result = ();
}

impl HandleRow {
    /// How it ended. Nobody may be waiting for it any more.
    pub fn answer(self, verdict: Verdict) {
        let _ = self.answer.send(verdict);
    }

    /// Waits until nobody waits for the answer any more: the work is to be ended. May be dropped and called again.
    pub async fn abandoned(&mut self) {
        self.answer.closed().await;
    }
}

/// Hands rows to an actor.
#[derive(Debug, Clone)]
pub struct Actor {
    /// Its mailbox.
    pub mailbox: Recipient<HandleRow>,
    /// How long it may take.
    pub timeout: Duration,
}

impl Handler for Actor {
    async fn handle(&self, task: Task) -> Verdict {
        let (answer, answered) = oneshot::channel();
        if let Err(refused) = self.mailbox.tell(HandleRow { task, answer }) {
            return Verdict::Later(refused.to_string());
        }
        match timeout(self.timeout, answered).await {
            Ok(Ok(verdict)) => verdict,
            // A row that makes its actor fail must not be tried for ever.
            Ok(Err(_)) => Verdict::Failed("the actor ended before it answered".to_owned()),
            Err(_) => Verdict::Failed(format!("the actor did not answer within {:?}", self.timeout)),
        }
    }
}
