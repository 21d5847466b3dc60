//! Commits that wait for a synchronous standby.

use orchestrator_queue_rules::storage::StorageError;

use super::finding::{Finding, OF_QUEUE, WAIT_SECS};
use crate::{server_session::Session, session::get};

const ACTION: &str = "looking for unconfirmed commits";

/// Logs what a fail-over can lose, unless commits wait for a standby.
pub(super) async fn warn_of_loss(session: &mut Session) -> Result<(), StorageError> {
    let sql = "SELECT current_setting('synchronous_commit') AS value
               WHERE current_setting('synchronous_standby_names') = '' OR current_setting('synchronous_commit') IN ('off', 'local')";
    if !session.query(ACTION, sql, vec![]).await?.is_empty() {
        tracing::info!(
            "no commit waits for a standby: a fail-over can lose the last answers, so that ended jobs are handed out again; to keep them, \
             name a standby in synchronous_standby_names"
        );
    }
    Ok(())
}

/// Finds the commit of the queue that waits longest.
pub(super) async fn look(session: &mut Session, endpoint: &str) -> Result<Option<Finding>, StorageError> {
    let sql = format!(include_str!("../sql/watch/unconfirmed_commit.sql"), of_queue = OF_QUEUE);
    let rows = session.query(ACTION, sql, vec![Box::new(WAIT_SECS)]).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let (names, secs): (String, f64) = (get(row, "names")?, get(row, "secs")?);
    let standbys: Option<String> = get(row, "standbys")?;
    Ok(Some(Finding {
        kind: "standby_unconfirmed",
        fault_of: Some(format!("synchronous standby of {endpoint}")),
        text: format!("no synchronous standby has confirmed a commit for {secs:.0} s"),
        evidence: vec![
            format!("synchronous_standby_names = {names}"),
            match standbys {
                Some(standbys) => format!("pg_stat_replication: {standbys}"),
                None => "pg_stat_replication: no standby is connected".to_owned(),
            },
        ],
        help: "start the standby, or name another one in synchronous_standby_names and reload the server"
            .to_owned(),
    }))
}
