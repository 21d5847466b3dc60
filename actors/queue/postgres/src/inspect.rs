//! Answers questions of operators in read-only transactions.

mod attempts;
mod attr;
mod counts;
mod failures;
mod listing;
mod peek;
mod question;
mod sql;
mod unserved;

use std::time::Duration;

use futures_util::future::{FutureExt, LocalBoxFuture};
use orchestrator_edge::postgres::{Params, Row, SessionSettings};
use orchestrator_queue_rules::{
    listing::Listing,
    storage::{
        Adopted, Attempt, AttrReport, Counts, FailedAttempts, FailedJob, HandoutSettings, InstanceRow,
        Pattern, Peeked, Questions, RunCount, Sample, StaleGroup, StorageError, Waiting,
    },
    unserved::Unserved,
};
use orchestrator_queue_store::{
    Answering, IsAsked, Maintenance,
    questions::{self, Query},
};
use orchestrator_supervise::{PauseSpan, StopToken};
use tokio::runtime::Runtime;

use self::question::Question;
use super::{
    error::unanswered,
    schema,
    server_session::Session,
    session::{first, get},
    settings::{Settings, runtime},
    settle,
};
use crate::InstanceConfig;

/// Settings of the session. Plans depend on the values, and the just-in-time compiler takes longer than the
/// questions.
const SETTINGS: &[&str] = &["SET plan_cache_mode = force_custom_plan; SET jit = off;"];
/// Maximum length of a row, in bytes: one path, one payload up to 500 characters.
const ROW_MAX: u32 = 1 << 20;
/// Maximum size of an answer of the server, in bytes: that of a listing with its columns.
const ANSWER_MAX: u64 = 192 << 20;
/// Time that an answer may take longer than its statement.
const ANSWER_MARGIN: Duration = Duration::from_millis(250);

/// Connection to the database, opened by the first question and after a failure. Not for use in asynchronous
/// code, since each call blocks.
#[derive(Debug)]
pub struct PostgresInspector {
    config: InstanceConfig,
    timeout: Duration,
    stop: StopToken,
    open: Option<(Open, Runtime)>,
}

/// Session with the settings that were read when it was opened.
#[derive(Debug)]
struct Open {
    session: Session,
    instance: String,
    settings: HandoutSettings,
}

impl PostgresInspector {
    /// A store must have created the queue. A statement takes at most `timeout`, and a question ends at
    /// `stop`.
    #[must_use]
    pub fn new(config: &InstanceConfig, timeout: Duration, stop: StopToken) -> Self {
        Self { config: config.clone(), timeout, stop, open: None }
    }

    /// Costs a few seeks for each limit, or the count of up to a thousand held jobs.
    ///
    /// # Errors
    /// Of the server.
    pub fn waiting(&mut self, now: i64) -> Result<Waiting, StorageError> {
        self.ask("reading the waiting jobs", async |question| peek::waiting(question, now).await)
    }

    /// Tells other instances whether workers of this one have asked a short time ago, and returns whether one
    /// of another instance has.
    pub(crate) fn share_presence(&mut self, is_present: bool) -> Result<bool, StorageError> {
        self.run(async |Open { session, .. }| unserved::share_presence(session, is_present).await)
    }

    /// None if somebody works, or no job could be handed out. Reads the whole log.
    pub(crate) fn unserved(
        &mut self,
        now: i64,
        last_request: Option<i64>,
    ) -> Result<Option<Unserved>, StorageError> {
        self.ask("reading the times of the log", async |question| {
            unserved::unserved(question, now, last_request).await
        })
    }

    fn ask<T>(
        &mut self,
        action: &'static str,
        answer: impl AsyncFnOnce(&mut Question<'_>) -> Result<T, StorageError>,
    ) -> Result<T, StorageError> {
        let begin = format!("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; {}", self.time_limit());
        self.run(async |Open { session, settings, .. }| {
            session.batch(action, &begin).await?;
            let answer = answer(&mut Question { session, action, settings }).await?;
            session.batch(action, "COMMIT").await?;
            Ok(answer)
        })
    }

    fn answer<T>(&mut self, query: &Query<T>) -> Result<Vec<T>, StorageError> {
        self.ask(query.action, async |question| question.answer(query).await)
    }

    /// Closes the connection after a failure, and with it a transaction.
    fn run<T>(
        &mut self,
        work: impl AsyncFnOnce(&mut Open) -> Result<T, StorageError>,
    ) -> Result<T, StorageError> {
        let (mut open, runtime) = match self.open.take() {
            Some(open) => open,
            None => {
                let runtime = runtime()?;
                (self.wait(&runtime, self.connect().boxed_local())?, runtime)
            }
        };
        let answer = self.wait(&runtime, work(&mut open).boxed_local())?;
        self.open = Some((open, runtime));
        Ok(answer)
    }

    /// Awaits the server, until the child is asked to stop. Compiled for each type of answer, not for each
    /// question.
    fn wait<T>(
        &self,
        runtime: &Runtime,
        work: LocalBoxFuture<'_, Result<T, StorageError>>,
    ) -> Result<T, StorageError> {
        runtime.block_on(async {
            tokio::select! {
                biased;
                done = work => done,
                () = self.stop.cancelled() => {
                    Err(unanswered())
                }
            }
        })
    }

    async fn connect(&self) -> Result<Open, StorageError> {
        // Read again, since the file of the address may have a new password.
        let Settings { address, schema, instance, handouts: configured, .. } = Settings::read(&self.config)?;
        let settings = SessionSettings {
            sql: SETTINGS,
            connect_timeout: self.timeout,
            answer_timeout: self.timeout + ANSWER_MARGIN,
            row_max: ROW_MAX,
            answer_max: ANSWER_MAX,
        };
        let mut session = Session::open(&address, &settings).await?;
        schema::select(&mut session, &schema).await?;
        // Other instances may run with other settings than configured here.
        let settings = settle::read(&mut session).await?.unwrap_or(configured);
        Ok(Open { session, instance, settings })
    }

    fn time_limit(&self) -> String {
        format!("SET LOCAL statement_timeout = {};", self.timeout.as_millis().max(1))
    }
}

impl Maintenance for PostgresInspector {
    fn questions(&mut self, _is_asked: IsAsked) -> Result<Answering<'_>, StorageError> {
        Ok(Answering::Kept(self))
    }

    fn record_pause(&mut self, pause: Option<PauseSpan>) -> Result<(), StorageError> {
        let until = pause.map(|pause| pause.until_ms.map(|until| until.to_string()).unwrap_or_default());
        self.run(async |Open { session, .. }| {
            session
                .query(
                    "recording the pause",
                    "WITH resumed AS (DELETE FROM property WHERE name = 'paused' AND $1::text IS NULL)
                     INSERT INTO property SELECT 'paused', $1 WHERE $1 IS NOT NULL
                     ON CONFLICT (name) DO UPDATE SET value = excluded.value",
                    vec![Box::new(until)],
                )
                .await?;
            Ok(())
        })
    }

    fn adopt(&mut self, fetcher: &str) -> Result<Adopted, StorageError> {
        const ACTION: &str = "moving a fetcher";
        let begin = format!("BEGIN; {}", self.time_limit());
        self.run(async |Open { session, instance: to, .. }| {
            session.batch(ACTION, &begin).await?;
            let params: Params<'_> = vec![Box::new(to.clone()), Box::new(fetcher)];
            let rows = session.query(ACTION, "SELECT adopt_fetcher($1, $2)", params).await?;
            session.batch(ACTION, "COMMIT").await?;
            Ok(Adopted { fetcher: fetcher.to_owned(), from: first(&rows)?, to: to.clone() })
        })
    }

    fn shared_pause(&mut self) -> Result<Option<PauseSpan>, StorageError> {
        self.ask("reading the pause", async |question| {
            let sql = "SELECT value FROM property WHERE name = 'paused' AND is_paused()";
            let read =
                |row: &Row| get::<String>(row, 0).map(|until| PauseSpan { until_ms: until.parse().ok() });
            Ok(question.rows(sql, vec![], read).await?.into_iter().next())
        })
    }
}

impl Questions for PostgresInspector {
    fn runs(&mut self) -> Result<Vec<RunCount>, StorageError> {
        self.answer(&questions::runs())
    }

    fn peek(
        &mut self,
        pattern: Option<&Pattern>,
        now: i64,
        limit: usize,
    ) -> Result<Vec<Peeked>, StorageError> {
        self.ask("reading the next jobs", async |question| peek::peek(question, pattern, now, limit).await)
    }

    fn counts(&mut self) -> Result<Counts, StorageError> {
        let query = questions::counts();
        self.ask(query.action, async |question| question.single(&query).await)
    }

    fn attr(&mut self, attr_path: &str, now: i64, limit: usize) -> Result<AttrReport, StorageError> {
        self.ask("reading the state of a path", async |question| {
            attr::attr(question, attr_path, now, limit).await
        })
    }

    fn in_flight(&mut self, pattern: Option<&Pattern>, limit: usize) -> Result<Vec<Attempt>, StorageError> {
        self.answer(&questions::in_flight(pattern, limit))
    }

    fn failed(&mut self, which: &FailedAttempts) -> Result<Vec<Attempt>, StorageError> {
        self.answer(&questions::failed(which))
    }

    fn failures(&mut self, after: i64, limit: usize) -> Result<Vec<FailedJob>, StorageError> {
        let time_limit = self.time_limit();
        self.run(async |Open { session, .. }| failures::number(session, &time_limit).await)?;
        self.answer(&questions::failures(after, limit))
    }

    fn stale(&mut self, before: i64, limit: usize) -> Result<Vec<StaleGroup>, StorageError> {
        self.answer(&questions::stale(before, limit))
    }

    fn instances(&mut self) -> Result<Vec<InstanceRow>, StorageError> {
        self.ask("reading the instances", counts::instances)
    }

    fn neighbors(&mut self, attr_path: &str) -> Result<Vec<String>, StorageError> {
        self.answer(&questions::neighbors(attr_path))
    }

    fn last_runs(&mut self) -> Result<Vec<(String, i64)>, StorageError> {
        self.answer(&questions::last_runs())
    }

    fn sample(&mut self, now: i64) -> Result<Sample, StorageError> {
        self.ask("counting for the metrics", async |question| counts::sample(question, now).await)
    }

    fn listing(&mut self, now: i64) -> Result<Listing, StorageError> {
        self.ask("reading the groups", async |question| listing::listing(question, now).await)
    }
}
