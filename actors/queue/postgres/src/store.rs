//! The store: one session that writes, driven by the thread that owns it.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use orchestrator_edge::postgres::Row;
use orchestrator_queue_rules::storage::{
    Batch, Deletion, Operation, Outcome, RunId, RunState, Storage, StorageError, Upsert,
};
use orchestrator_supervise::StopToken;
use tokio::runtime::Runtime;

use super::{
    error::other_instance,
    lease::OwnIncarnation,
    scan_start::{AddedKeys, ScanStart},
    server_session::Session,
    session::{OPERATION_TIME_SQL, Transaction, first, get, single},
    settings::{Settings, runtime},
    texts::{self, is_storable},
};

/// Maximum number of rows, and size of their payloads in bytes, in one statement of ingest.
const INGEST_ROWS: usize = 500;
const INGEST_BYTES: usize = 1 << 20;
/// Maximum number of rows that one statement of a deletion removes.
const DELETE_ROWS: i32 = 500;
/// Time for which an end that nobody asked for is kept, in seconds.
const OFFER_KEPT_SECS: i64 = 7 * 86_400;

/// Storage of the queue in a PostgreSQL schema, used from one thread.
#[derive(Debug)]
pub struct PostgresStore {
    pub(super) settings: Settings,
    pub(super) stop: StopToken,
    pub(super) runtime: Runtime,
    /// None after it was lost.
    pub(super) session: Option<Session>,
    pub(super) transaction: Transaction,
    /// Time at which the session asks for the lock of the instance again; None if it has it.
    pub(super) locks_at: Option<Instant>,
    pub(super) scan_start: ScanStart,
    pub(super) incarnation: i64,
    pub(super) next_handout: i64,
    /// First hand-out of the open transaction, or of the one that a lost session had.
    pub(super) transaction_from: Option<i64>,
    /// First hand-out of transactions whose ends are not known.
    pub(super) unknown_from: Option<i64>,
    /// Fetcher whose deleted runs are waited for.
    urgent: Option<String>,
    /// True if the server has refused the values of an entry: the batch is stored in savepoints.
    pub(super) is_refused: bool,
    /// Number of entries of the transaction that cannot be stored.
    pub(super) skipped: u64,
}

impl PostgresStore {
    /// Connects, creates the tables if there are none, and takes the instance.
    ///
    /// # Errors
    /// Of the server; also while another process has the instance. `StorageErrorKind::Unfinished`.
    pub fn open(
        settings: Settings,
        incarnation: &OwnIncarnation,
        added: AddedKeys,
        stop: StopToken,
    ) -> Result<Self, StorageError> {
        // A lease that is renewed meanwhile would refuse this process, too.
        incarnation.store(0, Relaxed);
        let runtime = runtime()?;
        let mut store = Self {
            settings,
            stop,
            runtime,
            session: None,
            transaction: Transaction::None,
            locks_at: None,
            scan_start: ScanStart::new(added),
            incarnation: 0,
            next_handout: 0,
            transaction_from: None,
            unknown_from: None,
            urgent: None,
            is_refused: false,
            skipped: 0,
        };
        store.connect()?;
        store.incarnation = store.take_instance()?;
        store.next_handout = store.incarnation << 32;
        incarnation.store(store.incarnation, Relaxed);
        store.agree_on_settings()?;
        Ok(store)
    }

    pub(super) fn at(&self, now: i64) -> Option<i64> {
        self.settings.given_times.then_some(now)
    }
}

impl Storage for PostgresStore {
    /// The first statement begins it, so that workers who wait for nothing cost none.
    fn begin(&mut self) -> Result<(), StorageError> {
        self.transaction = Transaction::Asked;
        Ok(())
    }

    fn commit(&mut self) -> Result<(), StorageError> {
        self.end_with_commit()
    }

    fn rollback(&mut self) -> Result<(), StorageError> {
        self.roll_back();
        Ok(())
    }

    fn known_runs(&mut self) -> Result<Vec<RunState>, StorageError> {
        let rows = self.query(
            "listing the runs",
            "SELECT f.name, r.run_started, r.is_complete FROM run AS r JOIN fetcher AS f USING (fetcher_id)
             WHERE f.instance = $1 AND strpos(f.name, '.') = 0 AND NOT r.is_deleted",
            vec![Box::new(self.settings.instance.clone())],
        )?;
        let state = |row: &Row| {
            let run = RunId { fetcher: get(row, 0)?, started: get(row, 1)? };
            Ok(RunState { run, complete: get(row, 2)? })
        };
        rows.iter().map(state).collect()
    }

    fn upsert_run(&mut self, run: &RunId, complete: bool) -> Result<Upsert, StorageError> {
        let instance = self.settings.instance.clone();
        let rows = self.query(
            "adding a run",
            "SELECT upsert_run($1, $2, $3, $4, floor(extract(epoch FROM clock_timestamp()))::bigint)",
            vec![
                Box::new(instance),
                Box::new(run.fetcher.as_str()),
                Box::new(run.started),
                Box::new(complete),
            ],
        )?;
        match single::<String>(&rows)?.as_str() {
            "done" => Ok(Upsert::Done),
            "pending" => {
                self.urgent = Some(run.fetcher.clone());
                Ok(Upsert::Pending)
            }
            other => Err(other_instance(&run.fetcher, other, &self.settings.instance)),
        }
    }

    fn enqueue(
        &mut self,
        run: &RunId,
        batch: &Batch,
        from: usize,
        deadline: Option<Instant>,
    ) -> Result<usize, StorageError> {
        let unknown = || StorageError::unknown_run(&run.fetcher, run.started);
        let rows = self.query(
            "storing entries",
            "SELECT fetcher_id FROM fetcher WHERE name = $1 AND instance = $2",
            vec![Box::new(run.fetcher.as_str()), Box::new(self.settings.instance.clone())],
        )?;
        let fetcher: i64 = first(&rows)?.ok_or_else(unknown)?;
        let mut reached = from;
        loop {
            let (mut entries, mut bytes) = (Vec::new(), 0);
            for entry in batch.entries_from(reached) {
                if entries.len() == INGEST_ROWS || bytes > INGEST_BYTES {
                    break;
                }
                reached += 1;
                if !is_storable(&entry.attr_path, &entry.payload) {
                    texts::warn_skipped(&entry.attr_path);
                    self.skipped += 1;
                    continue;
                }
                bytes += entry.attr_path.len() + entry.payload.len();
                entries.push(entry);
            }
            if !self.ingest(fetcher, run, &entries)? {
                return Err(unknown());
            }
            // Each statement takes its locks in the order of paths: several in one transaction could wait for
            // another instance that waits.
            if reached >= batch.len() || deadline.is_some() {
                self.is_refused &= reached < batch.len();
                return Ok(reached);
            }
        }
    }

    fn take_skipped(&mut self) -> u64 {
        std::mem::take(&mut self.skipped)
    }

    fn mark_deleted(&mut self, run: &RunId) -> Result<bool, StorageError> {
        let rows = self.query(
            "deleting a run",
            "UPDATE run AS r SET is_deleted = true FROM fetcher AS f
             WHERE f.fetcher_id = r.fetcher_id AND f.name = $1 AND f.instance = $2 AND r.run_started = $3 AND NOT r.is_deleted
             RETURNING 1::bigint",
            vec![
                Box::new(run.fetcher.as_str()),
                Box::new(self.settings.instance.clone()),
                Box::new(run.started),
            ],
        )?;
        Ok(!rows.is_empty())
    }

    /// Runs one statement, which takes longer than most slices.
    fn delete_slice(&mut self, _may_continue: &dyn Fn() -> bool) -> Result<Deletion, StorageError> {
        let rows = self.query(
            "removing rows of a deleted run",
            "SELECT r.fetcher_id, r.run_started, f.name FROM run AS r JOIN fetcher AS f USING (fetcher_id)
             WHERE f.instance = $1 AND r.is_deleted
             ORDER BY (f.name = $2) DESC NULLS LAST, r.fetcher_id, r.run_started LIMIT 1",
            vec![Box::new(self.settings.instance.clone()), Box::new(self.urgent.clone())],
        )?;
        let Some(found) = rows.first() else {
            self.urgent = None;
            return Ok(Deletion::Idle);
        };
        let (fetcher, run): (i64, RunId) =
            (get(found, 0)?, RunId { fetcher: get(found, 2)?, started: get(found, 1)? });
        let rows = self.query(
            "removing rows of a deleted run",
            "SELECT delete_rows($1, $2, $3)",
            vec![Box::new(fetcher), Box::new(run.started), Box::new(DELETE_ROWS)],
        )?;
        Ok(if single::<i64>(&rows)? == 0 { Deletion::Finished(run) } else { Deletion::More })
    }

    /// Carries out the ends of jobs after all other operations, and the hand-outs after them.
    fn serve(
        &mut self,
        batch: &[Operation<'_>],
        unsent: u64,
        now: i64,
    ) -> Result<Vec<Outcome>, StorageError> {
        if self.scan_start.is_nothing_left(batch, now) {
            return Ok(vec![Outcome::Worker { finished: None, job: None }; batch.len()]);
        }
        let delivered = self.record_deliveries(batch)?;
        let mut outcomes = Vec::with_capacity(batch.len());
        for operation in batch {
            outcomes.push(match *operation {
                Operation::Worker { .. } => Outcome::Worker { finished: None, job: None },
                Operation::Delivered(handout) => Outcome::Changed(delivered.contains(&handout.0)),
                Operation::Undo(handout) => Outcome::Changed(self.undo(handout)?),
                Operation::Requeue(attr_path) => Outcome::Requeued(self.requeue(attr_path, now)?),
                Operation::RequeueSlice { filter, from, budget } => {
                    Outcome::RequeuedSlice(self.requeue_slice(filter, from, budget, now)?)
                }
                Operation::Bump(attr_path) => Outcome::Bumped(self.bump(attr_path)?),
                Operation::Offer { job, former, payload } => {
                    former.map_or(Ok(()), |former| self.continue_job(job, former))?;
                    Outcome::Offered(self.offer(job, payload, now)?)
                }
                Operation::Withdraw(job) => Outcome::Changed(self.withdraw(job)?),
                Operation::TakeBack(job) => Outcome::Changed(self.take_back(job)?),
            });
        }
        self.end_jobs(batch, now, &mut outcomes)?;
        self.hand_out(batch, unsent, now, &mut outcomes)?;
        Ok(outcomes)
    }

    fn undo_undelivered(&mut self) -> Result<usize, StorageError> {
        let instance = self.settings.instance.clone();
        let rows = self.query(
            "undoing hand-outs",
            "SELECT undo_handouts(undelivered($1))",
            vec![Box::new(instance.clone())],
        )?;
        let undone: i64 = single(&rows)?;
        self.query(
            "undoing hand-outs",
            "DELETE FROM bump WHERE handout_id >> 32 IN (SELECT i.incarnation FROM incarnation AS i WHERE i.instance = $1)",
            vec![Box::new(instance)],
        )?;
        Ok(usize::try_from(undone).unwrap_or_default())
    }

    fn withdraw_waiting(&mut self, now: i64) -> Result<usize, StorageError> {
        let (at, instance) = (self.at(now), self.settings.instance.clone());
        let rows = self.query(
            "withdrawing jobs",
            format!("SELECT withdraw_waiting($2, {OPERATION_TIME_SQL} - {OFFER_KEPT_SECS})"),
            vec![Box::new(at), Box::new(instance)],
        )?;
        Ok(usize::try_from(single::<i64>(&rows)?).unwrap_or_default())
    }
}
