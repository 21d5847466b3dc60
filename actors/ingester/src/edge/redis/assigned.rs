//! The `assigned` stream of one mapping, from its beginning (CONTRACT ID07).

use std::{convert::Infallible, sync::Arc, time::Duration};

use orchestrator_edge::Reconnect;
use orchestrator_supervise::{Figure, LinkReporter, Vitals};
use uuid::Uuid;

use super::{
    connection::{RequestError, shortened},
    entry::{Id, shown},
    place::{BACKOFF, Place, advice},
    reader::StreamReader,
};

/// How long a read waits (CONTRACT ID07).
const BLOCK: Duration = Duration::from_secs(1);
/// Entries read at once: one may have ten thousand events.
const COUNT: usize = 16;
/// Longest reply, bytes: an entry that is longer is skipped.
const REPLY_MAX: usize = 32 << 20;

/// Hands over every entry of `mapping`, in order, none twice; lost connections are made again. An entry that is none, or that `take`
/// refuses, is skipped, counted by `skipped` and noted in `vitals`. Ends never.
pub(crate) async fn follow<E: std::fmt::Display>(
    place: &Place,
    mapping: Uuid,
    link: LinkReporter,
    (vitals, skipped): (Arc<Vitals>, Figure),
    mut take: impl AsyncFnMut(&[u8]) -> Result<(), E>,
) {
    let mut reconnect = Reconnect::new(link, BACKOFF);
    let key = format!("dranspose:assigned:{mapping}");
    let mut reader = StreamReader::new(key, COUNT, BLOCK, &vitals, skipped);
    let mut last = Id::default();
    loop {
        let Err(error) = connection(place, &mut reader, &mut last, &mut reconnect, &mut take).await;
        if !reader.asks_less() {
            tokio::time::sleep(reconnect.failed(advice(&error, place.endpoint()))).await;
        }
    }
}

async fn connection<E: std::fmt::Display>(
    place: &Place,
    reader: &mut StreamReader,
    last: &mut Id,
    reconnect: &mut Reconnect,
    take: &mut impl AsyncFnMut(&[u8]) -> Result<(), E>,
) -> Result<Infallible, RequestError> {
    let mut redis = place.connect(BLOCK, REPLY_MAX).await?;
    let mut wait = false;
    loop {
        // The first read tells at once whether the key can be read.
        let entries = reader.read(&mut redis, *last, wait).await?;
        if !std::mem::replace(&mut wait, true) {
            reconnect.connected();
        }
        for (id, data) in entries {
            if let Some(data) = data
                && let Err(error) = take(&data).await
            {
                reader.skip(Some(id), &format!("{}: {}", shortened(&error), shown(b"data", &data)));
            }
            *last = id;
            reconnect.succeeded();
        }
    }
}
