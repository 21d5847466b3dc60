//! Takes an instance at a start, and gives it up at a stop. One process has an instance at a time.

use super::{
    lease::LEASE,
    session::{UNFINISHED, first, single},
    store::PostgresStore,
};
use orchestrator_queue_rules::storage::{Storage as _, StorageError};

impl PostgresStore {
    /// Takes the instance for this process and returns the incarnation.
    pub(super) fn take_instance(&mut self) -> Result<i64, StorageError> {
        const ACTION: &str = "taking the place of the instance";
        let settings = self.settings.clone();
        self.begin_with(ACTION, "")?;
        let taken = self.query(
            ACTION,
            "SELECT take_instance($1, $2, $3, make_interval(secs => $4))",
            vec![
                Box::new(settings.instance),
                Box::new(settings.host),
                Box::new(settings.socket),
                Box::new(LEASE.as_secs_f64()),
            ],
        )?;
        // A migration that began before has locked the instances until its state could be seen.
        let state = self.query(ACTION, UNFINISHED, vec![])?;
        if let Some(state) = first::<String>(&state)? {
            return Err(StorageError::unfinished(&format!("schema {}", settings.schema), &state));
        }
        self.commit()?;
        single(&taken)
    }

    /// Gives up the instance at a stop, and takes back what was not delivered.
    pub(crate) fn close(mut self) {
        if let Err(error) = self.give_up_instance() {
            tracing::warn!(%error, "the lease was not ended: other instances take back what was not delivered once it is over");
        }
    }

    fn give_up_instance(&mut self) -> Result<(), StorageError> {
        self.begin()?;
        self.undo_undelivered()?;
        self.query(
            "giving up the place of the instance",
            // No process has this incarnation.
            "UPDATE instance SET incarnation = -incarnation, is_locked = false, lease_until = clock_timestamp() WHERE instance = $1",
            vec![Box::new(self.settings.instance.clone())],
        )?;
        self.commit()
    }
}
