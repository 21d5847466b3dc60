//! End of an incarnation whose database files were deleted or replaced.

use std::time::Duration;

use orchestrator_edge::FileReplaced;

use super::Incarnation;
use crate::{edge::unix_time::unix_time, storage::StorageError};

/// Delay before the database is opened again, so that another program can finish replacing its
/// files.
const REOPEN_AFTER: Duration = Duration::from_secs(1);

impl Incarnation<'_> {
    /// Closes a database after one of its files was `replaced`, and returns that file unless asked to stop. Requests
    /// wait meanwhile.
    pub(super) fn close_replaced(self, replaced: FileReplaced) -> Option<FileReplaced> {
        let error = StorageError::from(replaced.clone());
        self.link.not_ready(error.to_string(), REOPEN_AFTER);
        self.spec.wal_state.set_files(None);
        let goes_on = self.link.wait_blocking(REOPEN_AFTER);
        if let Err(error) = self.store.close_replaced(&replaced, unix_time()) {
            tracing::warn!(%error, "the replaced database may lack the last commits");
        }
        goes_on.then_some(replaced)
    }
}
