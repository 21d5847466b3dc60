//! Redis, the control plane: keys and streams of CONTRACT ID01 to ID10. A Redis that is away is waited for; data in flight goes on meanwhile.
//!
//! One child owns two connections: one for commands, one that waits for updates. Assignments have a third, of the child that
//! wants them: what blocks on a stream must not hold up anything else.

mod assigned;
mod commands;
mod connection;
mod entry;
mod log;
mod place;
mod reader;
mod reply_limit;
mod updates;

use orchestrator_supervise::{Factory, Fault, InboxSlot, Recipient, StartCx};

pub(crate) use self::{assigned::follow as follow_assigned, log::child as log_child};
pub use self::{place::Place, updates::Position};
use crate::messages::{RedisCommand, UpdatesArrived};

/// The child: carries out commands, and hands every update to `ingester`, in order, one batch at a time. `position` is how far
/// the updates were handled; it outlives the child.
pub(crate) fn factory(
    place: Place,
    commands: InboxSlot<RedisCommand>,
    ingester: Recipient<UpdatesArrived>,
    position: Position,
) -> Factory {
    let slot = commands.clone();
    let factory = Factory::task(move |cx: StartCx| {
        let (place, commands, ingester, position) =
            (place.clone(), commands.clone(), ingester.clone(), position.clone());
        async move {
            let serving = commands::serve(&place, &commands, &cx);
            let following = updates::follow(&place, &ingester, &position, &cx);
            futures_util::future::join(serving, following).await;
            Ok::<(), Fault>(())
        }
    });
    factory.with_inbox("commands", &slot)
}
