//! Groups that are handed out before all others.

use super::super::attr;
use super::super::limited::Limited;
use super::ready_groups::ready_groups;
use orchestrator_queue_rules::storage::{GroupKey, Section, is_held};
use rusqlite::Connection;

/// Returns the first group of each bumped path that is neither held nor limited, in order of
/// the bumps.
pub(super) fn eligible(
    conn: &Connection,
    limited: &Limited,
    now: i64,
    hold_secs: i64,
) -> rusqlite::Result<Vec<(GroupKey, Section)>> {
    let mut statement = conn
        .prepare_cached("SELECT attr_path FROM orchestrator_bump WHERE handout_id IS NULL ORDER BY number")?;
    let paths: Vec<String> = statement.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    let mut groups = Vec::new();
    for attr_path in paths {
        if !is_held(attr::load_log(conn, &attr_path)?.as_ref(), now, hold_secs) {
            let ready = ready_groups(conn, &attr_path)?.into_iter().map(|(key, run, _)| {
                let class = limited.limits.class(&attr_path, Some(&run.fetcher));
                let (fetcher_id, run_started) = (key.fetcher_id, run.started);
                (key, Section { fetcher_id, run_started, class, held: false })
            });
            let open = ready.filter(|(_, section)| !limited.is_full(section.class, now, hold_secs));
            groups.extend(open.min());
        }
    }
    Ok(groups)
}
