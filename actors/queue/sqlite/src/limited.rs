//! Record of jobs in flight that count against limits, and the classes of groups in SQL.

use orchestrator_queue_rules::storage::{Class, LimitedJobs, Limits};
use rusqlite::functions::FunctionFlags;
use rusqlite::{Connection, params};
use std::sync::Arc;

/// Limits and the jobs in flight that count against them.
#[derive(Debug, Clone, Default)]
pub(super) struct Limited {
    pub(super) limits: Arc<Limits>,
    jobs: LimitedJobs,
}

impl Limited {
    /// Reads the jobs. One that another program reported done does not count.
    pub(super) fn load(conn: &Connection, limits: &Arc<Limits>) -> rusqlite::Result<Self> {
        let mut limited = Self { limits: Arc::clone(limits), jobs: LimitedJobs::default() };
        if limits.0.is_empty() {
            return Ok(limited);
        }
        let mut statement = conn.prepare_cached(
            "SELECT l.attr_path, l.fetcher, log.started FROM orchestrator_limited AS l
             JOIN log ON log.attr_path = l.attr_path AND log.finished IS NULL",
        )?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let (attr_path, fetcher): (String, Option<String>) = (row.get(0)?, row.get(1)?);
            match limits.class(&attr_path, fetcher.as_deref()) {
                0 => {}
                class => limited.jobs.insert(&attr_path, class, row.get(2)?),
            }
        }
        Ok(limited)
    }

    pub(super) fn is_full(&self, class: Class, now: i64, hold: i64) -> bool {
        self.jobs.is_full(&self.limits, class, now, hold)
    }

    /// Records a hand-out. Forgets jobs of the class whose holds are over.
    pub(super) fn begin(
        &mut self,
        conn: &Connection,
        attr_path: &str,
        fetcher: Option<&str>,
        now: i64,
        hold: i64,
    ) -> rusqlite::Result<()> {
        if self.limits.0.is_empty() {
            return Ok(());
        }
        let class = self.limits.class(attr_path, fetcher);
        if class == 0 {
            // Another program may have ended an earlier job of the path, whose record is left.
            conn.prepare_cached("DELETE FROM orchestrator_limited WHERE attr_path = ?1")?
                .execute([attr_path])?;
            return Ok(());
        }
        for expired in self.jobs.expired(class, now, hold) {
            self.end(conn, &expired)?;
        }
        conn.prepare_cached(
            "INSERT OR REPLACE INTO orchestrator_limited (attr_path, fetcher) VALUES (?1, ?2)",
        )?
        .execute(params![attr_path, fetcher])?;
        self.jobs.insert(attr_path, class, now);
        Ok(())
    }

    /// Counts a job in memory, unless its class is full.
    pub(super) fn try_begin(&mut self, attr_path: &str, class: Class, now: i64, hold: i64) -> bool {
        if self.is_full(class, now, hold) {
            return false;
        }
        if class > 0 {
            self.jobs.insert(attr_path, class, now);
        }
        true
    }

    /// Records the end of a job, if it counted.
    pub(super) fn end(&mut self, conn: &Connection, attr_path: &str) -> rusqlite::Result<()> {
        if self.jobs.remove(attr_path) {
            conn.prepare_cached("DELETE FROM orchestrator_limited WHERE attr_path = ?1")?
                .execute([attr_path])?;
        }
        Ok(())
    }
}

/// Adds the SQL function `orchestrator_class(attr_path, fetcher)`, which statements of this connection
/// use. No trigger may use it, because other programs do not have it.
pub(super) fn add_function(conn: &Connection, limits: &Arc<Limits>) -> rusqlite::Result<()> {
    let limits = Arc::clone(limits);
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    conn.create_scalar_function("orchestrator_class", 2, flags, move |context| {
        let (attr_path, fetcher): (String, Option<String>) = (context.get(0)?, context.get(1)?);
        Ok(limits.class(&attr_path, fetcher.as_deref()))
    })
}

/// Records all jobs in flight again after the limits have changed. The fetcher of a job is that of its
/// attempt.
pub(super) fn rebuild(conn: &Connection) -> rusqlite::Result<()> {
    conn.execute_batch(include_str!("sql/rebuild_limited.sql"))
}

/// Tells the patterns of limits apart; 0 without limits.
pub(super) fn fingerprint(limits: &Limits) -> i64 {
    if limits.0.is_empty() {
        return 0;
    }
    let patterns: Vec<_> = limits.0.iter().map(|limit| (&limit.attr_path, &limit.fetcher)).collect();
    digest(&format!("{patterns:?}"))
}

/// First eight bytes of the MD5 of a text.
pub(super) fn digest(text: &str) -> i64 {
    let digest: [u8; 16] = <md5::Md5 as md5::Digest>::digest(text).into();
    let (first, _) = digest.split_at(8);
    i64::from_le_bytes(first.try_into().unwrap_or_default())
}
