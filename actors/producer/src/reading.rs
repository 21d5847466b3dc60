//! Contents of one INFO, and the jobs in it that keep a TCN from being complete (CONTRACT SO07).

use std::{collections::BTreeMap, fmt};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the queue's server said of itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reading {
    /// Jobs that wait, by queue. One that was never used is missing.
    pub queues: BTreeMap<String, u64>,
    /// Jobs that have failed for good, of the whole server.
    pub dead: u64,
    /// Jobs that failed and will be tried again, of the whole server.
    pub retries: u64,
    /// Jobs for later, of the whole server.
    pub scheduled: u64,
    /// Jobs in workers' hands, of the whole server.
    pub working: u64,
    /// Jobs that were acknowledged or failed since the server's data began.
    pub processed: u64,
}

impl Reading {
    /// Jobs that wait in `queue`.
    pub fn length(&self, queue: &str) -> u64 {
        self.queues.get(queue).copied().unwrap_or_default()
    }
}

/// Which queues' lengths keep a TCN from being complete. What is in other places counts server-wide: the server does not tell
/// them apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Count {
    /// The queue that jobs are pushed to, as the original.
    #[default]
    Queue,
    /// All queues of the server.
    All,
}

/// How a reading is judged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judgement {
    /// The queue that jobs are pushed to.
    pub queue: String,
    /// Which queues count.
    pub count: Count,
    /// Do jobs that have failed for good not count?
    pub ignore_dead: bool,
}

/// Where jobs are that block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// In a queue.
    Queue(String),
    /// With workers.
    Working,
    /// Waiting for another try.
    Retries,
    /// Waiting for their time.
    Scheduled,
    /// Failed for good.
    Dead,
}

/// Jobs that block, and what to do about them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocker {
    /// Where they are.
    pub place: Place,
    /// How many.
    pub jobs: u64,
}

impl fmt::Display for Blocker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let jobs = if self.jobs == 1 { "1 job" } else { &format!("{} jobs", self.jobs) };
        match &self.place {
            Place::Queue(name) => write!(f, "{jobs} in queue {name}: workers take them"),
            Place::Working => write!(f, "{jobs} of any type with workers: wait for them"),
            Place::Retries => write!(f, "{jobs} of any type will be tried again: see why they fail"),
            Place::Scheduled => write!(f, "{jobs} of any type scheduled for later: wait for them"),
            Place::Dead => write!(
                f,
                "{jobs} of any type dead: requeue or discard what is dead, or set producer.ignore_dead = true"
            ),
        }
    }
}

/// What keeps a TCN from being complete by `reading`; nothing if all jobs are done.
pub fn blockers(reading: &Reading, judgement: &Judgement) -> Vec<Blocker> {
    let counts = |name: &str| judgement.count == Count::All || name == judgement.queue;
    let queues = reading.queues.iter().filter(|(name, _)| counts(name));
    let mut all: Vec<_> =
        queues.map(|(name, jobs)| Blocker { place: Place::Queue(name.clone()), jobs: *jobs }).collect();
    for (place, jobs) in [
        (Place::Working, reading.working),
        (Place::Retries, reading.retries),
        (Place::Scheduled, reading.scheduled),
        (Place::Dead, if judgement.ignore_dead { 0 } else { reading.dead }),
    ] {
        all.push(Blocker { place, jobs });
    }
    all.retain(|blocker| blocker.jobs > 0);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judgement(count: Count, ignore_dead: bool) -> Judgement {
        Judgement { queue: "arborescent".to_owned(), count, ignore_dead }
    }

    fn reading(own: u64, foreign: u64) -> Reading {
        let queues = [("arborescent".to_owned(), own), ("mail".to_owned(), foreign)].into();
        Reading { queues, ..Reading::default() }
    }

    fn places(reading: &Reading, count: Count, ignore_dead: bool) -> Vec<(Place, u64)> {
        let blockers = blockers(reading, &judgement(count, ignore_dead)).into_iter();
        blockers.map(|blocker| (blocker.place, blocker.jobs)).collect()
    }

    #[test]
    fn queues_count_as_chosen() {
        let (own, mail) = (Place::Queue("arborescent".to_owned()), Place::Queue("mail".to_owned()));
        assert_eq!(places(&reading(0, 0), Count::All, false), []);
        assert_eq!(places(&Reading::default(), Count::Queue, false), [], "a queue that was never used");
        assert_eq!(places(&reading(0, 4), Count::Queue, false), []);
        assert_eq!(places(&reading(0, 4), Count::All, false), [(mail.clone(), 4)]);
        assert_eq!(places(&reading(3, 4), Count::Queue, false), [(own.clone(), 3)]);
        assert_eq!(places(&reading(3, 4), Count::All, true), [(own, 3), (mail, 4)]);
    }

    /// Flaws 5 and 6: what is elsewhere blocks, whosever it is. It is told in words, and the dead can be left out.
    #[test]
    fn flaw_5_and_6_jobs_of_others_block_and_are_named() {
        for (reading, place, word) in [
            (Reading { working: 1, ..Reading::default() }, Place::Working, "1 job of any type with workers"),
            (
                Reading { retries: 2, ..Reading::default() },
                Place::Retries,
                "2 jobs of any type will be tried again",
            ),
            (Reading { scheduled: 2, ..Reading::default() }, Place::Scheduled, "scheduled"),
            (Reading { dead: 2, ..Reading::default() }, Place::Dead, "producer.ignore_dead"),
        ] {
            let found = blockers(&reading, &judgement(Count::Queue, false));
            assert_eq!(found.iter().map(|blocker| &blocker.place).collect::<Vec<_>>(), [&place]);
            assert!(found[0].to_string().contains(word), "{}", found[0]);
            let without_dead = blockers(&reading, &judgement(Count::Queue, true));
            assert_eq!(without_dead.is_empty(), place == Place::Dead);
        }
    }
}
