//! Reads one stream, over any number of connections. An entry that cannot be used is skipped, counted and named; the next one is read.

use std::{sync::Arc, time::Duration};

use orchestrator_supervise::{Metric, Vitals, sanitize};
use redis::{Script, Value, cmd};
use tokio::time::{Instant, sleep};

use super::{
    connection::{Connection, RequestError},
    entry::{Entry, Id, of_id, of_range, of_read},
};

/// Shortest time that a read without an entry takes, whatever the peer does with its time-out.
const READ_MIN: Duration = Duration::from_millis(100);

/// Gives the id of the first entry and nothing else: for entries that are too long to be read.
const ID_OF: &str = "local e = redis.call(ARGV[1], KEYS[1], ARGV[2], ARGV[3], 'COUNT', 1) \
    return e[1] and e[1][1] or false";

/// Ids and contents; no content where an entry was skipped.
type Entries = Vec<(Id, Option<Vec<u8>>)>;

/// Reader of one stream.
pub(super) struct StreamReader {
    key: Arc<str>,
    block: Duration,
    /// Entries read at once at the most.
    count_max: usize,
    /// Entries read at once now: fewer after a reply that was too long. 0: the next entry alone is too long.
    count: usize,
    /// The newest entry is too long: only its id is asked for.
    long_top: bool,
    /// The last request was changed to ask for less.
    asks_less: bool,
    vitals: Arc<Vitals>,
    skipped: Metric,
}

impl StreamReader {
    /// Reads `key`, up to `count` entries at once, and waits up to `block` for one. Entries that are skipped are counted by `skipped`.
    pub(super) fn new(
        key: impl Into<Arc<str>>,
        count: usize,
        block: Duration,
        vitals: &Arc<Vitals>,
        skipped: Metric,
    ) -> Self {
        let (key, vitals) = (key.into(), vitals.clone());
        Self { key, block, count_max: count, count, long_top: false, asks_less: false, vitals, skipped }
    }

    /// Entries after `last`, each with its id and content; none if there is none, also after waiting for one if `wait`. Where the
    /// content is None the entry was skipped.
    ///
    /// # Errors
    /// As [`Connection::ask`]. After [`RequestError::TooLong`] the next read asks for less, unless it cannot.
    pub(super) async fn read(
        &mut self,
        redis: &mut Connection,
        last: Id,
        wait: bool,
    ) -> Result<Entries, RequestError> {
        if self.count == 0 {
            return self.pass_over(redis, last).await;
        }
        let began = Instant::now();
        let mut command = cmd("XREAD");
        command.arg("COUNT").arg(self.count);
        if wait {
            command.arg("BLOCK").arg(self.block.as_millis() as usize);
        }
        command.arg("STREAMS").arg(&*self.key).arg(last.to_string());
        let entries = redis.ask(&command).await.and_then(of_read).inspect_err(|error| {
            if matches!(error, RequestError::TooLong(_)) {
                self.count /= 4;
                self.asks_less = true;
            }
        })?;
        self.count = (self.count * 2).min(self.count_max);
        if entries.is_empty() && wait {
            sleep(READ_MIN.saturating_sub(began.elapsed())).await;
        }
        self.in_order(entries, last)
    }

    /// Tells whether the last request failed in a way that the next one avoids: it need not wait.
    pub(super) fn asks_less(&mut self) -> bool {
        std::mem::take(&mut self.asks_less)
    }

    /// The id of the newest entry; None without any.
    pub(super) async fn top(&mut self, redis: &mut Connection) -> Result<Option<Id>, RequestError> {
        if self.long_top {
            return self.id_of(redis, ["XREVRANGE", "+", "-"]).await;
        }
        let mut command = cmd("XREVRANGE");
        command.arg(&*self.key).arg("+").arg("-").arg("COUNT").arg(1);
        let entries = redis.ask(&command).await.and_then(of_range).inspect_err(|error| {
            self.long_top = matches!(error, RequestError::TooLong(_));
            self.asks_less = self.long_top;
        })?;
        let id = |entry: &Entry| entry.id.ok_or(RequestError::Odd { found: "none", wanted: "an entry's id" });
        entries.first().map(id).transpose()
    }

    /// Counts and names an entry that cannot be used.
    pub(super) fn skip(&self, id: Option<Id>, why: &str) {
        self.skipped.add(1);
        let id = id.map_or_else(|| "without an id".to_owned(), |id| id.to_string());
        let text = sanitize(format!("entry {id} of {} is skipped: {why}", self.key));
        tracing::warn!(path = self.vitals.path(), text);
        self.vitals.note(text);
    }

    fn in_order(&self, entries: Vec<Entry>, last: Id) -> Result<Entries, RequestError> {
        let none = entries.is_empty();
        let mut newest = last;
        let mut read = Vec::with_capacity(entries.len());
        for Entry { id, data } in entries {
            let Some(id) = id else {
                self.skip(None, &data.err().unwrap_or_default());
                continue;
            };
            // None twice, whatever the peer gives.
            if id <= newest {
                continue;
            }
            newest = id;
            read.push((id, data.map_err(|why| self.skip(Some(id), &why)).ok()));
        }
        if read.is_empty() && !none { Err(RequestError::Stale(last.to_string())) } else { Ok(read) }
    }

    /// The next entry alone is longer than a reply may be.
    async fn pass_over(&mut self, redis: &mut Connection, last: Id) -> Result<Entries, RequestError> {
        let found = self.id_of(redis, ["XRANGE", &last.next().to_string(), "+"]).await?;
        self.count = 1;
        let Some(id) = found.filter(|id| *id > last) else { return Ok(Vec::new()) };
        self.skip(Some(id), "it is longer than a reply may be");
        Ok(vec![(id, None)])
    }

    async fn id_of(&self, redis: &mut Connection, range: [&str; 3]) -> Result<Option<Id>, RequestError> {
        let script = Script::new(ID_OF);
        let mut script = script.key(&*self.key);
        range.iter().for_each(|word| _ = script.arg(*word));
        redis.run(&script).await.and_then(|id: Value| of_id(&id))
    }
}
