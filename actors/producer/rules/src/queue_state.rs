//! Lengths of Faktory's queues and sets, and the jobs that keep a TCN from being complete (CONTRACT SO07).

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Reply to `INFO`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QueueState {
    /// Waiting jobs of each queue. A queue that was never used is missing.
    pub queues: BTreeMap<String, u64>,
    /// Dead jobs of the whole server.
    pub dead: u64,
    /// Failed jobs of the whole server that will be retried.
    pub retries: u64,
    /// Scheduled jobs of the whole server.
    pub scheduled: u64,
    /// Jobs of the whole server that workers have.
    pub working: u64,
    /// Jobs processed since the server's data was created, including failed ones.
    pub processed: u64,
}

impl QueueState {
    /// Jobs in a queue.
    pub fn length(&self, queue: &str) -> u64 {
        self.queues.get(queue).copied().unwrap_or_default()
    }

    /// Jobs in all of these queues.
    pub fn total_length(&self, queues: &BTreeSet<String>) -> u64 {
        queues.iter().fold(0, |total, queue| total.saturating_add(self.length(queue)))
    }
}

/// Queues whose jobs keep a TCN from being complete. The sets always count for the whole server, which does
/// not separate them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CountedQueues {
    /// The producer's own queues, as in the original.
    #[default]
    Queue,
    /// All queues of the server.
    All,
}

/// Jobs that keep a TCN from being complete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompletionCriteria {
    /// The producer's own queues.
    pub queues: BTreeSet<String>,
    /// Queues that count.
    pub count: CountedQueues,
    /// True if dead jobs do not count.
    pub ignore_dead: bool,
}

/// Location of blocking jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobLocation {
    /// Queue with this name.
    Queue(String),
    /// Workers.
    Working,
    /// Set of jobs that will be retried.
    Retries,
    /// Set of scheduled jobs.
    Scheduled,
    /// Set of dead jobs.
    Dead,
}

/// Blocking jobs of one location.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocker {
    /// Where they are.
    pub location: JobLocation,
    /// Number of them.
    pub jobs: u64,
}

impl fmt::Display for Blocker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let jobs = if self.jobs == 1 { "1 job" } else { &format!("{} jobs", self.jobs) };
        match &self.location {
            JobLocation::Queue(name) => write!(f, "{jobs} in queue {name}: wait for workers"),
            JobLocation::Working => write!(f, "{jobs} of any type with workers: wait for them"),
            JobLocation::Retries => write!(f, "{jobs} of any type will be retried: check why they fail"),
            JobLocation::Scheduled => write!(f, "{jobs} of any type scheduled for later: wait for them"),
            JobLocation::Dead => write!(
                f,
                "{jobs} of any type dead: requeue or discard them, or set producer.ignore_dead = true"
            ),
        }
    }
}

/// Jobs that keep a TCN from being complete; empty if all are done.
pub(crate) fn blockers(queue_state: &QueueState, criteria: &CompletionCriteria) -> Vec<Blocker> {
    let counts = |name: &String| criteria.count == CountedQueues::All || criteria.queues.contains(name);
    let queues = queue_state.queues.iter().filter(|(name, _)| counts(name));
    let mut all: Vec<_> = queues
        .map(|(name, jobs)| Blocker { location: JobLocation::Queue(name.clone()), jobs: *jobs })
        .collect();
    for (location, jobs) in [
        (JobLocation::Working, queue_state.working),
        (JobLocation::Retries, queue_state.retries),
        (JobLocation::Scheduled, queue_state.scheduled),
        (JobLocation::Dead, if criteria.ignore_dead { 0 } else { queue_state.dead }),
    ] {
        all.push(Blocker { location, jobs });
    }
    all.retain(|blocker| blocker.jobs > 0);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn criteria(count: CountedQueues, ignore_dead: bool) -> CompletionCriteria {
        CompletionCriteria { queues: ["arborescent".to_owned()].into(), count, ignore_dead }
    }

    fn queue_state(own: u64, foreign: u64) -> QueueState {
        let queues = [("arborescent".to_owned(), own), ("mail".to_owned(), foreign)].into();
        QueueState { queues, ..QueueState::default() }
    }

    fn locations(
        queue_state: &QueueState,
        count: CountedQueues,
        ignore_dead: bool,
    ) -> Vec<(JobLocation, u64)> {
        let blockers = blockers(queue_state, &criteria(count, ignore_dead)).into_iter();
        blockers.map(|blocker| (blocker.location, blocker.jobs)).collect()
    }

    #[test]
    fn queues_count_as_configured() {
        let (own, mail) =
            (JobLocation::Queue("arborescent".to_owned()), JobLocation::Queue("mail".to_owned()));
        assert_eq!(locations(&queue_state(0, 0), CountedQueues::All, false), []);
        assert_eq!(
            locations(&QueueState::default(), CountedQueues::Queue, false),
            [],
            "a queue that was never used"
        );
        assert_eq!(locations(&queue_state(0, 4), CountedQueues::Queue, false), []);
        assert_eq!(locations(&queue_state(0, 4), CountedQueues::All, false), [(mail.clone(), 4)]);
        assert_eq!(locations(&queue_state(3, 4), CountedQueues::Queue, false), [(own.clone(), 3)]);
        assert_eq!(locations(&queue_state(3, 4), CountedQueues::All, true), [(own, 3), (mail, 4)]);
    }

    /// Flaws 5 and 6: jobs in other locations block, of any owner, and are named. Dead jobs can be ignored.
    #[test]
    fn flaw_5_and_6_jobs_in_other_locations_block_and_are_named() {
        for (queue_state, location, word) in [
            (
                QueueState { working: 1, ..QueueState::default() },
                JobLocation::Working,
                "1 job of any type with workers",
            ),
            (
                QueueState { retries: 2, ..QueueState::default() },
                JobLocation::Retries,
                "2 jobs of any type will be retried",
            ),
            (QueueState { scheduled: 2, ..QueueState::default() }, JobLocation::Scheduled, "scheduled"),
            (QueueState { dead: 2, ..QueueState::default() }, JobLocation::Dead, "producer.ignore_dead"),
        ] {
            let found = blockers(&queue_state, &criteria(CountedQueues::Queue, false));
            assert_eq!(found.iter().map(|blocker| &blocker.location).collect::<Vec<_>>(), [&location]);
            assert!(found[0].to_string().contains(word), "{}", found[0]);
            let without_dead = blockers(&queue_state, &criteria(CountedQueues::Queue, true));
            assert_eq!(without_dead.is_empty(), location == JobLocation::Dead);
        }
    }
}
