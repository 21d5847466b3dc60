//! Redis, the control plane: keys and streams of CONTRACT ID01 to ID10. While Redis is away,
//! connections are retried and frames continue to flow.
//!
//! One child owns two connections, one for commands and one that blocks on updates. It opens another one
//! while it reads the reports of workers. Assignments have a connection in the child that reads them.

mod address;
mod assigned;
mod commands;
mod connection;
mod entry;
mod log;
mod reader;
mod reply_limit;
mod reports;
mod target;
mod updates;

use orchestrator_supervise::{DurableView, Factory, Fault, InboxSlot, Recipient, StartCx};

pub(crate) use self::{
    assigned::{LastEntry, assigned_key, follow as follow_assigned},
    log::child as log_child,
    target::RedisTarget,
    updates::{KEY as UPDATES_KEY, Position},
};
use crate::{
    edge::egress::Egress,
    mapping::Mappings,
    messages::{RedisCommand, UpdatesArrived},
};

/// Factory of the child that executes commands and delivers every update to `ingester`, in order,
/// one batch at a time. `position` is the last handled update and outlives the child. Reports of the
/// workers are recorded in `egress` when it wants them.
pub(crate) fn factory(
    target: RedisTarget,
    commands: InboxSlot<RedisCommand>,
    ingester: Recipient<UpdatesArrived>,
    position: Position,
    (egress, mappings): (Egress, DurableView<Mappings>),
) -> Factory {
    let slot = commands.clone();
    let factory = Factory::task(move |cx: StartCx| {
        let (target, commands, ingester, position) =
            (target.clone(), commands.clone(), ingester.clone(), position.clone());
        let (egress, mappings) = (egress.clone(), mappings.clone());
        async move {
            // The controller posts a mapping once the ingester's key is published: only an ingester that
            // knows where to read from may publish it.
            let serving = async {
                tokio::select! {
                    biased;
                    () = position.known() => commands::serve(&target, &commands, &cx).await,
                    () = cx.stop.cancelled() => {}
                }
            };
            let following = updates::follow(&target, &ingester, &position, &cx);
            let reports = reports::follow(&target, &egress, &mappings, &cx);
            futures_util::future::join3(serving, following, reports).await;
            Ok::<(), Fault>(())
        }
    });
    factory.with_inbox("commands", &slot)
}

#[cfg(test)]
mod tests {
    use orchestrator_harness::Redis;
    use orchestrator_supervise::{
        ChildSpec, Durable, Strategy, SupervisorSpec, inbox, mailbox,
        testing::{TestTree, eventually},
    };
    use uuid::Uuid;

    use super::*;
    use crate::{edge::egress::EgressLimits, ingester::Ingester, messages::RedisAction};

    /// A mapping that is posted in between would never be read.
    #[test]
    fn no_key_is_published_before_the_position_in_the_updates_is_known() {
        let redis = Redis::start();
        redis.command(&["ACL", "SETUSER", "default", "-xrevrange"]);
        let target = RedisTarget::new(&redis.url(), None, "i", Uuid::nil()).expect("a URL");
        let (outbox, slot) = inbox(4);
        let (ingester, _slot) = mailbox::<Ingester>(8);
        let publish = |reply| RedisCommand { action: RedisAction::Publish(b"{}".to_vec()), reply };
        let answer = outbox.request(publish).expect("room");
        let reports =
            (Egress::new(EgressLimits::default()), Durable::new("mappings", Mappings::default()).view());
        let redis_factory = factory(target, slot, ingester.recipient(), Position::default(), reports);
        let child = ChildSpec::worker("redis", redis_factory);
        let tree = SupervisorSpec::new(Strategy::OneForOne).child(child);
        TestTree::run(tree, |tree| async move {
            let is_refused = || {
                let link = tree.node("redis").and_then(|node| node.link);
                link.is_some_and(|link| link.state == orchestrator_observe::LinkStatus::Down)
            };
            eventually("the read is refused", is_refused).await;
            assert_eq!(redis.text("dranspose:ingester:i:config"), None);
            redis.command(&["ACL", "SETUSER", "default", "+xrevrange"]);
            assert_eq!(answer.await, Ok(Ok(None)));
            assert_eq!(redis.text("dranspose:ingester:i:config").as_deref(), Some("{}"));
        });
    }
}
