//! Bumps of the model: paths that are handed out before all others, once.

use super::{Model, QueueRow};

/// Maximum number of bumps.
const MAX: usize = 32;

#[derive(Debug, Clone, Default)]
pub(super) struct Bumps {
    /// Paths in order.
    waiting: Vec<(usize, String)>,
    /// Bumps used by hand-outs, by hand-out.
    used: Vec<(i64, usize, String)>,
    added: usize,
}

impl Bumps {
    /// Forgets the bumps that other hand-outs used.
    pub(super) fn keep_used(&mut self, is_kept: impl Fn(i64) -> bool) {
        self.used.retain(|(handout, _, _)| is_kept(*handout));
    }
}

impl Model {
    /// Returns `done`, `nothing waits` or `too many`.
    pub(crate) fn bump(&mut self, attr: &str) -> &'static str {
        if !self.is_ready(attr) {
            return "nothing waits";
        }
        if self.bumps.waiting.iter().any(|(_, known)| known == attr) {
            return "done";
        }
        if self.bumps.waiting.len() == MAX {
            return "too many";
        }
        self.bumps.used.retain(|(_, _, known)| known != attr);
        self.bumps.added += 1;
        self.bumps.waiting.push((self.bumps.added, attr.to_owned()));
        "done"
    }

    fn is_ready(&self, attr: &str) -> bool {
        self.standing().iter().any(|row| row.attr == attr && !row.dequeued)
    }

    /// Moves the first eligible row of the first bumped path that has one to the front.
    pub(super) fn order_by_bumps(&mut self, mut eligible: Vec<QueueRow>) -> (Vec<QueueRow>, bool) {
        let waiting = self.bumps.waiting.clone();
        for (number, attr) in waiting {
            if !self.is_ready(&attr) {
                self.bumps.waiting.retain(|(known, _)| *known != number);
            } else if let Some(at) = eligible.iter().position(|row| row.attr == attr) {
                let first = eligible.remove(at);
                eligible.insert(0, first);
                return (eligible, true);
            }
        }
        (eligible, false)
    }

    pub(super) fn use_bump(&mut self, attr: &str, handout: i64) {
        if let Some(at) = self.bumps.waiting.iter().position(|(_, known)| known == attr) {
            let (number, attr) = self.bumps.waiting.remove(at);
            self.bumps.used.push((handout, number, attr));
        }
    }

    pub(super) fn forget_bump(&mut self, attr: &str) {
        self.bumps.used.retain(|(_, _, used)| used != attr);
    }

    pub(super) fn restore_bump(&mut self, handout: i64) {
        if let Some(at) = self.bumps.used.iter().position(|used| used.0 == handout) {
            let (_, number, attr) = self.bumps.used.remove(at);
            self.bumps.waiting.push((number, attr));
            self.bumps.waiting.sort();
        }
    }

    pub(crate) fn bumps_as_text(&self) -> Vec<String> {
        let mut paths: Vec<String> = self.bumps.waiting.iter().map(|(_, attr)| attr.clone()).collect();
        paths.sort();
        paths
    }
}
