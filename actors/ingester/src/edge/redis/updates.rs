//! Reader of the `updates` stream: delivers every entry in order and once (CONTRACT ID06, IO01).

use std::{convert::Infallible, sync::Arc, time::Duration};

use orchestrator_edge::{LinkState, PeerError, RetryPolicy};
use orchestrator_observe::MetricKind;
use orchestrator_supervise::{ChildSpec, Durable, Recipient, StartCx};
use tokio::sync::Notify;

use super::{
    connection::{Connection, truncated},
    entry::{Id, excerpt},
    reader::StreamReader,
    target::{RedisTarget, explained},
};
use crate::{messages::UpdatesArrived, updates::ControllerUpdate};

/// Key of the stream of updates.
pub(crate) const KEY: &str = "dranspose:controller:updates";
/// Longest wait of a read (CONTRACT ID06).
const BLOCK: Duration = Duration::from_millis(1_300);
/// Entries read at once.
const COUNT: usize = 256;
/// Longest reply, bytes.
const REPLY_MAX: usize = 16 << 20;
/// Longest update, bytes: room for ten thousand parameters.
const UPDATE_MAX: usize = 1 << 20;
/// No time-out: a batch may start many mappings, and one that is delivered again is handled twice.
const HANDLING_TIMEOUT: Duration = Duration::MAX;
/// Delay before updates are delivered again to an ingester that restarts.
const DELIVERY_DELAY: Duration = Duration::from_millis(50);

/// Id of the last handled update. None before the first read, which starts at the newest entry.
#[derive(Debug, Clone)]
pub(crate) struct Position {
    last: Durable<Option<Id>>,
    found: Arc<Notify>,
}

impl Default for Position {
    fn default() -> Self {
        Self { last: Durable::new("updates_position", None), found: Arc::default() }
    }
}

impl Position {
    /// Adds the position to `child` as durable state.
    pub(crate) fn add_durable_state(&self, child: ChildSpec) -> ChildSpec {
        child.durable(&self.last)
    }

    /// True if the first read has found no update: no controller ever posted one, or Redis was emptied.
    pub(crate) fn is_at_begin(&self) -> bool {
        self.last.get() == Some(Id::default())
    }

    /// Waits for the first read. Later updates are not missed.
    pub(super) async fn known(&self) {
        if self.last.get().is_none() {
            self.found.notified().await;
        }
    }
}

/// Reads updates until the stop.
pub(super) async fn follow(
    target: &RedisTarget,
    ingester: &Recipient<UpdatesArrived>,
    position: &Position,
    cx: &StartCx,
) {
    let link = LinkState::new(cx, "redis", target.endpoint(), RetryPolicy::REMOTE);
    let skipped = cx.vitals.register(
        "invalid_updates",
        "",
        MetricKind::Counter,
        "Entries of the controller's updates that could not be read and were skipped.",
    );
    let mut reader = StreamReader::new(KEY, COUNT, BLOCK, &cx.vitals, skipped);
    let following = async {
        loop {
            let Err(error) = read_connection(target, ingester, position, &mut reader, &link).await;
            if !reader.reduced_request() && !link.retry(&explained(error, target.endpoint())).await {
                return;
            }
        }
    };
    cx.stop.run_until_cancelled(following).await;
}

/// Reads on one connection until it fails.
async fn read_connection(
    target: &RedisTarget,
    ingester: &Recipient<UpdatesArrived>,
    position: &Position,
    reader: &mut StreamReader,
    link: &LinkState,
) -> Result<Infallible, PeerError> {
    let request = link.request();
    let mut redis = target.connect(BLOCK, REPLY_MAX).await?;
    let mut last = start_position(&mut redis, reader, position).await?;
    drop(request);
    link.connected();
    loop {
        let request = link.request();
        let entries = reader.read(&mut redis, last, true).await?;
        let Some((newest, _)) = entries.last() else {
            last = start_position(&mut redis, reader, position).await?;
            continue;
        };
        drop(request);
        let newest = *newest;
        let updates = entries.into_iter().filter_map(|(id, data)| parse_update(reader, id, &data?)).collect();
        deliver(updates, ingester).await;
        position.last.update(|position| *position = Some(newest));
        last = newest;
        link.succeeded();
    }
}

/// Position to read from. A stream that was emptied or recreated with smaller ids is read from its
/// beginning.
async fn start_position(
    redis: &mut Connection,
    reader: &mut StreamReader,
    position: &Position,
) -> Result<Id, PeerError> {
    let newest_id = reader.newest_id(redis).await?.unwrap_or_default();
    let start_position = position.last.update(|position| {
        let start_position = match *position {
            None => newest_id,
            Some(seen) if seen <= newest_id => seen,
            Some(_) => Id::default(),
        };
        *position = Some(start_position);
        start_position
    });
    position.found.notify_one();
    Ok(start_position)
}

/// Delivers updates until the ingester has handled them; it may restart in between.
async fn deliver(updates: Vec<ControllerUpdate>, ingester: &Recipient<UpdatesArrived>) {
    if updates.is_empty() {
        return;
    }
    while ingester.ask(UpdatesArrived(updates.clone()), HANDLING_TIMEOUT).await != Ok(true) {
        tracing::warn!("updates of the controller were not handled: delivering them again");
        tokio::time::sleep(DELIVERY_DELAY).await;
    }
}

fn parse_update(reader: &StreamReader, id: Id, data: &[u8]) -> Option<ControllerUpdate> {
    let update = if data.len() > UPDATE_MAX {
        Err(format!("it is longer than {UPDATE_MAX} bytes"))
    } else {
        serde_json::from_slice(data).map_err(|error| truncated(&error))
    };
    update
        .map_err(|why| {
            reader
                .skip(Some(id), &format!("not an update of a controller: {why}: {}", excerpt(b"data", data)))
        })
        .ok()
}

#[cfg(test)]
mod tests {
    use orchestrator_supervise::mailbox;
    use uuid::Uuid;

    use super::*;
    use crate::ingester::Ingester;

    /// A batch with many mappings may take minutes, since each waits for its sources.
    #[tokio::test(start_paused = true)]
    async fn updates_that_are_still_being_handled_are_not_delivered_again() {
        let (ingester, _slot) = mailbox::<Ingester>(8);
        let update = ControllerUpdate {
            mapping_uuid: Uuid::nil(),
            parameters_version: std::collections::BTreeMap::new(),
            active_streams: None,
            finished: false,
        };
        let recipient = ingester.recipient();
        let handled = deliver(vec![update], &recipient);
        assert!(tokio::time::timeout(Duration::from_secs(3_600), handled).await.is_err());
        assert_eq!(ingester.depth(), 1);
    }
}
