//! Operations of a batch.

use std::time::{Duration, Instant};

use orchestrator_edge::postgres::PostgresError;
use orchestrator_queue_rules::storage::{
    BUMPS_MAX, Bumped, Delivery, Entry, Finished, HandoutId, HandoutSettings, Job, JobFilter, LogRow,
    OfferEnd, OfferState, OfferedJob, Operation, Outcome, Requeued, RequeuedSlice, RunId, StorageError,
    UNSENT_BYTES_MAX,
};
use orchestrator_text::sanitize;

use super::{
    scan_start::FIRST_KEY,
    session::{OPERATION_TIME_SQL, first_column, get, single},
    store::PostgresStore,
    texts::is_storable,
};

/// Number of log rows that are read at once when jobs are requeued.
const REQUEUE_ROWS: i64 = 64;

impl PostgresStore {
    /// Records the deliveries of a batch and returns those that changed something.
    pub(super) fn record_deliveries(&mut self, batch: &[Operation<'_>]) -> Result<Vec<i64>, StorageError> {
        let ids: Vec<i64> = batch
            .iter()
            .filter_map(|operation| match operation {
                Operation::Delivered(handout) => Some(handout.0),
                _ => None,
            })
            .collect();
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let redeliver = self.settings.handouts.redeliver_after_lease;
        let rows = self.query(
            "recording deliveries",
            "SELECT record_deliveries($1, $2)",
            vec![Box::new(ids), Box::new(redeliver)],
        )?;
        first_column(&rows)
    }

    /// A hand-out of a former process whose delivery is recorded is final, unless it is handed out again
    /// after its hold.
    pub(super) fn undo(&mut self, handout: HandoutId) -> Result<bool, StorageError> {
        let rows = self.query(
            "undoing a hand-out",
            Delivery::in_sql(
                "SELECT undo_handouts(ARRAY(
                     SELECT handout_id FROM in_flight WHERE handout_id = $1 AND (handout_id >= $2 OR delivered < $final)))",
            ),
            vec![Box::new(handout.0), Box::new(self.incarnation << 32)],
        )?;
        Ok(single::<i64>(&rows)? == 1)
    }

    pub(super) fn requeue(&mut self, attr_path: &str, now: i64) -> Result<Requeued, StorageError> {
        let at = self.at(now);
        let rows = self.query(
            "requeuing",
            format!("SELECT changed, was_in_flight FROM requeue($2, {OPERATION_TIME_SQL})"),
            vec![Box::new(at), Box::new(attr_path)],
        )?;
        let Some(row) = rows.first() else { return Ok(Requeued { rows: 0, was_in_flight: false }) };
        let changed: i64 = get(row, 0)?;
        Ok(Requeued { rows: usize::try_from(changed).unwrap_or_default(), was_in_flight: get(row, 1)? })
    }

    pub(super) fn requeue_slice(
        &mut self,
        filter: &JobFilter,
        from: &str,
        budget: Duration,
        now: i64,
    ) -> Result<RequeuedSlice, StorageError> {
        let deadline = Instant::now() + budget;
        let (mut from, mut jobs) = (from.to_owned(), 0);
        // A text has no NUL: behind a path is what follows the path with one.
        let mut condition = if from.ends_with('\0') { ">" } else { ">=" };
        loop {
            let rows = self.query(
                "requeuing jobs",
                format!(
                    "SELECT attr_path, started, finished, exit_code FROM log WHERE attr_path {condition} $1
                     ORDER BY attr_path LIMIT $2"
                ),
                vec![Box::new(from.trim_end_matches('\0').to_owned()), Box::new(REQUEUE_ROWS)],
            )?;
            if rows.is_empty() {
                return Ok(RequeuedSlice { jobs, next: None });
            }
            for row in rows {
                let attr_path: String = get(&row, 0)?;
                let log =
                    LogRow { started: get(&row, 1)?, finished: get(&row, 2)?, exit_code: get(&row, 3)? };
                if filter.selects(&attr_path, &log) {
                    let Requeued { rows, was_in_flight } = self.requeue(&attr_path, now)?;
                    jobs += u64::from(rows > 0 || was_in_flight);
                }
                from = attr_path + "\0";
                condition = ">";
                if Instant::now() >= deadline {
                    return Ok(RequeuedSlice { jobs, next: Some(from) });
                }
            }
        }
    }

    pub(super) fn bump(&mut self, attr_path: &str) -> Result<Bumped, StorageError> {
        let rows = self.query(
            "bumping a job",
            "SELECT bump_path($1, $2)",
            vec![Box::new(attr_path), Box::new(i64::try_from(BUMPS_MAX).unwrap_or(i64::MAX))],
        )?;
        Ok(match single::<String>(&rows)?.as_str() {
            "done" => Bumped::Done,
            "too many" => Bumped::TooMany,
            _ => Bumped::NothingWaits,
        })
    }

    pub(super) fn offer(
        &mut self,
        job: &OfferedJob,
        payload: &str,
        now: i64,
    ) -> Result<OfferState, StorageError> {
        let (at, instance) = (self.at(now), self.settings.instance.clone());
        let rows = self.query(
            "adding an offered job",
            format!("SELECT exit_code, seconds FROM offer_job($2, $3, $4, $5, $6, $7, {OPERATION_TIME_SQL})"),
            vec![
                Box::new(at),
                Box::new(instance),
                Box::new(job.owner()),
                Box::new(job.attr_path()),
                Box::new(orchestrator_queue_rules::jitter::jitter_hash(job.attr_path())),
                Box::new(payload),
                Box::new(job.claim()),
            ],
        )?;
        Ok(match rows.first() {
            Some(row) => OfferState::Finished(OfferEnd { exit_code: get(row, 0)?, seconds: get(row, 1)? }),
            None => OfferState::Open,
        })
    }

    pub(super) fn withdraw(&mut self, job: &OfferedJob) -> Result<bool, StorageError> {
        let instance = self.settings.instance.clone();
        let rows = self.query(
            "withdrawing a job",
            "SELECT withdraw_job($1, $2, $3, $4)",
            vec![Box::new(instance), Box::new(job.owner()), Box::new(job.attr_path()), Box::new(job.claim())],
        )?;
        single(&rows)
    }

    /// Lets a job that was handed out under the claim `former` go on under its new claim.
    pub(super) fn continue_job(&mut self, job: &OfferedJob, former: &str) -> Result<(), StorageError> {
        let (instance, former) = (self.settings.instance.clone(), former.to_owned());
        self.query(
            "adding an offered job",
            "UPDATE offer AS o SET claim = $5 FROM fetcher AS f
             WHERE f.instance = $1 AND f.name = $2 AND o.fetcher_id = f.fetcher_id AND o.attr_path = $3 AND o.claim = $4 AND o.state > 0",
            vec![
                Box::new(instance),
                Box::new(job.owner()),
                Box::new(job.attr_path()),
                Box::new(former),
                Box::new(job.claim()),
            ],
        )?;
        Ok(())
    }

    /// Removes a job unless a worker has it or has ended it. Returns true if nobody has it.
    pub(super) fn take_back(&mut self, job: &OfferedJob) -> Result<bool, StorageError> {
        let instance = self.settings.instance.clone();
        let handed_out = self.query(
            "withdrawing a job",
            "SELECT 1 FROM offer AS o JOIN fetcher AS f USING (fetcher_id)
             WHERE f.instance = $1 AND f.name = $2 AND o.attr_path = $3 AND o.claim = $4 AND o.state > 0",
            vec![Box::new(instance), Box::new(job.owner()), Box::new(job.attr_path()), Box::new(job.claim())],
        )?;
        if handed_out.is_empty() {
            self.withdraw(job)?;
        }
        Ok(handed_out.is_empty())
    }

    /// Stores entries of a run, and skips those whose values the server refuses. Returns false if the run is
    /// not known.
    ///
    /// # Errors
    /// Also at the first refusal: the transaction is over.
    pub(super) fn ingest(
        &mut self,
        fetcher: i64,
        run: &RunId,
        entries: &[&Entry],
    ) -> Result<bool, StorageError> {
        if self.is_refused {
            self.savepoint("SAVEPOINT entries")?;
        }
        let paths: Vec<&str> = entries.iter().map(|entry| entry.attr_path.as_str()).collect();
        let payloads: Vec<&str> = entries.iter().map(|entry| entry.payload.as_str()).collect();
        let jitters: Vec<i32> = entries.iter().map(|entry| entry.order_jitter).collect();
        let stored = self.query(
            "storing entries",
            "SELECT ingest($1, $2, $3, $4, $5)",
            vec![
                Box::new(fetcher),
                Box::new(run.started),
                Box::new(paths),
                Box::new(payloads),
                Box::new(jitters),
            ],
        );
        let error = match stored {
            Ok(rows) => return single(&rows),
            Err(error) if error.source_as().is_some_and(PostgresError::is_invalid_data) => error,
            Err(error) => return Err(error),
        };
        if !std::mem::replace(&mut self.is_refused, true) {
            return Err(error);
        }
        self.savepoint("ROLLBACK TO SAVEPOINT entries")?;
        let (left, right) = entries.split_at(entries.len() / 2);
        if let ([], [entry]) = (left, right) {
            let attr_path = sanitize(&entry.attr_path);
            let error = error.source.as_ref().map(tracing::field::display);
            tracing::warn!(attr_path, error, "skipped a line that the database refuses");
            self.skipped += 1;
            return Ok(true);
        }
        Ok(self.ingest(fetcher, run, left)? && self.ingest(fetcher, run, right)?)
    }

    /// Records the ends of jobs of a batch.
    pub(super) fn end_jobs(
        &mut self,
        batch: &[Operation<'_>],
        now: i64,
        outcomes: &mut [Outcome],
    ) -> Result<(), StorageError> {
        let (mut positions, mut paths, mut codes) = (Vec::new(), Vec::new(), Vec::new());
        for (position, operation) in batch.iter().enumerate() {
            if let Operation::Worker { done: Some((attr_path, code)), .. } = operation
                && is_storable(attr_path, "")
            {
                positions.push(position);
                paths.push(*attr_path);
                codes.push(*code);
            }
        }
        if paths.is_empty() {
            return Ok(());
        }
        let at = self.at(now);
        let rows = self.query(
            "recording the ends of jobs",
            format!("SELECT number, seconds, owner, claim FROM end_jobs($2, $3, {OPERATION_TIME_SQL})"),
            vec![Box::new(at), Box::new(paths.clone()), Box::new(codes)],
        )?;
        for row in &rows {
            let at = usize::try_from(get::<i64>(row, 0)? - 1).unwrap_or(usize::MAX);
            let (Some(position), Some(attr_path)) = (positions.get(at), paths.get(at)) else { continue };
            let Some(Outcome::Worker { finished, .. }) = outcomes.get_mut(*position) else { continue };
            match (get::<Option<i64>>(row, 1)?, finished) {
                (Some(seconds), finished) => *finished = Some(Finished { seconds, offered: None }),
                (None, Some(finished)) => {
                    let (owner, claim): (String, String) = (get(row, 2)?, get(row, 3)?);
                    // Attribute paths of offers are encoded already, so that encoding would change them.
                    finished.offered = Some(OfferedJob::new(owner, *attr_path, claim));
                }
                (None, None) => {}
            }
        }
        Ok(())
    }

    /// Hands out jobs to the workers of a batch, in order.
    pub(super) fn hand_out(
        &mut self,
        batch: &[Operation<'_>],
        unsent: u64,
        now: i64,
        outcomes: &mut [Outcome],
    ) -> Result<(), StorageError> {
        let (mut positions, mut connections) = (Vec::new(), Vec::new());
        for (position, operation) in batch.iter().enumerate() {
            if let Operation::Worker { connection: Some(connection), .. } = operation {
                positions.push(position);
                connections.push(*connection);
            }
        }
        if connections.is_empty() {
            return Ok(());
        }
        let (at, first_id) = (self.at(now), self.next_handout);
        self.transaction_from = self.transaction_from.or(Some(first_id));
        let wanted = connections.len();
        let (lowered_to, begun) = (self.scan_start.lowered_to(now), Instant::now());
        let HandoutSettings { hold_secs, attempts, .. } = self.settings.handouts;
        let rows = self.query(
            "handing out jobs",
            format!("SELECT handout_id, attr_path, payload FROM hand_out($2, $3, {OPERATION_TIME_SQL}, $4, $5, $6, $7, $8)"),
            vec![
                Box::new(at),
                Box::new(connections),
                Box::new(first_id),
                Box::new(hold_secs),
                Box::new(attempts > 0),
                Box::new(lowered_to.map(Vec::from)),
                Box::new(i64::try_from(unsent).unwrap_or(i64::MAX)),
                Box::new(i64::try_from(UNSENT_BYTES_MAX).unwrap_or(i64::MAX)),
            ],
        )?;
        // Seconds that the caller gives do not pass while the server works.
        if lowered_to == Some(FIRST_KEY) && !self.settings.given_times {
            self.scan_start.record_full_scan(begun.elapsed());
        }
        let mut jobs = Vec::with_capacity(rows.len());
        for row in &rows {
            jobs.push(get::<Option<i64>>(row, 0)?.map(HandoutId));
        }
        let has_room = !jobs.contains(&None);
        self.record_found(rows.len() == wanted || !has_room, now)?;
        let mut positions = positions.into_iter();
        for (row, handout) in rows.iter().zip(jobs) {
            let Some(handout) = handout else { break };
            let Some(position) = positions.next() else { break };
            self.next_handout = handout.0 + 1;
            if let Some(Outcome::Worker { job, .. }) = outcomes.get_mut(position) {
                *job = Some(Job { attr_path: get(row, 1)?, payload: get(row, 2)?, handout });
            }
        }
        for position in positions.filter(|_| !has_room) {
            if let Some(outcome) = outcomes.get_mut(position)
                && let Outcome::Worker { finished, .. } = outcome
            {
                *outcome = Outcome::NoRoom { finished: finished.take() };
            }
        }
        Ok(())
    }

    /// Records at `now` whether a hand-out has found a job for each worker, and asks others for notifications
    /// while it does not.
    fn record_found(&mut self, is_each: bool, now: i64) -> Result<(), StorageError> {
        if self.scan_start.is_waiting == is_each {
            let change = if is_each { "pg_advisory_unlock_shared" } else { "pg_try_advisory_lock_shared" };
            let changed =
                self.query("waiting for jobs", format!("SELECT {change}(waiting_lock())"), vec![])?;
            // Rows that were added before the lock come without a notification.
            self.scan_start.is_waiting = single::<bool>(&changed)? && !is_each;
        } else if !is_each {
            self.scan_start.nothing_at = Some(now);
        }
        Ok(())
    }
}
