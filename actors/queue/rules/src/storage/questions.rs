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
pub trait Questions {
    /// Runs with the numbers of their rows, also those that are being deleted.
    fn runs(&mut self) -> Result<Vec<RunCount>, StorageError>;

    /// Next jobs in the order of hand-outs at `now`, as if none ended meanwhile.
    fn peek(
        &mut self,
        pattern: Option<&Pattern>,
        now: i64,
        limit: usize,
    ) -> Result<Vec<Peeked>, StorageError>;

    /// Totals of the database.
    fn counts(&mut self) -> Result<Counts, StorageError>;

    /// Has up to `limit` attempts.
    fn attr(&mut self, attr_path: &str, now: i64, limit: usize) -> Result<AttrReport, StorageError>;

    /// At most `limit` jobs, those handed out first.
    fn in_flight(&mut self, pattern: Option<&Pattern>, limit: usize) -> Result<Vec<Attempt>, StorageError>;

    /// Newest first.
    fn failed(&mut self, which: &FailedAttempts) -> Result<Vec<Attempt>, StorageError>;

    /// Oldest first, with numbers above `after`. A job that is read later has a larger number.
    fn failures(&mut self, after: i64, limit: usize) -> Result<Vec<FailedJob>, StorageError>;

    /// Up to `limit` groups: first those last handed out before `before`, then those never handed out whose
    /// run was added before that time.
    fn stale(&mut self, before: i64, limit: usize) -> Result<Vec<StaleGroup>, StorageError>;

    /// Some listed paths that stand near `attr_path` in the order of paths.
    fn neighbors(&mut self, attr_path: &str) -> Result<Vec<String>, StorageError>;

    /// Empty if the queue is one process's.
    fn instances(&mut self) -> Result<Vec<InstanceRow>, StorageError> {
        Ok(Vec::new())
    }

    /// Fetchers with the time at which their last run was added.
    fn last_runs(&mut self) -> Result<Vec<(String, i64)>, StorageError>;

    /// Totals for the metrics.
    fn sample(&mut self, now: i64) -> Result<Sample, StorageError>;

    /// Up to 200,000 groups.
    fn listing(&mut self, now: i64) -> Result<Listing, StorageError>;
}
