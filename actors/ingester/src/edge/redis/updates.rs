//! The `updates` stream: every entry, in order, none twice (CONTRACT ID06, IO01).

use std::{convert::Infallible, time::Duration};

use orchestrator_edge::Reconnect;
use orchestrator_supervise::{ChildSpec, Durable, MetricKind, Recipient, StartCx};

use super::{
    connection::{Connection, RequestError, shortened},
    entry::{Id, shown},
    place::{BACKOFF, Place, advice},
    reader::StreamReader,
};
use crate::{messages::UpdatesArrived, updates::ControllerUpdate};

const KEY: &str = "dranspose:controller:updates";
/// Longest wait of a read (CONTRACT ID06).
const BLOCK: Duration = Duration::from_millis(1_300);
/// Entries read at once.
const COUNT: usize = 256;
/// Longest reply, bytes.
const REPLY_MAX: usize = 16 << 20;
/// Longest update, bytes: room for ten thousand parameters.
const UPDATE_MAX: usize = 1 << 20;
/// How long the ingester may take over a batch: parameters to be fetched, a mapping to be begun.
const HANDLING: Duration = Duration::from_secs(60);

/// The last entry of the updates that was handled. None before the first look: what is older than that is not replayed.
#[derive(Debug, Clone)]
pub struct Position(Durable<Option<Id>>);

impl Default for Position {
    fn default() -> Self {
        Self(Durable::new("updates_position", None))
    }
}

impl Position {
    /// Declares it as state of `child`.
    pub fn declare(&self, child: ChildSpec) -> ChildSpec {
        child.durable(&self.0)
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
    let skipped = cx.vitals.register(
        "invalid_updates",
        "",
        MetricKind::Counter,
        "Entries of the controller's updates that could not be read, skipped.",
    );
    let mut reader = StreamReader::new(KEY, COUNT, BLOCK, &cx.vitals, skipped);
    let following = async {
        loop {
            let Err(error) = connection(place, ingester, position, &mut reader, &mut reconnect).await;
            if !reader.asks_less() {
                tokio::time::sleep(reconnect.failed(advice(&error, place.endpoint()))).await;
            }
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
    reader: &mut StreamReader,
    reconnect: &mut Reconnect,
) -> Result<Infallible, RequestError> {
    let mut redis = place.connect(BLOCK, REPLY_MAX).await?;
    let mut last = begin(&mut redis, reader, position).await?;
    reconnect.connected();
    loop {
        let entries = reader.read(&mut redis, last, true).await?;
        let Some((newest, _)) = entries.last() else {
            last = begin(&mut redis, reader, position).await?;
            continue;
        };
        let newest = *newest;
        let updates = entries.into_iter().filter_map(|(id, data)| parsed(reader, id, &data?)).collect();
        hand_over(updates, ingester).await;
        position.0.update(|position| *position = Some(newest));
        last = newest;
        reconnect.succeeded();
    }
}

/// Where to read on. A stream that was emptied, or made anew with smaller ids, has nothing that was seen: it is read from its
/// beginning.
async fn begin(
    redis: &mut Connection,
    reader: &mut StreamReader,
    position: &Position,
) -> Result<Id, RequestError> {
    let top = reader.top(redis).await?.unwrap_or_default();
    Ok(position.0.update(|position| {
        let begin = match *position {
            None => top,
            Some(seen) if seen <= top => seen,
            Some(_) => Id::default(),
        };
        *position = Some(begin);
        begin
    }))
}

/// Until the ingester has handled them: it may be restarted in between.
async fn hand_over(updates: Vec<ControllerUpdate>, ingester: &Recipient<UpdatesArrived>) {
    if updates.is_empty() {
        return;
    }
    while ingester.ask(UpdatesArrived(updates.clone()), HANDLING).await != Ok(true) {
        tracing::warn!("updates of the controller were not handled: handing them over again");
        tokio::time::sleep(BACKOFF.first).await;
    }
}

fn parsed(reader: &StreamReader, id: Id, data: &[u8]) -> Option<ControllerUpdate> {
    let update = if data.len() > UPDATE_MAX {
        Err(format!("it is longer than {UPDATE_MAX} bytes"))
    } else {
        serde_json::from_slice(data).map_err(|error| shortened(&error))
    };
    update
        .map_err(|why| {
            reader.skip(Some(id), &format!("no update of a controller: {why}: {}", shown(b"data", data)))
        })
        .ok()
}
