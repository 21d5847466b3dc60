//! Handlers of claimed rows: none, a program, a webhook, or the queue; and the program that plans claims.

mod command;
mod planner;
mod webhook;

pub(crate) use command::Command;
use orchestrator_catalog_rules::rows::Row;
pub(crate) use planner::{PlanAnswers, Planner};
pub(crate) use webhook::REASON_KEPT;

use orchestrator_edge::http::Webhook;
use orchestrator_supervise::StopToken;

use crate::{
    handler::{Handler, Outcome, Task},
    queue_handler::QueueHandler,
};

/// A handler of any kind.
#[derive(Debug, Clone)]
pub enum AnyHandler {
    /// No work: a claimed row is done at once.
    Nothing,
    Command(Command),
    Webhook(Webhook),
    Queue(QueueHandler),
}

impl Handler for AnyHandler {
    async fn handle(&self, task: Task) -> Outcome {
        match self {
            Self::Nothing => Outcome::Done(Row::new()),
            Self::Command(command) => command.handle(task).await,
            Self::Webhook(webhook) => webhook.handle(task).await,
            Self::Queue(queue) => queue.handle(task).await,
        }
    }

    async fn handle_until(&self, task: Task, stop: &StopToken) -> Outcome {
        match self {
            Self::Queue(queue) => queue.handle_until(task, stop).await,
            Self::Nothing | Self::Command(_) | Self::Webhook(_) => self.handle(task).await,
        }
    }
}
