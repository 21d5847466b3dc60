//! Redis, the control plane: keys and streams of CONTRACT ID01 to ID10. While Redis is away,
//! connections are retried and frames continue to flow.
//!
//! One child owns two connections, one for commands and one that blocks on updates. Assignments
//! have a third connection in the child that reads them.

mod assigned;
mod commands;
mod connection;
mod entry;
mod log;
mod reader;
mod reply_limit;
mod target;
mod updates;

use orchestrator_supervise::{Factory, Fault, InboxSlot, Recipient, StartCx};

pub(crate) use self::{assigned::follow as follow_assigned, log::child as log_child};
pub use self::{
    target::RedisTarget,
    updates::{KEY as UPDATES_KEY, Position},
};
use crate::messages::{RedisCommand, UpdatesArrived};

/// Factory of the child that executes commands and delivers every update to `ingester`, in order,
/// one batch at a time. `position` is the last handled update and outlives the child.
pub(crate) fn factory(
    target: RedisTarget,
    commands: InboxSlot<RedisCommand>,
    ingester: Recipient<UpdatesArrived>,
    position: Position,
) -> Factory {
    let slot = commands.clone();
    let factory = Factory::task(move |cx: StartCx| {
        let (target, commands, ingester, position) =
            (target.clone(), commands.clone(), ingester.clone(), position.clone());
        async move {
            let serving = commands::serve(&target, &commands, &cx);
            let following = updates::follow(&target, &ingester, &position, &cx);
            futures_util::future::join(serving, following).await;
            Ok::<(), Fault>(())
        }
    });
    factory.with_inbox("commands", &slot)
}
