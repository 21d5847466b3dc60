//! State of one attribute path in words. No I/O.

use orchestrator_edge::shell_word;
use orchestrator_queue_rules::storage::{
    Attempt, AttrReport, InstanceRow, Limit, ListedRow, POSITION_MAX, WaitingGroup, is_expired,
};
use orchestrator_subsystem::{Item, NextChance, Progress, text::time_of, wire::Cause};
use orchestrator_text::sanitize;

use crate::{verbs::place, workers_seen::WorkersSeen};

/// Path of the child that gives jobs to workers.
const SOCKET: &str = "orchestrator/queue/worker_socket";

/// Maximum number of attempts that are shown.
pub(super) const ATTEMPTS: usize = 5;
/// Maximum number of jobs of a full limit that are named.
pub(super) const HOLDERS: usize = 3;

/// State of a path.
pub(super) struct State {
    pub(super) report: AttrReport,
    /// Time of the question, in unix seconds.
    pub(super) now: i64,
    /// Jobs that count against its full limit.
    pub(super) holders: Vec<Attempt>,
    /// Instances, if one of them has a job of the path.
    pub(super) instances: Vec<InstanceRow>,
}

/// An attribute path with its state.
pub(super) struct Path<'a> {
    pub(super) name: &'a str,
    pub(super) state: &'a State,
    pub(super) workers: &'a WorkersSeen,
}

impl Path<'_> {
    pub(super) fn item(&self) -> Item {
        let held = self.state.report.in_flight.as_ref().filter(|job| !self.is_over(job));
        let first =
            self.state.report.waiting.iter().min_by_key(|group| (group.position.is_none(), group.position));
        let mut item = match (held, first) {
            (Some(job), _) => self.in_flight(job),
            (None, Some(group)) => self.waiting(group),
            (None, None) => self.ended(),
        };
        item.evidence.extend(self.rows());
        item.evidence.extend(self.state.report.attempts.iter().map(attempt_text));
        item
    }

    fn new_item(&self, progress: Progress, text: String, since: Option<i64>) -> Item {
        let name = format!("queue/{}", sanitize(self.name));
        Item { since_ms: since.map(ms), ..Item::new("job", name, SOCKET, progress, text) }
    }

    /// A worker has a job of the path, and its hold is not over. A newer row waits for the end of the hold.
    fn in_flight(&self, job: &Attempt) -> Item {
        let until = self.hold_end(job);
        let by = worker(job);
        let Some(next) = self.state.report.waiting.first() else {
            let text = format!(
                "in progress: {by} has the job; no other row of the path is handed out until {}",
                time_of(until)
            );
            let mut item = self.new_item(Progress::InProgress, text, Some(job.started));
            item.evidence.extend(self.holder(job));
            if self.instance(job).is_some_and(|instance| !instance.live) {
                item.progress = Progress::Waits;
                let help = format!("orchestrator queue requeue {}", self.word());
                let gone = format!("the instance of {by} is dead");
                item.causes.push(cause("instance_dead", gone, help));
                item.next =
                    Some(NextChance::Unknown { reason: "a newer run has to list the path".to_owned() });
            }
            return item;
        };
        let text =
            format!("waits in run {} of {}: the path is held", next.run.started, sanitize(&next.run.fetcher));
        let mut item = self.new_item(Progress::Waits, text, self.added(next));
        let held = format!("{by} has another job of the path; its hold ends at {}", time_of(until));
        item.causes.push(Cause {
            since_ms: Some(ms(job.started)),
            evidence: self.holder(job).into_iter().collect(),
            ..cause("held", held, format!("orchestrator queue requeue {}", self.word()))
        });
        item.next = Some(NextChance::NotBefore { at_ms: ms(until + 1) });
        item
    }

    fn waiting(&self, group: &WaitingGroup) -> Item {
        let run = format!("run {} of {}", group.run.started, sanitize(&group.run.fetcher));
        let since = self.added(group);
        if let Some(limit) = &group.full {
            let mut item =
                self.new_item(Progress::Waits, format!("waits in {run}: its limit is full"), since);
            item.causes.push(self.full_limit(limit));
            let first =
                self.state.holders.iter().map(|job| self.hold_end(job)).min().filter(|_| limit.in_flight > 0);
            item.next = Some(match first {
                Some(_) => NextChance::Unknown { reason: "once one of these jobs ends".to_owned() },
                None => NextChance::Unknown { reason: "the limit allows no job".to_owned() },
            });
            return item;
        }
        let position = group.position.unwrap_or(1);
        let text = format!("waits at {} in {run}", place(position));
        let mut item = self.new_item(Progress::Waits, text, since);
        let before = match position {
            1 => "the next worker that asks gets it".to_owned(),
            2 => "one job is handed out before it".to_owned(),
            POSITION_MAX.. => format!("{POSITION_MAX} jobs or more are handed out before it"),
            n => format!("{} jobs are handed out before it", n - 1),
        };
        let (evidence, next) = match self.workers.secs_for(position) {
            Some(secs) if position > POSITION_MAX => {
                let rate = format!("at the rate of the last hour, {POSITION_MAX} jobs take {secs} s");
                let at = self.state.now.saturating_add(i64::try_from(secs).unwrap_or(i64::MAX));
                (vec![rate], NextChance::NotBefore { at_ms: ms(at) })
            }
            Some(secs) => {
                let at = self.state.now.saturating_add(i64::try_from(secs).unwrap_or(i64::MAX));
                let rate = format!("at the rate of the last hour, {position} jobs take {secs} s");
                (vec![rate], NextChance::At { at_ms: ms(at) })
            }
            None => (
                vec![],
                NextChance::Unknown { reason: "fewer than 10 jobs ended in the last hour".to_owned() },
            ),
        };
        let help = match position {
            1 => "start another worker, or wait until one asks".to_owned(),
            _ => format!("orchestrator queue bump {}", self.word()),
        };
        item.causes.push(Cause { routine: true, evidence, ..cause("order", before, help) });
        item.next = Some(next);
        item
    }

    /// No row of the path waits.
    fn ended(&self) -> Item {
        if let Some(job) = &self.state.report.in_flight {
            let text = format!(
                "handed out to {} and not reported as done; its hold ended at {}, and no newer row lists the path",
                worker(job),
                time_of(self.hold_end(job))
            );
            let mut item = self.new_item(Progress::Waits, text, Some(job.started));
            let lost = "the worker has not reported the end".to_owned();
            let help = format!("orchestrator queue requeue {}", self.word());
            item.causes
                .push(Cause { since_ms: Some(ms(self.hold_end(job))), ..cause("not_reported", lost, help) });
            item.next = Some(NextChance::Unknown { reason: "a newer run has to list the path".to_owned() });
            item.evidence.extend(self.holder(job));
            return item;
        }
        let Some(last) = self.state.report.attempts.first() else {
            let text = "listed, but its row was handed out by another program, whose record is not kept";
            return self.new_item(Progress::Ended, text.to_owned(), None);
        };
        let same = self
            .state
            .report
            .attempts
            .iter()
            .take_while(|attempt| attempt.exit_code == last.exit_code)
            .count();
        let took = last.finished.map_or(0, |finished| finished.saturating_sub(last.started));
        let by = worker(last);
        let text = match last.exit_code {
            Some(0) => format!("done by {by} after {took} s"),
            Some(code) if same > 1 => {
                format!("failed {same} times in a row with exit code {code}, at last by {by} after {took} s")
            }
            Some(code) => format!("failed with exit code {code}, by {by} after {took} s"),
            None => format!("its hold was ended by an operator while {by} had the job"),
        };
        let text = format!("{text}; no newer run lists the path");
        self.new_item(Progress::Ended, text, last.finished)
    }

    fn full_limit(&self, limit: &Limit) -> Cause {
        let patterns: Vec<_> = [("match", &limit.attr_path), ("fetcher", &limit.fetcher)]
            .into_iter()
            .filter_map(|(key, pattern)| Some(format!("{key} = \"{}\"", sanitize(pattern.as_ref()?))))
            .collect();
        let of = patterns.join(", ");
        let help = format!("raise in_flight of the [[queue.limit]] with {of}, then reload the configuration");
        if limit.in_flight == 0 {
            return cause(
                "limit",
                format!("the limit {of} has in_flight = 0: none of its jobs is handed out"),
                help,
            );
        }
        let text =
            format!("the limit {of} is full: {} of {} in flight", self.state.holders.len(), limit.in_flight);
        let named = |job: &Attempt| format!("{}: {}", sanitize(&job.attr_path), attempt_text(job));
        let mut evidence: Vec<_> = self.state.holders.iter().take(HOLDERS).map(named).collect();
        let more = self.state.holders.len().saturating_sub(HOLDERS);
        evidence.extend((more > 0).then(|| format!("and {more} more")));
        Cause {
            since_ms: self.state.holders.iter().map(|job| ms(job.started)).max(),
            evidence,
            ..cause("limit", text, help)
        }
    }

    /// Rows that list the path.
    fn rows(&self) -> Vec<String> {
        let text = |row: &ListedRow| {
            let state = if row.handed_out { "handed out" } else { "not handed out" };
            let added = row.added.map_or_else(String::new, |added| format!(" since {}", time_of(added)));
            format!("listed in run {} of {}{added}, {state}", row.run.started, sanitize(&row.run.fetcher))
        };
        self.state.report.listed.iter().take(ATTEMPTS).map(text).collect()
    }

    /// State of the connection of a job's worker, or of its instance.
    fn holder(&self, job: &Attempt) -> Option<String> {
        if job.instance.is_none() {
            let is_open = self.workers.is_open(job.connection.as_ref()?, job.started);
            let closed =
                "its connection is closed; the worker may report the end on another one, else its hold ends";
            return Some(if is_open { "its connection is open" } else { closed }.to_owned());
        }
        let InstanceRow { instance, live, lease_until, host, .. } = self.instance(job)?;
        let name = format!("instance {} on {}", sanitize(instance), sanitize(host));
        Some(match live {
            true => format!("{name} is live"),
            false => format!("{name} is dead, its lease ended at {}", time_of(*lease_until)),
        })
    }

    fn instance(&self, job: &Attempt) -> Option<&InstanceRow> {
        self.state.instances.iter().find(|instance| Some(&instance.instance) == job.instance.as_ref())
    }

    fn is_over(&self, job: &Attempt) -> bool {
        is_expired(job.started, self.state.now, self.state.report.hold_secs)
    }

    fn hold_end(&self, job: &Attempt) -> i64 {
        job.started.saturating_add(self.state.report.hold_secs)
    }

    fn added(&self, group: &WaitingGroup) -> Option<i64> {
        self.state.report.listed.iter().find(|row| row.run == group.run).and_then(|row| row.added)
    }

    fn word(&self) -> String {
        shell_word(self.name).into_owned()
    }
}

fn cause(kind: &str, text: String, help: String) -> Cause {
    Cause::new(kind, SOCKET, text, help)
}

fn worker(job: &Attempt) -> String {
    let of = job.instance.as_ref().map(|name| format!(" of instance {}", sanitize(name))).unwrap_or_default();
    match &job.connection {
        Some(connection) => format!("the worker on connection {}{of}", sanitize(connection)),
        None => format!("another program{of}"),
    }
}

fn attempt_text(attempt: &Attempt) -> String {
    let began = format!("handed out at {} to {}", time_of(attempt.started), worker(attempt));
    match (attempt.finished, attempt.exit_code) {
        (Some(at), Some(code)) => format!("{began}: exit code {code} at {}", time_of(at)),
        (Some(at), None) => format!("{began}: hold ended by an operator at {}", time_of(at)),
        (None, _) => format!("{began}: not reported as done"),
    }
}

fn ms(unix_time: i64) -> u64 {
    u64::try_from(unix_time).unwrap_or(0).saturating_mul(1_000)
}
