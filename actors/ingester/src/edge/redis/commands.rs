//! Commands: one at a time, on a connection that is made again when it was lost. One that fails is answered so: who asked
//! knows whether it still matters.

use std::time::Duration;

use bytes::Bytes;
use orchestrator_supervise::{InboxSlot, StartCx};
use redis::{RedisError, Script, aio::MultiplexedConnection, cmd, pipe};
use serde_json::json;
use uuid::Uuid;

use super::{Place, advice};
use crate::messages::{RedisAction, RedisCommand};

/// How long the configuration key lives (spec §3).
const TTL_SECS: u64 = 10;
/// How long a stop may take to delete the key.
const FAREWELL: Duration = Duration::from_secs(1);

/// Carries out commands until the stop, then deletes the configuration key if it is still ours.
pub(super) async fn serve(place: &Place, commands: &InboxSlot<RedisCommand>, cx: &StartCx) {
    let mut commands = commands.open();
    let mut connection = None;
    while let Some(RedisCommand { action, reply }) = commands.next(cx).await {
        let outcome = carry_out(place, &mut connection, &action).await;
        // Nobody waits any more: no harm.
        let _ = reply.send(outcome.map_err(|error| advice(&error, place.endpoint())));
    }
    let farewell = tokio::time::timeout(FAREWELL, leave(place, &mut connection)).await;
    if !matches!(farewell, Ok(Ok(()))) {
        tracing::warn!(
            name = &*place.name,
            "the configuration key could not be deleted: it expires in {TTL_SECS} s"
        );
    }
}

async fn carry_out(
    place: &Place,
    slot: &mut Option<MultiplexedConnection>,
    action: &RedisAction,
) -> Result<Option<Bytes>, RedisError> {
    let mut connection = match slot.take() {
        Some(connection) => connection,
        None => place.connect(Duration::ZERO).await?,
    };
    let outcome = ask(place, &mut connection, action).await;
    // After an error it is not known what the next answer on this connection would be of.
    if outcome.is_ok() {
        *slot = Some(connection);
    }
    outcome
}

async fn ask(
    place: &Place,
    redis: &mut MultiplexedConnection,
    action: &RedisAction,
) -> Result<Option<Bytes>, RedisError> {
    match action {
        RedisAction::Publish(json) => {
            let mut commands = pipe();
            commands
                .cmd("GET")
                .arg(key(place))
                .cmd("SETEX")
                .arg(key(place))
                .arg(TTL_SECS)
                .arg(json.as_slice())
                .ignore();
            let (before,): (Option<Vec<u8>>,) = commands.query_async(redis).await?;
            Ok(before.map(Bytes::from))
        }
        RedisAction::Parameter(name, uuid) => {
            let value: Option<Vec<u8>> =
                cmd("GET").arg(format!("dranspose:parameters:{name}:{uuid}")).query_async(redis).await?;
            Ok(value.map(Bytes::from))
        }
        RedisAction::Finished(mapping) => {
            let mut command = cmd("XADD");
            command.arg(ready(*mapping)).arg("*").arg("data").arg(finished(&place.name));
            command.query_async::<Option<String>>(redis).await.map(|_| None)
        }
    }
}

/// Another ingester of the same name may have written the key since: then it is not ours to delete.
async fn leave(place: &Place, slot: &mut Option<MultiplexedConnection>) -> Result<(), RedisError> {
    let mut connection = match slot.take() {
        Some(connection) => connection,
        None => place.connect(Duration::ZERO).await?,
    };
    let script = "local v = redis.call('GET', KEYS[1]) \
        if v and string.find(v, ARGV[1], 1, true) then return redis.call('DEL', KEYS[1]) end return 0";
    let ours = format!(r#"{{"service_uuid":"{}""#, place.service_uuid);
    Script::new(script).key(key(place)).arg(ours).invoke_async::<()>(&mut connection).await
}

fn key(place: &Place) -> String {
    format!("dranspose:ingester:{}:config", place.name)
}

fn ready(mapping: Uuid) -> String {
    format!("dranspose:ready:{mapping}")
}

/// As captured (spec §8).
fn finished(name: &str) -> String {
    let name = json!(name);
    format!(r#"{{"state":"finished","source":"ingester","ingester":{name}}}"#)
}
