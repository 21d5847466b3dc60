//! Handlers of claimed rows: none, a program, a webhook, or an actor of another subsystem; and the
//! program that plans claims.

mod actor;
mod command;
mod planner;
mod webhook;

pub(crate) use actor::Actor;
pub use actor::HandleRow;
pub(crate) use command::Command;
pub(crate) use planner::{PlanAnswers, Planner};
pub(crate) use webhook::REASON_KEPT;

use orchestrator_edge::http::Webhook;

use crate::handler::{Handler, Outcome, Row, Task};

/// A handler of any kind.
#[derive(Debug, Clone)]
pub enum AnyHandler {
    /// No work: a claimed row is done at once.
    Nothing,
    /// A program.
    Command(Command),
    /// A webhook.
    Webhook(Webhook),
    /// An actor.
    Actor(Actor),
}

impl Handler for AnyHandler {
    async fn handle(&self, task: Task) -> Outcome {
        match self {
            Self::Nothing => Outcome::Done(Row::new()),
            Self::Command(command) => command.handle(task).await,
            Self::Webhook(webhook) => webhook.handle(task).await,
            Self::Actor(actor) => actor.handle(task).await,
        }
    }
}
