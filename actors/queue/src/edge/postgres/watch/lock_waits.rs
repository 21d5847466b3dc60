//! Sessions of the queue that wait for a lock, and the session that has it.

use orchestrator_queue_rules::storage::StorageError;

use super::finding::{Finding, OF_QUEUE, SESSION_COLUMNS, WAIT_SECS, session_of};
use crate::edge::postgres::{server_session::Session, session::get};

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
        // A wait for a row waits for a transaction; the lock of the row names the table.
        let sql = format!(
            "WITH waits AS (
                 SELECT b.pid AS holder, coalesce(l.relation, (
                     SELECT r.relation FROM pg_locks AS r WHERE r.pid = a.pid AND r.locktype = 'tuple' LIMIT 1)) AS relation,
                     l.locktype, coalesce(l.waitstart, a.query_start) AS since
                 FROM pg_stat_activity AS a JOIN pg_locks AS l ON l.pid = a.pid AND NOT l.granted
                     CROSS JOIN LATERAL unnest(pg_blocking_pids(a.pid)) AS b (pid)
                 WHERE {OF_QUEUE}
             ), held AS (
                 SELECT w.*, 0 AS rank FROM waits AS w WHERE w.since < clock_timestamp() - make_interval(secs => $1)
                 UNION ALL
                 SELECT l.pid, l.relation, l.locktype, NULL, 1 FROM pg_locks AS l
                 WHERE l.pid = $2::integer AND l.relation = $3::oid AND l.granted
             )
             SELECT h.holder, h.relation, coalesce(h.relation::regclass::text, h.locktype) AS name,
                 extract(epoch FROM clock_timestamp() - h.since)::float8 AS secs, {SESSION_COLUMNS}
             FROM held AS h LEFT JOIN pg_stat_activity AS a ON a.pid = h.holder
             -- A holder that waits itself is no cause.
             ORDER BY h.rank, coalesce(a.wait_event_type = 'Lock', false), h.since LIMIT 1"
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
