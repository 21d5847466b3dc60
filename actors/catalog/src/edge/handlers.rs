//! Who works on claimed rows: nobody, a program, a webhook, or an actor of another subsystem.

mod actor;
mod capture;
mod command;
mod environment;
mod headers;
mod process;
mod target;
mod webhook;

pub use actor::{Actor, HandleRow};
pub use command::Command;
pub use environment::{EnvValue, Environment};
pub use headers::plain as plain_headers;
pub use target::Target;
pub use webhook::Webhook;

use crate::handling::{Handler, Row, Task, Verdict};

/// A handler of any kind.
#[derive(Debug, Clone)]
pub enum AnyHandler {
    /// There is nothing to do: a claimed row is done at once.
    Nothing,
    /// A program.
    Command(Command),
    /// A webhook.
    Webhook(Webhook),
    /// An actor.
    Actor(Actor),
}

impl Handler for AnyHandler {
    async fn handle(&self, task: Task) -> Verdict {
        match self {
            Self::Nothing => Verdict::Done(Row::new()),
            Self::Command(command) => command.handle(task).await,
            Self::Webhook(webhook) => webhook.handle(task).await,
            Self::Actor(actor) => actor.handle(task).await,
        }
    }
}
