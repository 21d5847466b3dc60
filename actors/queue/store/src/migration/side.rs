//! Traits of the two sides of a migration.

use orchestrator_queue_rules::storage::StorageError;
use orchestrator_supervise::PauseSpan;
use serde::{Deserialize, Serialize};

use super::table::{Row, Table, Value};

/// Maximum number of rows in one batch.
pub const BATCH_ROWS: usize = 4_000;
/// Size of a batch's texts from which no row is added, in bytes.
pub const BATCH_BYTES: usize = 4 << 20;

/// Receiver of batches of rows.
pub type Take<'a> = dyn FnMut(Vec<Row>) -> Result<(), StorageError> + 'a;

/// Rows of a queue that no process uses.
pub trait Side {
    /// Counts the rows of the store's table. [`Side::read`] may leave some out, but none of [`Table::Row`].
    ///
    /// # Errors
    /// Of the store.
    fn count(&mut self, table: Table) -> Result<u64, StorageError>;

    /// Reads the rows in the order of keys.
    ///
    /// # Errors
    /// Of the store or of `take`.
    fn read(&mut self, table: Table, take: &mut Take<'_>) -> Result<(), StorageError>;
}

/// Store or dump that is read. Nobody can change it meanwhile.
pub trait Source: Side {
    /// Reads what is no row.
    ///
    /// # Errors
    /// Of the store.
    fn counters(&mut self) -> Result<Counters, StorageError>;
}

/// State of a queue beside its rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Last incarnation, the upper half of numbers of hand-outs.
    pub incarnation: i64,
    /// Last number of a fetcher.
    pub fetcher: i64,
    /// Pause of hand-outs.
    pub pause: Option<PauseSpan>,
}

/// Store that is written. When it is opened, it has no rows but those of a migration that was interrupted.
pub trait Target: Side {
    /// Returns the reason why the target cannot store a row.
    fn refusal(&self, table: Table, row: &[Value]) -> Option<String>;

    /// Begins a migration: removes all rows and sets the mark, with which no process can use the target.
    /// `mark` is JSON with the field `command`, which such a process names. `oldest_attempt` is the time of
    /// the first row of [`Table::Attempt`], in unix seconds.
    ///
    /// # Errors
    /// Of the store.
    fn begin(&mut self, mark: &str, oldest_attempt: Option<i64>) -> Result<(), StorageError>;

    /// Writes rows in one transaction.
    ///
    /// # Errors
    /// Of the store.
    fn write(&mut self, table: Table, rows: &[Row]) -> Result<(), StorageError>;

    /// Derives all else from the tables and removes the mark, in one transaction that is durable when the
    /// call returns. Calls `derived` with the number of rows of [`Table::Row`] that are done.
    ///
    /// # Errors
    /// Of the store.
    fn complete(&mut self, counters: &Counters, derived: &mut dyn FnMut(u64)) -> Result<(), StorageError>;
}
