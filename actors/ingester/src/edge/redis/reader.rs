//! Reader of one Redis stream over any number of connections. An invalid entry is skipped, counted
//! and noted.

use std::{sync::Arc, time::Duration};

use orchestrator_edge::{PeerError, PeerErrorKind};
use orchestrator_observe::Metric;
use orchestrator_supervise::Vitals;
use orchestrator_text::sanitize;
use redis::{Script, Value, cmd};
use tokio::time::{Instant, sleep};

use super::{
    connection::{Connection, malformed},
    entry::{Entry, Id, parse_id, parse_xrange, parse_xread},
};

/// Shortest duration of an empty read, in case the peer ignores the blocking time-out.
const EMPTY_READ_MIN: Duration = Duration::from_millis(100);

/// Script that returns only the id of the first entry, for entries that are too long to read.
const ID_SCRIPT: &str = "local e = redis.call(ARGV[1], KEYS[1], ARGV[2], ARGV[3], 'COUNT', 1) \
    return e[1] and e[1][1] or false";

/// Ids and contents; None for a skipped entry.
type Entries = Vec<(Id, Option<Vec<u8>>)>;

/// Reader of one stream.
pub(super) struct StreamReader {
    key: Arc<str>,
    block: Duration,
    /// Most entries of one read.
    count_max: usize,
    /// Entries of the next read, fewer after a reply that was too long. 0: the next entry alone is
    /// too long.
    count: usize,
    /// The newest entry is too long; only its id is read.
    newest_oversized: bool,
    /// The next request is smaller than the one that failed.
    reduced_request: bool,
    vitals: Arc<Vitals>,
    skipped: Metric,
}

impl StreamReader {
    /// Reads `key`, up to `count` entries at once, waiting up to `block` for one. `skipped` counts
    /// skipped entries.
    pub(super) fn new(
        key: impl Into<Arc<str>>,
        count: usize,
        block: Duration,
        vitals: &Arc<Vitals>,
        skipped: Metric,
    ) -> Self {
        let (key, vitals) = (key.into(), vitals.clone());
        Self {
            key,
            block,
            count_max: count,
            count,
            newest_oversized: false,
            reduced_request: false,
            vitals,
            skipped,
        }
    }

    /// Entries after `last` with id and content; None as content of a skipped entry. With `wait` it
    /// blocks while there are none.
    ///
    /// # Errors
    /// See [`Connection::ask`]. After [`PeerErrorKind::TooLarge`] the next read requests less, if
    /// possible.
    pub(super) async fn read(
        &mut self,
        redis: &mut Connection,
        last: Id,
        wait: bool,
    ) -> Result<Entries, PeerError> {
        if self.count == 0 {
            return self.skip_oversized(redis, last).await;
        }
        let began = Instant::now();
        let mut command = cmd("XREAD");
        command.arg("COUNT").arg(self.count);
        if wait {
            command.arg("BLOCK").arg(self.block.as_millis() as usize);
        }
        command.arg("STREAMS").arg(&*self.key).arg(last.to_string());
        let entries = redis.ask(&command).await.and_then(parse_xread).inspect_err(|error| {
            if error.kind == PeerErrorKind::TooLarge {
                self.count /= 4;
                self.reduced_request = true;
            }
        })?;
        self.count = (self.count * 2).min(self.count_max);
        if entries.is_empty() && wait {
            sleep(EMPTY_READ_MIN.saturating_sub(began.elapsed())).await;
        }
        self.without_repeats(entries, last)
    }

    /// True, once, after a failure that the next, smaller request avoids; it need not be delayed.
    pub(super) fn reduced_request(&mut self) -> bool {
        std::mem::take(&mut self.reduced_request)
    }

    /// Id of the newest entry; None without entries.
    pub(super) async fn newest_id(&mut self, redis: &mut Connection) -> Result<Option<Id>, PeerError> {
        if self.newest_oversized {
            return self.fetch_id(redis, ["XREVRANGE", "+", "-"]).await;
        }
        let mut command = cmd("XREVRANGE");
        command.arg(&*self.key).arg("+").arg("-").arg("COUNT").arg(1);
        let entries = redis.ask(&command).await.and_then(parse_xrange).inspect_err(|error| {
            self.newest_oversized = error.kind == PeerErrorKind::TooLarge;
            self.reduced_request = self.newest_oversized;
        })?;
        let missing = || malformed("the reply has none instead of an entry's id".to_owned());
        let id = |entry: &Entry| entry.id.ok_or_else(missing);
        entries.first().map(id).transpose()
    }

    /// Counts and notes an entry that cannot be used.
    pub(super) fn skip(&self, id: Option<Id>, why: &str) {
        self.skipped.add(1);
        let id = id.map_or_else(|| "without an id".to_owned(), |id| id.to_string());
        let text = sanitize(format!("entry {id} of {} is skipped: {why}", self.key));
        tracing::warn!(path = self.vitals.path(), text);
        self.vitals.note(text);
    }

    fn without_repeats(&self, entries: Vec<Entry>, last: Id) -> Result<Entries, PeerError> {
        let none = entries.is_empty();
        let mut newest = last;
        let mut read = Vec::with_capacity(entries.len());
        for Entry { id, data } in entries {
            let Some(id) = id else {
                self.skip(None, &data.err().unwrap_or_default());
                continue;
            };
            // Skips repeated entries, whatever the peer sends.
            if id <= newest {
                continue;
            }
            newest = id;
            read.push((id, data.map_err(|why| self.skip(Some(id), &why)).ok()));
        }
        if read.is_empty() && !none {
            // Reading on would not end.
            return Err(malformed(format!(
                "the reply has only entries up to {last}, which were read before"
            )));
        }
        Ok(read)
    }

    /// Skips the next entry, which alone exceeds the longest reply.
    async fn skip_oversized(&mut self, redis: &mut Connection, last: Id) -> Result<Entries, PeerError> {
        let found = self.fetch_id(redis, ["XRANGE", &last.next().to_string(), "+"]).await?;
        self.count = 1;
        let Some(id) = found.filter(|id| *id > last) else { return Ok(Vec::new()) };
        self.skip(Some(id), "it is longer than the longest reply");
        Ok(vec![(id, None)])
    }

    async fn fetch_id(&self, redis: &mut Connection, range: [&str; 3]) -> Result<Option<Id>, PeerError> {
        let script = Script::new(ID_SCRIPT);
        let mut script = script.key(&*self.key);
        range.iter().for_each(|word| _ = script.arg(*word));
        redis.run(&script).await.and_then(|id: Value| parse_id(&id))
    }
}
