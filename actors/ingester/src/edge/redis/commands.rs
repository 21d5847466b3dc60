//! Commands: one at a time, on a connection that is made again when it was lost. One that fails is answered so: who asked
//! knows whether it still matters.

use std::time::Duration;

use bytes::Bytes;
use orchestrator_supervise::{InboxSlot, StartCx};
use redis::{Script, Value, cmd, pipe};
use serde_json::json;
use uuid::Uuid;

use super::{
    connection::{Connection, RequestError},
    place::{Place, advice},
};
use crate::messages::{RedisAction, RedisCommand, RedisFailure};

/// Lifetime of the configuration key (CONTRACT ID01).
const TTL_SECS: u64 = 10;
/// How long a stop may take to delete the key.
const FAREWELL: Duration = Duration::from_secs(1);
/// Longest reply, bytes.
const REPLY_MAX: usize = 1 << 20;
/// Bytes that are read of a configuration key: they tell whose it is.
const OWNER_BYTES: usize = 64;
/// Bytes that are read of a parameter: the only one that is used is a path.
const PARAMETER_BYTES: usize = 8 << 10;

/// Carries out commands until the stop, then deletes the configuration key if it is still ours.
pub(super) async fn serve(place: &Place, commands: &InboxSlot<RedisCommand>, cx: &StartCx) {
    let mut commands = commands.open();
    let mut connection = None;
    while let Some(RedisCommand { action, reply }) = commands.next(cx).await {
        let outcome = carry_out(place, &mut connection, &action).await;
        let failure = |error: RequestError| RedisFailure {
            text: advice(&error, place.endpoint()),
            refused: matches!(error, RequestError::Refused(_)),
        };
        // Nobody waits any more: no harm.
        let _ = reply.send(outcome.map_err(failure));
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
    slot: &mut Option<Connection>,
    action: &RedisAction,
) -> Result<Option<Bytes>, RequestError> {
    let mut connection = match slot.take() {
        Some(connection) => connection,
        None => place.connect(Duration::ZERO, REPLY_MAX).await?,
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
    redis: &mut Connection,
    action: &RedisAction,
) -> Result<Option<Bytes>, RequestError> {
    match action {
        RedisAction::Publish(json) => {
            let mut commands = pipe();
            commands.cmd("GETRANGE").arg(key(place)).arg(0).arg(OWNER_BYTES - 1);
            commands.cmd("SETEX").arg(key(place)).arg(TTL_SECS).arg(json.as_slice()).ignore();
            let before = redis.ask_all(&commands).await?.into_iter().next();
            text(before.unwrap_or(Value::Nil)).map(|before| before.filter(|before| !before.is_empty()))
        }
        RedisAction::Parameter(name, uuid) => {
            let key = format!("dranspose:parameters:{name}:{uuid}");
            let mut commands = pipe();
            commands.cmd("EXISTS").arg(&key);
            commands.cmd("GETRANGE").arg(&key).arg(0).arg(PARAMETER_BYTES - 1);
            let mut replies = redis.ask_all(&commands).await?.into_iter();
            let exists = replies.next() == Some(Value::Int(1));
            let value = text(replies.next().unwrap_or(Value::Nil))?;
            Ok(value.filter(|_| exists))
        }
        RedisAction::Finished(mapping) => {
            let mut command = cmd("XADD");
            command.arg(ready(*mapping)).arg("*").arg("data").arg(finished(&place.name));
            redis.ask(&command).await.map(|_| None)
        }
    }
}

/// The bytes of a string; None if there is none.
fn text(reply: Value) -> Result<Option<Bytes>, RequestError> {
    match reply {
        Value::Nil => Ok(None),
        Value::BulkString(bytes) => Ok(Some(bytes.into())),
        other => Err(RequestError::odd(&other, "a string")),
    }
}

/// Another ingester of the same name may have written the key since: then it is not ours to delete.
async fn leave(place: &Place, slot: &mut Option<Connection>) -> Result<(), RequestError> {
    let mut connection = match slot.take() {
        Some(connection) => connection,
        None => place.connect(Duration::ZERO, REPLY_MAX).await?,
    };
    let script = "local v = redis.call('GET', KEYS[1]) \
        if v and string.find(v, ARGV[1], 1, true) then return redis.call('DEL', KEYS[1]) end return 0";
    let ours = format!(r#"{{"service_uuid":"{}""#, place.service_uuid);
    connection.run(Script::new(script).key(key(place)).arg(ours)).await.map(|_| ())
}

fn key(place: &Place) -> String {
    format!("dranspose:ingester:{}:config", place.name)
}

fn ready(mapping: Uuid) -> String {
    format!("dranspose:ready:{mapping}")
}

/// As captured (CONTRACT ID08).
fn finished(name: &str) -> String {
    let name = json!(name);
    format!(r#"{{"state":"finished","source":"ingester","ingester":{name}}}"#)
}
