//! Trait of the answers to operators' questions.

use crate::{
    listing::Listing,
    storage::{
        Attempt, AttrReport, Counts, FailedAttempts, FailedJob, InstanceRow, Pattern, Peeked, RunCount,
        Sample, StaleGroup, StorageError,
    },
};

/// Questions of operators about the queue. Each sees one snapshot, and fails once it takes longer than the
/// inspector's time limit.
///
/// An answer is cut at 1 MiB of texts, the listing at 64 MiB. Times are in unix seconds; `now` is the time of
/// the question.
pub(crate) trait Inspect {
    /// Returns the runs with the numbers of their rows and waiting jobs.
    fn runs(&mut self) -> Result<Vec<RunCount>, StorageError>;

    /// Returns the next `limit` jobs of a pattern in the order of hand-outs at `now`, as if none ended
    /// meanwhile.
    fn peek(
        &mut self,
        pattern: Option<&Pattern>,
        now: i64,
        limit: usize,
    ) -> Result<Vec<Peeked>, StorageError>;

    /// Returns the totals of the database.
    fn counts(&mut self) -> Result<Counts, StorageError>;

    /// Returns the state of an attribute path at `now` with up to `limit` attempts.
    fn attr(&mut self, attr_path: &str, now: i64, limit: usize) -> Result<AttrReport, StorageError>;

    /// Returns the `limit` jobs of a pattern in flight that were handed out first.
    fn in_flight(&mut self, pattern: Option<&Pattern>, limit: usize) -> Result<Vec<Attempt>, StorageError>;

    /// Returns the latest failed attempts, newest first.
    fn failed(&mut self, which: &FailedAttempts) -> Result<Vec<Attempt>, StorageError>;

    /// Returns up to `limit` failed jobs with numbers above `after`, oldest first. A job that is read later
    /// has a larger number.
    fn failures(&mut self, after: i64, limit: usize) -> Result<Vec<FailedJob>, StorageError>;

    /// Returns up to `limit` groups that were last handed out before `before`. Then those that were never
    /// handed out although their run was added before that time.
    fn stale(&mut self, before: i64, limit: usize) -> Result<Vec<StaleGroup>, StorageError>;

    /// Returns the instances that share the queue; none if it is one process's.
    fn instances(&mut self) -> Result<Vec<InstanceRow>, StorageError> {
        Ok(Vec::new())
    }

    /// Returns for each fetcher the time at which its last run was added.
    fn last_runs(&mut self) -> Result<Vec<(String, i64)>, StorageError>;

    /// Returns totals at `now` for the metrics.
    fn sample(&mut self, now: i64) -> Result<Sample, StorageError>;

    /// Returns the groups of the queue at `now`, up to 200,000 of them.
    fn listing(&mut self, now: i64) -> Result<Listing, StorageError>;
}
