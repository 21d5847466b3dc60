//! Operations of a batch, one after the other.

use super::SqliteStore;
use crate::attempts::Recipient;
use crate::{attr, dequeue, failures, handout, offers, requeue};
use orchestrator_queue_rules::{
    protocol::ATTR_PATH_BYTES_MAX,
    storage::{Bumped, Finished, HandedOut, HandoutId, OfferEnd, Operation, Outcome, StorageError},
};

impl SqliteStore {
    /// Carries out one operation in the open transaction.
    pub(super) fn carry_out(
        &mut self,
        operation: Operation<'_>,
        unsent: u64,
        now: i64,
    ) -> Result<Outcome, StorageError> {
        match operation {
            Operation::Worker { done, connection } => {
                let finished = match done {
                    Some((attr_path, exit_code)) => self.end_job(attr_path, exit_code, now)?,
                    None => None,
                };
                let Some(connection) = connection else { return Ok(Outcome::Worker { finished, job: None }) };
                Ok(match self.hand_out(connection, unsent, now)? {
                    HandedOut::Job(job) => Outcome::Worker { finished, job: Some(job) },
                    HandedOut::Nothing => Outcome::Worker { finished, job: None },
                    HandedOut::NoRoom => Outcome::NoRoom { finished },
                })
            }
            Operation::Delivered(handout) => self
                .run("recording a delivery", |conn, view, options| {
                    handout::delivered(conn, view, handout, options.redeliver_after_lease)
                })
                .map(Outcome::Changed),
            Operation::Undo(handout) => self
                .run("undoing a hand-out", |conn, view, _| handout::undo(conn, view, handout))
                .map(Outcome::Changed),
            Operation::Requeue(attr_path) => self
                .run("requeuing", |conn, view, _| requeue::path(conn, view, attr_path, now))
                .map(Outcome::Requeued),
            Operation::RequeueSlice { filter, from, budget } => self
                .run("requeuing jobs", |conn, view, _| {
                    requeue::slice(conn, view, filter, from, (budget, now))
                })
                .map(Outcome::RequeuedSlice),
            Operation::Bump(attr_path) => self.bump_path(attr_path).map(Outcome::Bumped),
            Operation::Offer { job, former, payload } => self
                .run("adding an offered job", |conn, view, _| offers::offer(conn, view, job, former, payload))
                .map(Outcome::Offered),
            Operation::Withdraw(job) => self
                .run("withdrawing a job", |conn, view, _| offers::withdraw(conn, view, job))
                .map(Outcome::Changed),
            Operation::TakeBack(job) => self
                .run("withdrawing a job", |conn, view, _| offers::take_back(conn, view, job))
                .map(Outcome::Changed),
        }
    }

    fn hand_out(&mut self, connection: &str, unsent: u64, now: i64) -> Result<HandedOut, StorageError> {
        let handout = HandoutId(self.next_handout);
        self.next_handout += 1;
        let to = Recipient { handout, connection, now, unsent };
        self.run("dequeuing", |conn, view, options| dequeue::next(conn, view, options, to))
    }

    fn end_job(
        &mut self,
        attr_path: &str,
        exit_code: i64,
        now: i64,
    ) -> Result<Option<Finished>, StorageError> {
        let first_failure = self.first_failure;
        self.run("recording the end of a job", |conn, view, _| {
            let before = attr::load(conn, view, attr_path)?;
            let mut after = before.clone();
            let Some(started) = after.finish(exit_code, now) else { return Ok(None) };
            attr::save(conn, view, attr_path, &before, &after)?;
            handout::done(conn, view, attr_path)?;
            if exit_code != 0 {
                failures::add(conn, first_failure, attr_path, (started, now), exit_code)?;
            }
            let seconds = now.saturating_sub(started);
            let offered = if view.runs.has_owners() {
                offers::finish(conn, view, attr_path, OfferEnd { exit_code, seconds }, now)?
            } else {
                None
            };
            Ok(Some(Finished { seconds, offered }))
        })
    }

    fn bump_path(&mut self, attr_path: &str) -> Result<Bumped, StorageError> {
        self.run("bumping a job", |conn, view, _| {
            let waits = !attr::load(conn, view, attr_path)?.positions().is_empty();
            if !waits || attr_path.len() > ATTR_PATH_BYTES_MAX {
                return Ok(Bumped::NothingWaits);
            }
            Ok(if view.bumps.add(conn, attr_path)? { Bumped::Done } else { Bumped::TooMany })
        })
    }
}
