//! Commands to Redis, one at a time, on one connection that is reopened after errors. Failures are
//! returned to the sender, which decides on a retry.

use std::time::Duration;

use bytes::Bytes;
use orchestrator_edge::{PeerError, PeerErrorKind};
use orchestrator_supervise::{InboxSlot, StartCx};
use redis::{Script, Value, cmd, pipe};
use serde_json::json;
use uuid::Uuid;

use super::{
    connection::{Connection, unexpected},
    target::{RedisTarget, explained},
};
use crate::{
    ingester::HEARTBEAT,
    messages::{RedisAction, RedisCommand},
};

/// Lifetime of the configuration key, seconds (CONTRACT ID01).
const TTL_SECS: u64 = 10;
/// Time-out for deleting the key at a stop.
const DELETE_TIMEOUT: Duration = Duration::from_secs(1);
/// Longest reply, bytes.
const REPLY_MAX: usize = 1 << 20;
/// Bytes read of a configuration key, enough to identify its owner.
const OWNER_BYTES: usize = 64;
/// Bytes read of a parameter; the only one in use is a path.
const PARAMETER_BYTES: usize = 8 << 10;

/// Executes commands until the stop, then deletes the configuration key if this process owns it.
pub(super) async fn serve(target: &RedisTarget, commands: &InboxSlot<RedisCommand>, cx: &StartCx) {
    let (mut commands, link) = (commands.open(), cx.vitals.link("redis", target.endpoint()));
    let mut connection = None;
    while let Some(RedisCommand { action, reply }) = commands.next(cx).await {
        // A sender that has given up repeats its command, which would then be executed twice.
        if reply.is_closed() {
            continue;
        }
        let request = link.request();
        let outcome = execute(target, &mut connection, &action).await;
        drop(request);
        let outcome = outcome.map_err(|error| explained(error, target.endpoint()));
        let what = action.name();
        match &outcome {
            Ok(_) => link.accepted(what),
            // Redis may go on to answer reads, which the child reports on the same link.
            Err(error) if error.kind == PeerErrorKind::Refused => {
                let error = error.clone().map_text(|text| format!("{what}: {text}"));
                link.refused(what, &error, HEARTBEAT);
            }
            Err(_) => {}
        }
        // The sender may no longer wait.
        let _ = reply.send(outcome);
    }
    let deleted = tokio::time::timeout(DELETE_TIMEOUT, delete_key(target, &mut connection)).await;
    if !matches!(deleted, Ok(Ok(()))) {
        tracing::warn!(
            name = &*target.name,
            "the configuration key could not be deleted: it expires in {TTL_SECS} s"
        );
    }
}

async fn execute(
    target: &RedisTarget,
    slot: &mut Option<Connection>,
    action: &RedisAction,
) -> Result<Option<Bytes>, PeerError> {
    let mut connection = match slot.take() {
        Some(connection) => connection,
        None => target.connect(Duration::ZERO, REPLY_MAX).await?,
    };
    let outcome = ask(target, &mut connection, action).await;
    // After an error the next reply on this connection could belong to another command.
    if outcome.is_ok() {
        *slot = Some(connection);
    }
    outcome
}

async fn ask(
    target: &RedisTarget,
    redis: &mut Connection,
    action: &RedisAction,
) -> Result<Option<Bytes>, PeerError> {
    match action {
        RedisAction::Publish(json) => {
            let mut commands = pipe();
            commands.cmd("GETRANGE").arg(config_key(target)).arg(0).arg(OWNER_BYTES - 1);
            commands.cmd("SETEX").arg(config_key(target)).arg(TTL_SECS).arg(json.as_slice()).ignore();
            let before = redis.ask_all(&commands).await?.into_iter().next();
            text(before.unwrap_or(Value::Nil)).map(|before| before.filter(|before| !before.is_empty()))
        }
        RedisAction::Parameter(name, uuid) => {
            let config_key = format!("dranspose:parameters:{name}:{uuid}");
            let mut commands = pipe();
            commands.cmd("EXISTS").arg(&config_key);
            commands.cmd("GETRANGE").arg(&config_key).arg(0).arg(PARAMETER_BYTES - 1);
            let mut replies = redis.ask_all(&commands).await?.into_iter();
            let exists = replies.next() == Some(Value::Int(1));
            let value = text(replies.next().unwrap_or(Value::Nil))?;
            Ok(value.filter(|_| exists))
        }
        RedisAction::Finished(mapping) => {
            let mut command = cmd("XADD");
            command.arg(ready_key(*mapping)).arg("*").arg("data").arg(finished_entry(&target.name));
            redis.ask(&command).await.map(|_| None)
        }
    }
}

/// Bytes of a string; None for nil.
fn text(reply: Value) -> Result<Option<Bytes>, PeerError> {
    match reply {
        Value::Nil => Ok(None),
        Value::BulkString(bytes) => Ok(Some(bytes.into())),
        other => Err(unexpected(&other, "a string")),
    }
}

/// Deletes the configuration key, unless another ingester of the same name has written it since.
async fn delete_key(target: &RedisTarget, slot: &mut Option<Connection>) -> Result<(), PeerError> {
    let mut connection = match slot.take() {
        Some(connection) => connection,
        None => target.connect(Duration::ZERO, REPLY_MAX).await?,
    };
    let script = "local v = redis.call('GET', KEYS[1]) \
        if v and string.find(v, ARGV[1], 1, true) then return redis.call('DEL', KEYS[1]) end return 0";
    let ours = format!(r#"{{"service_uuid":"{}""#, target.service_uuid);
    connection.run(Script::new(script).key(config_key(target)).arg(ours)).await.map(|_| ())
}

fn config_key(target: &RedisTarget) -> String {
    format!("dranspose:ingester:{}:config", target.name)
}

pub(super) fn ready_key(mapping: Uuid) -> String {
    format!("dranspose:ready:{mapping}")
}

/// Entry as captured from the original (CONTRACT ID08).
fn finished_entry(name: &str) -> String {
    let name = json!(name);
    format!(r#"{{"state":"finished","source":"ingester","ingester":{name}}}"#)
}

#[cfg(test)]
mod tests {
    use orchestrator_harness::Redis;
    use orchestrator_supervise::{
        ChildSpec, Factory, Fault, Strategy, SupervisorSpec, inbox, reply, testing::TestTree,
    };

    use super::*;

    /// Its sender repeats it, so that Redis would get it twice.
    #[test]
    fn a_command_whose_sender_no_longer_waits_is_not_executed() {
        let redis = Redis::start();
        let target = RedisTarget::new(&redis.url(), None, "i", Uuid::nil()).expect("a URL");
        let (outbox, slot) = inbox(4);
        let [given_up, awaited] = [1, 2].map(Uuid::from_u128);
        let finished = |mapping, reply| RedisCommand { action: RedisAction::Finished(mapping), reply };
        let (unheard, _) = reply();
        outbox.tell(finished(given_up, unheard)).expect("room");
        let answer = outbox.request(|reply| finished(awaited, reply)).expect("room");
        let inbox = slot.clone();
        let child = Factory::task(move |cx: StartCx| {
            let (target, inbox) = (target.clone(), inbox.clone());
            async move {
                serve(&target, &inbox, &cx).await;
                Ok::<(), Fault>(())
            }
        });
        let child = ChildSpec::worker("redis", child.with_inbox("commands", &slot));
        TestTree::run(SupervisorSpec::new(Strategy::OneForOne).child(child), |_| async move {
            assert_eq!(answer.await, Ok(Ok(None)));
            let entries = |mapping| redis.entries(&ready_key(mapping)).len();
            assert_eq!((entries(given_up), entries(awaited)), (0, 1));
        });
    }
}
