//! Reader of one mapping's `assigned` stream, from its beginning (CONTRACT ID07).

use std::{collections::VecDeque, convert::Infallible, sync::Arc, time::Duration};

use orchestrator_edge::{LinkState, PeerError, RetryPolicy};
use orchestrator_observe::{LinkReporter, Metric, now_ms};
use orchestrator_supervise::{Recipient, Vitals};
use parking_lot::Mutex;
use uuid::Uuid;

use super::{
    connection::truncated,
    entry::{Id, excerpt},
    reader::StreamReader,
    target::{RedisTarget, explained},
};
use crate::messages::{EntriesRead, InvalidEntry};

/// Longest wait of a read (CONTRACT ID07).
const BLOCK: Duration = Duration::from_secs(1);
/// Entries read at once; one may have ten thousand events.
const COUNT: usize = 16;
/// Longest reply, bytes; a longer entry is skipped.
const REPLY_MAX: usize = 32 << 20;
/// Bytes after which no more entries join a message to Assign.
const GROUP_BYTES: usize = 64 << 10;
/// No time-out: Work may wait for frames as long as it takes.
const DELIVERY_TIMEOUT: Duration = Duration::MAX;

/// Last entry of the current mapping's assignments that was read. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct LastEntry(Arc<Mutex<Option<(Id, u64)>>>);

impl LastEntry {
    pub(crate) fn clear(&self) {
        *self.0.lock() = None;
    }

    /// Its id, and the time of its read in milliseconds since 1970.
    pub(crate) fn get(&self) -> Option<(String, u64)> {
        self.0.lock().map(|(id, at_ms)| (id.to_string(), at_ms))
    }
}

/// Key of a mapping's assignments.
pub(crate) fn assigned_key(mapping: Uuid) -> String {
    format!("dranspose:assigned:{mapping}")
}

/// Delivers every entry of `mapping` to `assign`, in order and once, and reconnects after errors.
/// An entry that cannot be read is skipped, counted by `skipped` and noted in `vitals`. Never
/// returns.
pub(crate) async fn follow(
    (target, last_entry): &(RedisTarget, LastEntry),
    mapping: Uuid,
    link: LinkReporter,
    (vitals, skipped): (Arc<Vitals>, Metric),
    assign: &Recipient<EntriesRead>,
) {
    let link = LinkState::of_link(link, RetryPolicy::REMOTE);
    let mut reader = StreamReader::new(assigned_key(mapping), COUNT, BLOCK, &vitals, skipped);
    let mut last = Id::default();
    loop {
        let Err(error) = connection(target, &mut reader, (&mut last, last_entry), &link, assign).await;
        if !reader.reduced_request() {
            link.retry(&explained(error, target.endpoint())).await;
        }
    }
}

async fn connection(
    target: &RedisTarget,
    reader: &mut StreamReader,
    (last, last_entry): (&mut Id, &LastEntry),
    link: &LinkState,
    assign: &Recipient<EntriesRead>,
) -> Result<Infallible, PeerError> {
    let mut request = link.request();
    let mut redis = target.connect(BLOCK, REPLY_MAX).await?;
    let mut wait = false;
    loop {
        // The first read returns at once and shows that the key can be read.
        let entries = reader.read(&mut redis, *last, wait).await?;
        drop(request);
        if !std::mem::replace(&mut wait, true) {
            link.connected();
        }
        let mut entries = VecDeque::from(entries);
        while let Some((newest, _)) = entries.front() {
            let mut newest = *newest;
            let (mut ids, mut group, mut bytes) = (Vec::new(), Vec::new(), 0);
            while bytes < GROUP_BYTES
                && let Some((id, data)) = entries.pop_front()
            {
                newest = id;
                let Some(data) = data else { continue };
                bytes += data.len();
                ids.push(id);
                group.push(data);
            }
            *last_entry.0.lock() = Some((newest, now_ms()));
            for InvalidEntry { at, entry, error } in deliver(group, assign).await {
                let why = format!("{}: {}", truncated(&error), excerpt(b"data", &entry));
                reader.skip(ids.get(at).copied(), &why);
            }
            *last = newest;
            link.succeeded();
        }
        request = link.request();
    }
}

/// Delivers entries and returns the invalid ones, once Work has taken the events.
async fn deliver(entries: Vec<Vec<u8>>, assign: &Recipient<EntriesRead>) -> Vec<InvalidEntry> {
    match assign.ask(EntriesRead(entries), DELIVERY_TIMEOUT).await {
        Ok(invalid) => invalid,
        // Assign has ended, and this reader ends with it.
        Err(_) => std::future::pending().await,
    }
}
