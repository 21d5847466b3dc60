//! The end of an incarnation whose database files were deleted or replaced.

use std::time::Duration;

use orchestrator_edge::FileReplaced;
use orchestrator_supervise::Fault;

use super::{Incarnation, pause, stopped::End};
use crate::{edge::unix_time::unix_time, storage::StorageError};

/// Time that a database whose files were replaced is left alone before it is opened anew: whoever replaces them may not be done.
const REOPEN_AFTER: Duration = Duration::from_secs(1);

impl Incarnation<'_> {
    /// Closes a database of which a file is at its path no more. Requests wait meanwhile.
    pub(super) fn give_up(mut self, replaced: FileReplaced) -> Result<End, Fault> {
        let error = StorageError::from(replaced.clone());
        self.tries.not_ready(error.to_string(), REOPEN_AFTER);
        self.spec.log.set_files(None);
        let stopped = pause(&self.cx.stop, REOPEN_AFTER);
        if let Err(error) = self.store.abandon(&replaced, unix_time()) {
            tracing::warn!(%error, "what was committed last may be missing in the database that was open");
        }
        Ok(if stopped { End::Asked } else { End::Replaced(replaced) })
    }
}
