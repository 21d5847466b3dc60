//! Limits of the model: the first of paths that begin with `pkg1`, the second of the fetcher repology.

use super::{Model, QueueRow};

#[derive(Debug, Clone, Default)]
pub(super) struct Limited {
    /// Maximum numbers of jobs in flight; none without limits.
    allowed: Option<[u32; 2]>,
    /// Recorded paths with the fetchers of their hand-outs.
    jobs: Vec<(String, usize)>,
}

impl Limited {
    pub(super) fn new(allowed: Option<[u32; 2]>) -> Self {
        Self { allowed, jobs: Vec::new() }
    }
}

impl Model {
    fn class(&self, attr: &str, fetcher: usize) -> Option<usize> {
        self.limited.allowed?;
        if attr.starts_with("pkg1") {
            return Some(0);
        }
        (self.fetcher_names[fetcher] == "repology").then_some(1)
    }

    fn jobs_of(&self, class: usize) -> Vec<(String, i64)> {
        let of_class =
            self.limited.jobs.iter().filter(|(attr, fetcher)| self.class(attr, *fetcher) == Some(class));
        of_class
            .filter_map(|(attr, _)| match self.log_of(attr) {
                Some((started, None, _)) => Some((attr.clone(), started)),
                _ => None,
            })
            .collect()
    }

    pub(super) fn is_limited(&self, row: &QueueRow, now: i64) -> bool {
        let (Some(class), Some(allowed)) = (self.class(&row.attr, row.fetcher), self.limited.allowed) else {
            return false;
        };
        let held = self.jobs_of(class).into_iter().filter(|(_, started)| started + self.hold >= now).count();
        held >= allowed[class] as usize
    }

    /// Models a change of the path's log row by the store.
    pub(super) fn end_limited(&mut self, attr: &str) {
        if matches!(self.log_of(attr), Some((_, None, _))) {
            self.limited.jobs.retain(|(known, _)| known != attr);
        }
    }

    pub(super) fn begin_limited(&mut self, attr: &str, fetcher: usize, now: i64) {
        self.limited.jobs.retain(|(known, _)| known != attr);
        if let Some(class) = self.class(attr, fetcher) {
            let (jobs, hold) = (self.jobs_of(class), self.hold);
            let expired =
                |attr: &str| jobs.iter().any(|(known, started)| known == attr && started + hold < now);
            self.limited.jobs.retain(|(known, _)| !expired(known));
            self.limited.jobs.push((attr.to_owned(), fetcher));
        }
    }
}
