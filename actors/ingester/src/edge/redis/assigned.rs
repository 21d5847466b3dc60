//! The `assigned` stream of one mapping, from its beginning (CONTRACT ID07).

use std::{collections::VecDeque, convert::Infallible, sync::Arc, time::Duration};

use orchestrator_edge::Reconnect;
use orchestrator_supervise::{LinkReporter, Metric, Recipient, Vitals};
use uuid::Uuid;

use super::{
    connection::{RequestError, shortened},
    entry::{Id, shown},
    place::{BACKOFF, Place, advice},
    reader::StreamReader,
};
use crate::messages::{EntriesRead, InvalidEntry};

/// Longest wait of a read (CONTRACT ID07).
const BLOCK: Duration = Duration::from_secs(1);
/// Entries read at once: one may have ten thousand events.
const COUNT: usize = 16;
/// Longest reply, bytes: an entry that is longer is skipped.
const REPLY_MAX: usize = 32 << 20;
/// Bytes of entries from which on a message has no more of them: many entries are one event, one may be a whole mapping.
const GROUP_BYTES: usize = 64 << 10;
/// Time-out for Work to have room for the events: as long as their frames take to come.
const TAKEN: Duration = Duration::MAX;

/// Hands over every entry of `mapping` to `assign`, in order, none twice; lost connections are made again. An entry that is none, or that
/// cannot be read, is skipped, counted by `skipped` and noted in `vitals`. Ends never.
pub(crate) async fn follow(
    place: &Place,
    mapping: Uuid,
    link: LinkReporter,
    (vitals, skipped): (Arc<Vitals>, Metric),
    assign: &Recipient<EntriesRead>,
) {
    let mut reconnect = Reconnect::new(link, BACKOFF);
    let key = format!("dranspose:assigned:{mapping}");
    let mut reader = StreamReader::new(key, COUNT, BLOCK, &vitals, skipped);
    let mut last = Id::default();
    loop {
        let Err(error) = connection(place, &mut reader, &mut last, &mut reconnect, assign).await;
        if !reader.asks_less() {
            tokio::time::sleep(reconnect.failed(advice(&error, place.endpoint()))).await;
        }
    }
}

async fn connection(
    place: &Place,
    reader: &mut StreamReader,
    last: &mut Id,
    reconnect: &mut Reconnect,
    assign: &Recipient<EntriesRead>,
) -> Result<Infallible, RequestError> {
    let mut redis = place.connect(BLOCK, REPLY_MAX).await?;
    let mut wait = false;
    loop {
        // The first read tells at once whether the key can be read.
        let entries = reader.read(&mut redis, *last, wait).await?;
        if !std::mem::replace(&mut wait, true) {
            reconnect.connected();
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
            for InvalidEntry { at, entry, error } in hand_over(group, assign).await {
                let why = format!("{}: {}", shortened(&error), shown(b"data", &entry));
                reader.skip(ids.get(at).copied(), &why);
            }
            *last = newest;
            reconnect.succeeded();
        }
    }
}

/// Until Work has taken the events; returns the entries that could not be read.
async fn hand_over(entries: Vec<Vec<u8>>, assign: &Recipient<EntriesRead>) -> Vec<InvalidEntry> {
    match assign.ask(EntriesRead(entries), TAKEN).await {
        Ok(invalid) => invalid,
        // Who would answer has ended, and this reader is about to.
        Err(_) => std::future::pending().await,
    }
}
