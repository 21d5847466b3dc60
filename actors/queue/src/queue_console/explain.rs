//! Explanation of one job: where its attribute path is, what it waits for, and when it is handed out.

mod path;
#[cfg(test)]
mod tests;

use orchestrator_queue_rules::storage::{Attempt, Limit, Questions, StorageError, is_expired};
use orchestrator_subsystem::{Answered, Explain, Explained, item::nearest};
use orchestrator_supervise::{ChildCx, Handle, Handled};
use orchestrator_text::sanitize;

use self::path::{ATTEMPTS, HOLDERS, Path, State};
use super::{QueueConsole, questions::request_by};

impl Handle<Explain> for QueueConsole {
    fn handle(&mut self, verb: Explain, cx: &mut ChildCx<'_, Self>) -> Handled<Self, Answered<Explain>> {
        let name = verb.item.clone();
        let find = move |store: &mut dyn Questions, now| find(store, &name, now);
        self.ask(
            cx,
            |reply| request_by(false, find, reply),
            move |found, console| Ok(explained(&verb.item, found, console)),
        )
    }
}

/// Answer of the store about a path.
enum Found {
    Path(Box<State>),
    /// The path is unknown. Listed paths near it, and all fetchers.
    Unknown {
        neighbors: Vec<String>,
        fetchers: Vec<String>,
    },
}

fn find(store: &mut dyn Questions, name: &str, now: i64) -> Result<Found, StorageError> {
    let report = store.attr(name, now, ATTEMPTS)?;
    if report.listed.is_empty() && report.in_flight.is_none() && report.attempts.is_empty() {
        let neighbors = store.neighbors(name)?;
        let fetchers = store.last_runs()?.into_iter().map(|(fetcher, _)| fetcher).collect();
        return Ok(Found::Unknown { neighbors, fetchers });
    }
    let holders = match report.waiting.iter().find_map(|group| group.full.as_ref()) {
        Some(limit) => holders(store, limit, now, report.hold_secs)?,
        None => Vec::new(),
    };
    let instances = match report.in_flight.as_ref().and_then(|job| job.instance.as_ref()) {
        Some(_) => store.instances()?,
        None => Vec::new(),
    };
    Ok(Found::Path(Box::new(State { report, now, holders, instances })))
}

fn explained(name: &str, found: Found, console: &QueueConsole) -> Explained {
    match found {
        Found::Path(state) => {
            let path = Path { name, state: &state, workers: &console.workers };
            Explained { found: vec![path.item()], ..Explained::default() }
        }
        Found::Unknown { neighbors, fetchers } => {
            let nearest = nearest(name, neighbors.iter().map(String::as_str));
            let mut searched = format!("{} fetchers: {}", fetchers.len(), fetchers.join(", "));
            for files in [&console.refused.links, &console.refused.fetchers] {
                if let Some((fetcher, reason)) = files.first() {
                    searched += &format!("; a file of {fetcher} is not read: {reason}");
                }
            }
            Explained { nearest, searched: sanitize(searched), ..Explained::default() }
        }
    }
}

/// Jobs that count against a limit, those handed out first.
fn holders(
    store: &mut dyn Questions,
    limit: &Limit,
    now: i64,
    hold_secs: i64,
) -> Result<Vec<Attempt>, StorageError> {
    let pattern = limit.attr_path.as_deref().map(|pattern| pattern.parse()).transpose();
    let pattern = pattern.ok().flatten();
    let count = usize::try_from(limit.in_flight).unwrap_or(usize::MAX).saturating_add(HOLDERS);
    let mut jobs = store.in_flight(pattern.as_ref(), count)?;
    jobs.retain(|job| {
        !is_expired(job.started, now, hold_secs) && limit.matches(&job.attr_path, job.fetcher.as_deref())
    });
    Ok(jobs)
}
