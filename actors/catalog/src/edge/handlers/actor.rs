//! `actor`: rows are sent as messages to an actor of another subsystem.

use std::time::Duration;

use orchestrator_supervise::{Message, Recipient};
use tokio::{sync::oneshot, time::timeout};

use crate::handler::{Handler, Outcome, Task};

/// Message that hands a row to an actor. The actor replies with [`HandleRow::answer`] when the work
/// is done, without blocking its mailbox meanwhile. Dropping the message counts as a failure.
#[derive(Debug)]
pub struct HandleRow {
    /// The row with its claim.
    pub task: Task,
    answer: oneshot::Sender<Outcome>,
}

impl Message for HandleRow {
    type Result = ();
}

impl HandleRow {
    /// Sends the outcome; ignored if the rule no longer waits.
    pub fn answer(self, outcome: Outcome) {
        let _ = self.answer.send(outcome);
    }

    /// Waits until the rule no longer waits for the outcome, so that the work can be cancelled.
    /// Cancel safe.
    pub async fn abandoned(&mut self) {
        self.answer.closed().await;
    }
}

/// Handler that sends rows to an actor.
#[derive(Debug, Clone)]
pub struct Actor {
    /// Mailbox of the actor.
    pub mailbox: Recipient<HandleRow>,
    /// Maximum time for one row.
    pub timeout: Duration,
}

impl Handler for Actor {
    async fn handle(&self, task: Task) -> Outcome {
        let (answer, answered) = oneshot::channel();
        if let Err(refused) = self.mailbox.tell(HandleRow { task, answer }) {
            return Outcome::Later(refused.to_string());
        }
        match timeout(self.timeout, answered).await {
            Ok(Ok(outcome)) => outcome,
            // A row that crashes its actor must not be retried forever.
            Ok(Err(_)) => Outcome::Failed("the actor ended before it answered".to_owned()),
            Err(_) => Outcome::Failed(format!("the actor did not answer within {:?}", self.timeout)),
        }
    }
}
