//! End of an instance's place at a stop.

use super::store::PostgresStore;
use crate::storage::{Storage as _, StorageError};

impl PostgresStore {
    /// Gives up the place at a stop, and takes back what was not delivered.
    pub(crate) fn close(mut self) {
        if let Err(error) = self.give_up_place() {
            tracing::warn!(%error, "the lease was not ended: other instances take back what was not delivered once it is over");
        }
    }

    fn give_up_place(&mut self) -> Result<(), StorageError> {
        self.begin()?;
        self.undo_undelivered()?;
        self.query(
            "giving up the place of the instance",
            // No process has this incarnation.
            "UPDATE instance SET incarnation = -incarnation, lease_until = clock_timestamp() WHERE instance = $1",
            vec![Box::new(self.settings.instance.clone())],
        )?;
        self.commit()
    }
}
