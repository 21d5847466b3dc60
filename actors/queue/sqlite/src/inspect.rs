//! Answers questions of operators on a read-only connection.

mod answer;
mod attempts;
mod attr;
mod bumped;
mod listing;
mod ready_groups;
mod sample;

use super::error::storage_error;
use super::groups::{self, NULL_KEY};
use super::limited::Limited;
use super::open::Options;
use answer::{answer, payload_start, rows, single};
use orchestrator_edge::check_database_files;
use orchestrator_queue_rules::{
    listing::Listing,
    storage::{
        ANSWER_BYTES_MAX, Attempt, AttrReport, Counts, FailedAttempts, FailedJob, GroupKey, NextJobs,
        Pattern, Peeked, Questions, RunCount, RunId, Sample, Section, StaleGroup, StorageError, glob::Glob,
    },
};
use orchestrator_queue_store::{
    IsAsked,
    questions::{self, Query},
};
use rusqlite::functions::FunctionFlags;
use rusqlite::types::FromSqlResult;
use rusqlite::{Connection, OpenFlags, OptionalExtension, params};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Number of SQLite's virtual machine steps between two checks of the deadline.
const STEPS: i32 = 2_000;

/// A read-only connection. Each question sees one snapshot, and fails with `StorageErrorKind::Backend`
/// ("interrupted") once it has taken longer than the time limit, or nobody waits for the answer.
pub struct Inspector {
    conn: Connection,
    path: PathBuf,
    options: Options,
    timeout: Duration,
    is_asked: IsAsked,
}

impl Inspector {
    /// Connects to the database at `path`, created by a [`super::SqliteStore`] with the same options. A
    /// question takes at most `timeout`.
    ///
    /// # Errors
    /// Of SQLite or the file system.
    pub fn open(path: &Path, options: Options, timeout: Duration) -> Result<Self, StorageError> {
        let connect = || {
            let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
            let conn = Connection::open_with_flags(path, flags)?;
            conn.busy_timeout(Duration::from_millis(50))?;
            conn.pragma_update(None, "cache_size", -2048)?;
            add_function(&conn)?;
            Ok(conn)
        };
        check_database_files(path).map_err(StorageError::backend(path, "opening for reading"))?;
        let conn = connect().map_err(|error| storage_error(path, "opening for reading", error))?;
        Ok(Self { conn, path: path.to_path_buf(), options, timeout, is_asked: Arc::new(|| true) })
    }

    /// Ends questions for which nobody waits.
    #[must_use]
    pub fn while_asked(self, is_asked: IsAsked) -> Self {
        Self { is_asked, ..self }
    }

    fn ask<T>(
        &mut self,
        action: &'static str,
        question: impl FnOnce(&Connection, &Options) -> rusqlite::Result<T>,
    ) -> Result<T, StorageError> {
        let (end, is_asked) = (Instant::now() + self.timeout, self.is_asked.clone());
        let answer = || {
            self.conn.progress_handler(STEPS, Some(move || Instant::now() >= end || !is_asked()))?;
            let tx = self.conn.transaction()?;
            question(&tx, &self.options)
        };
        answer().map_err(|error| storage_error(&self.path, action, error))
    }

    fn answer<T>(&mut self, query: &Query<T>) -> Result<Vec<T>, StorageError> {
        self.ask(query.action, |conn, _| answer(conn, query))
    }
}

impl Questions for Inspector {
    fn runs(&mut self) -> Result<Vec<RunCount>, StorageError> {
        self.answer(&questions::runs())
    }

    fn peek(
        &mut self,
        pattern: Option<&Pattern>,
        now: i64,
        limit: usize,
    ) -> Result<Vec<Peeked>, StorageError> {
        self.ask("reading the next jobs", |conn, options| peek(conn, options, pattern, now, limit))
    }

    fn counts(&mut self) -> Result<Counts, StorageError> {
        let query = questions::counts();
        self.ask(query.action, |conn, _| single(conn, &query))
    }

    fn attr(&mut self, attr_path: &str, now: i64, limit: usize) -> Result<AttrReport, StorageError> {
        self.ask("reading the state of a path", |conn, options| {
            attr::attr(conn, options, attr_path, now, limit)
        })
    }

    fn in_flight(&mut self, pattern: Option<&Pattern>, limit: usize) -> Result<Vec<Attempt>, StorageError> {
        self.answer(&questions::in_flight(pattern, limit))
    }

    fn failed(&mut self, which: &FailedAttempts) -> Result<Vec<Attempt>, StorageError> {
        self.answer(&questions::failed(which))
    }

    fn failures(&mut self, after: i64, limit: usize) -> Result<Vec<FailedJob>, StorageError> {
        self.answer(&questions::failures(after, limit))
    }

    fn stale(&mut self, before: i64, limit: usize) -> Result<Vec<StaleGroup>, StorageError> {
        self.answer(&questions::stale(before, limit))
    }

    fn neighbors(&mut self, attr_path: &str) -> Result<Vec<String>, StorageError> {
        self.answer(&questions::neighbors(attr_path))
    }

    fn last_runs(&mut self) -> Result<Vec<(String, i64)>, StorageError> {
        self.answer(&questions::last_runs())
    }

    fn sample(&mut self, now: i64) -> Result<Sample, StorageError> {
        self.ask("counting for the metrics", |conn, options| sample::sample(conn, options, now))
    }

    fn listing(&mut self, now: i64) -> Result<Listing, StorageError> {
        self.ask("reading the groups", |conn, options| listing::listing(conn, options, now))
    }
}

/// Next jobs in the order of hand-outs at `now`, as if none ended meanwhile.
fn peek(
    conn: &Connection,
    options: &Options,
    pattern: Option<&Pattern>,
    now: i64,
    limit: usize,
) -> rusqlite::Result<Vec<Peeked>> {
    let hold_secs = options.hold_secs;
    let mut next: Vec<(GroupKey, Section)> = Vec::new();
    for (section, _) in groups::sections(conn)? {
        // A hold that ends now is still held (CONTRACT QO02).
        let before = if section.held { now.saturating_sub(hold_secs) } else { i64::MAX };
        next.extend(
            section_start(conn, section, pattern, before, limit)?.into_iter().map(|key| (key, section)),
        );
    }
    let mut limited = Limited::load(conn, &options.limits)?;
    let first = bumped::eligible(conn, &limited, now, hold_secs)?;
    next.retain(|(key, _)| !first.iter().any(|(bumped, _)| bumped == key));
    next.sort();
    let is_selected = |attr_path: &str| pattern.is_none_or(|pattern| pattern.matches(attr_path));
    next.splice(0..0, first.into_iter().filter(|(key, _)| is_selected(&key.attr_path)));
    let mut jobs = NextJobs::new(limit);
    for (key, section) in next {
        if jobs.is_full() {
            break;
        }
        if jobs.holds(&key.attr_path) || !limited.try_begin(&key.attr_path, section.class, now, hold_secs) {
            continue;
        }
        if let Some(job) = describe(conn, key, section)? {
            jobs.push(job);
        }
    }
    Ok(jobs.jobs)
}

/// Adds the SQL function `path_matches(pattern, attr_path)`. Without a pattern, all paths match.
fn add_function(conn: &Connection) -> rusqlite::Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    conn.create_scalar_function("path_matches", 2, flags, |context| {
        // The pattern is read once for all rows.
        let pattern = context.get_or_create_aux(0, |text| -> FromSqlResult<Option<Glob>> {
            Ok(text.as_str_or_null()?.map(Glob::new))
        })?;
        let attr_path = context.get_raw(1).as_str()?;
        Ok(pattern.as_ref().as_ref().is_none_or(|pattern| pattern.matches(attr_path)))
    })
}

/// At most `limit` groups that were started before `before`. Together they are longer than an answer by one
/// path at most.
fn section_start(
    conn: &Connection,
    section: Section,
    pattern: Option<&Pattern>,
    before: i64,
    limit: usize,
) -> rusqlite::Result<Vec<GroupKey>> {
    let mut statement = conn.prepare_cached(include_str!("sql/inspect/first_groups.sql"))?;
    let Section { fetcher_id, run_started, class, held } = section;
    let pattern = pattern.map(Pattern::as_str);
    let mut found = statement.query(params![
        fetcher_id,
        run_started,
        class,
        held,
        before,
        rows(limit),
        NULL_KEY,
        pattern
    ])?;
    let (mut keys, mut bytes) = (Vec::new(), 0);
    while bytes <= ANSWER_BYTES_MAX
        && let Some(row) = found.next()?
    {
        let key = groups::key(row, section.fetcher_id)?;
        bytes += key.attr_path.len();
        keys.push(key);
    }
    Ok(keys)
}

fn describe(conn: &Connection, key: GroupKey, section: Section) -> rusqlite::Result<Option<Peeked>> {
    conn.prepare_cached(
        "SELECT q.rowid, f.name FROM queue AS q JOIN fetchers AS f USING (fetcher_id)
         WHERE q.fetcher_run_started = ?1 AND q.fetcher_id = ?2 AND q.attr_path = ?3",
    )?
    .query_row(params![section.run_started, section.fetcher_id, key.attr_path], |row| {
        Ok(Peeked {
            payload: payload_start(conn, row.get(0)?)?,
            run: RunId { fetcher: row.get(1)?, started: section.run_started },
            last_started: key.last_started,
            attr_path: key.attr_path.clone(),
        })
    })
    .optional()
}
