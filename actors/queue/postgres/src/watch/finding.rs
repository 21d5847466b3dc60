//! Causes that looks find, and parts of their queries.

use orchestrator_edge::postgres::Row;
use orchestrator_queue_rules::storage::StorageError;

use crate::session::get;

/// Time after which a wait of a session counts, in seconds. The store's own locks are held for a fraction of
/// it.
pub(super) const WAIT_SECS: f64 = 2.0;
/// Condition for the sessions of all instances of the queue in `pg_stat_activity`.
pub(super) const OF_QUEUE: &str =
    "a.application_name = current_setting('application_name') AND a.datname = current_database()";

/// Names a session in a text, as far as the role may see it.
pub(super) fn session_of(row: &Row) -> Result<String, StorageError> {
    let [application, role, client, state]: [Option<String>; 4] =
        [get(row, "application")?, get(row, "role")?, get(row, "client")?, get(row, "state")?];
    let age: Option<f64> = get(row, "age")?;
    let parts = [
        application.filter(|name| !name.is_empty()).map(|name| format!("application {name}")),
        role.map(|role| format!("role {role}")),
        client.map(|client| format!("client {client}")),
        state,
        age.map(|secs| format!("transaction of {secs:.0} s")),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    Ok(format!("pid {} ({})", get::<i32>(row, "pid")?, parts.join(", ")))
}

/// Columns of [`session_of`] for the row `a` of `pg_stat_activity`.
pub(super) const SESSION_COLUMNS: &str =
    "a.pid, a.application_name AS application, a.usename::text AS role, a.state,
    CASE WHEN a.client_port = -1 THEN 'unix socket' ELSE host(a.client_addr) END AS client,
    extract(epoch FROM clock_timestamp() - a.xact_start)::float8 AS age";

/// Cause that a look has found.
pub(super) struct Finding {
    pub(super) kind: &'static str,
    /// Name of the part whose failure stops the queue; None for a cause that makes it slower.
    pub(super) fault_of: Option<String>,
    pub(super) text: String,
    pub(super) evidence: Vec<String>,
    pub(super) help: String,
}
