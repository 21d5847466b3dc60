//! Entries of streams: an id and one field, `data`.

use redis::{
    RedisResult,
    aio::MultiplexedConnection,
    cmd, from_redis_value,
    streams::{StreamId, StreamRangeReply, StreamReadReply},
};

/// An entry's id; the order of ids is the order of entries.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Id(u64, u64);

impl Id {
    /// `ms-seq`; None if it is none.
    fn parse(text: &str) -> Option<Self> {
        let (ms, seq) = text.split_once('-')?;
        Some(Self(ms.parse().ok()?, seq.parse().ok()?))
    }
}

impl std::fmt::Display for Id {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}", self.0, self.1)
    }
}

/// Entries after `last`; none if none came within `block_ms`.
pub(super) async fn read(
    connection: &mut MultiplexedConnection,
    key: &str,
    last: Id,
    count: usize,
    block_ms: usize,
) -> RedisResult<Vec<(Id, Vec<u8>)>> {
    let mut command = cmd("XREAD");
    command.arg("COUNT").arg(count).arg("BLOCK").arg(block_ms).arg("STREAMS").arg(key).arg(last.to_string());
    let reply: Option<StreamReadReply> = command.query_async(connection).await?;
    Ok(reply.into_iter().flat_map(|reply| reply.keys).flat_map(|key| key.ids).filter_map(entry).collect())
}

/// The id of the newest entry; None without any.
pub(super) async fn top(connection: &mut MultiplexedConnection, key: &str) -> RedisResult<Option<Id>> {
    let mut command = cmd("XREVRANGE");
    command.arg(key).arg("+").arg("-").arg("COUNT").arg(1);
    let reply: StreamRangeReply = command.query_async(connection).await?;
    Ok(reply.ids.first().and_then(|entry| Id::parse(&entry.id)))
}

/// An entry without `data` is one without content: its id still counts.
fn entry(mut entry: StreamId) -> Option<(Id, Vec<u8>)> {
    // Taken out, not copied: entries of assignments are long.
    let data = entry.map.remove("data").and_then(|data| from_redis_value(data).ok());
    Some((Id::parse(&entry.id)?, data.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_ordered_by_number_not_by_text() {
        let id = |text| Id::parse(text).unwrap();
        assert!(id("9-0") < id("10-0") && id("10-9") < id("10-10"));
        assert_eq!(id("1795178747572-3").to_string(), "1795178747572-3");
        assert_eq!([Id::parse(""), Id::parse("7"), Id::parse("a-1")], [None; 3]);
        assert_eq!(Id::default().to_string(), "0-0");
    }
}
