//! The `updates` stream: every entry, in order, none twice (spec §5).

use std::{
    sync::{Mutex, MutexGuard},
    time::Duration,
};

use orchestrator_edge::Reconnect;
use orchestrator_supervise::{Recipient, StartCx};
use redis::{RedisError, aio::MultiplexedConnection};

use super::{
    BACKOFF, Place, advice,
    entry::{Id, read, top},
};
use crate::{messages::UpdatesArrived, updates::ControllerUpdate};

const KEY: &str = "dranspose:controller:updates";
/// How long a read waits (spec §11).
const BLOCK: Duration = Duration::from_millis(1_300);
/// Entries read at once.
const COUNT: usize = 256;
/// How long the ingester may take over a batch: parameters to be fetched, a mapping to be begun.
const HANDLING: Duration = Duration::from_secs(60);

/// How far the updates were handled. None before the first look: what is older than that is not replayed.
#[derive(Debug, Default)]
pub struct Position(Mutex<Option<Id>>);

impl Position {
    fn lock(&self) -> MutexGuard<'_, Option<Id>> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// Follows until the stop.
pub(super) async fn follow(
    place: &Place,
    ingester: &Recipient<UpdatesArrived>,
    position: &Position,
    cx: &StartCx,
) {
    let mut reconnect = Reconnect::new(cx.vitals.link("redis", place.endpoint()), BACKOFF);
    let following = async {
        loop {
            let Err(error) = connection(place, ingester, position, &mut reconnect).await;
            tokio::time::sleep(reconnect.failed(advice(&error, place.endpoint()))).await;
        }
    };
    tokio::select! {
        () = cx.stop.cancelled() => {}
        () = following => {}
    }
}

/// Reads on one connection until it fails.
async fn connection(
    place: &Place,
    ingester: &Recipient<UpdatesArrived>,
    position: &Position,
    reconnect: &mut Reconnect,
) -> Result<std::convert::Infallible, RedisError> {
    let mut redis = place.connect(BLOCK).await?;
    let mut last = begin(&mut redis, position).await?;
    reconnect.succeeded();
    loop {
        let entries = read(&mut redis, KEY, last, COUNT, BLOCK.as_millis() as usize).await?;
        let Some((newest, _)) = entries.last() else {
            last = begin(&mut redis, position).await?;
            continue;
        };
        let newest = *newest;
        hand_over(&entries, ingester).await;
        *position.lock() = Some(newest);
        last = newest;
    }
}

/// Where to read on. A stream that was emptied, or made anew with smaller ids, has nothing that was seen: it is read from its
/// beginning.
async fn begin(redis: &mut MultiplexedConnection, position: &Position) -> Result<Id, RedisError> {
    let top = top(redis, KEY).await?.unwrap_or_default();
    let mut last = position.lock();
    let begin = match *last {
        None => top,
        Some(seen) if seen <= top => seen,
        Some(_) => Id::default(),
    };
    *last = Some(begin);
    Ok(begin)
}

/// Until the ingester has handled them: it may be restarted in between.
async fn hand_over(entries: &[(Id, Vec<u8>)], ingester: &Recipient<UpdatesArrived>) {
    let updates: Vec<ControllerUpdate> = entries.iter().filter_map(|(id, data)| parsed(*id, data)).collect();
    while ingester.ask(UpdatesArrived(updates.clone()), HANDLING).await != Ok(true) {
        tracing::warn!("updates of the controller were not handled: handing them over again");
        tokio::time::sleep(BACKOFF.first).await;
    }
}

fn parsed(id: Id, data: &[u8]) -> Option<ControllerUpdate> {
    match serde_json::from_slice(data) {
        Ok(update) => Some(update),
        Err(error) => {
            tracing::warn!(%id, %error, "an entry of {KEY} is no update of a controller: passed over");
            None
        }
    }
}
