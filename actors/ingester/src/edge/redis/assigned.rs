//! The `assigned` stream of one mapping, from its beginning (spec §7).

use std::time::Duration;

use orchestrator_edge::Reconnect;
use orchestrator_supervise::LinkReporter;
use redis::RedisError;
use uuid::Uuid;

use super::{
    BACKOFF, Place, advice,
    entry::{Id, read},
};

/// How long a read waits (spec §11).
const BLOCK: Duration = Duration::from_secs(1);
/// Entries read at once: one may have ten thousand events.
const COUNT: usize = 16;

/// Hands over every entry of `mapping`, in order, none twice; lost connections are made again. Ends never.
pub(crate) async fn follow(
    place: &Place,
    mapping: Uuid,
    link: LinkReporter,
    mut take: impl AsyncFnMut(Vec<u8>),
) {
    let mut reconnect = Reconnect::new(link, BACKOFF);
    let mut last = Id::default();
    loop {
        let Err(error) = connection(place, mapping, &mut last, &mut reconnect, &mut take).await;
        tokio::time::sleep(reconnect.failed(advice(&error, place.endpoint()))).await;
    }
}

async fn connection(
    place: &Place,
    mapping: Uuid,
    last: &mut Id,
    reconnect: &mut Reconnect,
    take: &mut impl AsyncFnMut(Vec<u8>),
) -> Result<std::convert::Infallible, RedisError> {
    let mut redis = place.connect(BLOCK).await?;
    let key = format!("dranspose:assigned:{mapping}");
    reconnect.succeeded();
    loop {
        for (id, data) in read(&mut redis, &key, *last, COUNT, BLOCK.as_millis() as usize).await? {
            take(data).await;
            *last = id;
        }
    }
}
