//! Instances whose processes ended without a stop, or whose machines are away.

use jiff::Timestamp;
use orchestrator_queue_rules::storage::StorageError;

use super::finding::Finding;
use crate::{server_session::Session, session::get};

/// Time for which an instance is named that has neither jobs nor fetchers, seconds.
const NAMED_SECS: i64 = 86_400;

/// Instances that a look has found.
#[derive(Default)]
pub(super) struct DeadInstances {
    pub(super) count: u64,
    /// The one whose lease ended last.
    pub(super) finding: Option<Finding>,
}

/// Finds instances of `schema` whose leases are over. A stop unlocks the instance, so that it is none
/// of them.
pub(super) async fn look(session: &mut Session, schema: &str) -> Result<DeadInstances, StorageError> {
    let sql = format!(include_str!("../sql/watch/dead_instances.sql"), schema = schema);
    let rows = session.query("looking for dead instances", sql, vec![Box::new(NAMED_SECS)]).await?;
    let Some(row) = rows.first() else { return Ok(DeadInstances::default()) };
    let (instance, host): (String, String) = (get(row, "instance")?, get(row, "host")?);
    let [ended, fetchers, jobs, count]: [i64; 4] =
        [get(row, "ended")?, get(row, "fetchers")?, get(row, "jobs")?, get(row, "instances")?];
    let ended = Timestamp::from_second(ended).map_or_else(|_| ended.to_string(), |at| at.to_string());
    let mut evidence =
        vec![format!("its lease ended at {ended}; what it had not delivered is available again")];
    if jobs > 0 {
        evidence.push(format!(
            "jobs of its workers in flight: {jobs}; a DONE counts at any instance, and without one they are handed out again at the end of their holds"
        ));
    }
    if fetchers > 0 {
        evidence.push(format!(
            "its fetchers: {fetchers}; their files are not read, and other instances hand out the rows that it has read"
        ));
    }
    let others = if count > 1 { format!(", and {} others", count - 1) } else { String::new() };
    let finding = Finding {
        kind: "instance_dead",
        fault_of: None,
        text: format!("the instance `{instance}` on host {host} is dead{others}"),
        evidence,
        help: format!(
            "start `{instance}` on {host}, or move its fetchers here: orchestrator queue adopt FETCHER; orchestrator queue instances shows all"
        ),
    };
    Ok(DeadInstances { count: count.unsigned_abs(), finding: Some(finding) })
}
