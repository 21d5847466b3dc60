//! Sessions of the queue that wait for a lock, and the session that has it.

use orchestrator_queue_rules::storage::StorageError;

use super::finding::{Finding, OF_QUEUE, SESSION_COLUMNS, WAIT_SECS, session_of};
use crate::{server_session::Session, session::get};

const ACTION: &str = "looking for locks";

/// The lock that the last look has found.
#[derive(Default)]
pub(super) struct LockWaits(Option<(i32, u32)>);

impl LockWaits {
    /// Finds the session that another one of the queue waits for longest. A statement gives up before the
    /// lock is free, and is repeated later: the cause stays until the holder has no lock on the table.
    pub(super) async fn look(
        &mut self,
        session: &mut Session,
        endpoint: &str,
    ) -> Result<Option<Finding>, StorageError> {
        let (pid, table) = self.0.unzip();
        let sql = format!(
            include_str!("../sql/watch/lock_waits.sql"),
            of_queue = OF_QUEUE,
            session_columns = SESSION_COLUMNS
        );
        let rows =
            session.query(ACTION, sql, vec![Box::new(WAIT_SECS), Box::new(pid), Box::new(table)]).await?;
        self.0 = None;
        let Some(row) = rows.first() else { return Ok(None) };
        let holder: i32 = get(row, "holder")?;
        self.0 = get::<Option<u32>>(row, "relation")?.map(|relation| (holder, relation));
        let name: String = get(row, "name")?;
        // A prepared transaction has no session.
        let (owner, help) = match get::<Option<i32>>(row, "pid")? {
            Some(pid) => (
                session_of(row)?,
                format!("SELECT pg_terminate_backend({pid}), unless its transaction ends soon"),
            ),
            None => (
                "a prepared transaction".to_owned(),
                "SELECT * FROM pg_prepared_xacts; then COMMIT PREPARED or ROLLBACK PREPARED".to_owned(),
            ),
        };
        let waits = get::<Option<f64>>(row, "secs")?
            .map(|secs| format!("a statement of the queue has waited for {secs:.0} s"));
        let gave_up = || "statements of the queue give up after 4 s, and are tried again".to_owned();
        Ok(Some(Finding {
            kind: "lock_held",
            fault_of: Some(format!("pid {holder} of {endpoint}")),
            text: format!("the queue waits for a lock on {name}, which {owner} has"),
            evidence: vec![waits.unwrap_or_else(gave_up)],
            help,
        }))
    }
}
