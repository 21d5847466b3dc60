//! Write requests that share a transaction, and the rows at fault among theirs. Pure but for the reply channels.

use std::{
    collections::{BTreeMap, VecDeque},
    ops::Range,
};

use orchestrator_supervise::Reply;
use tokio::time::Instant;

use crate::{
    messages::{Refusal, WriteRequest},
    row::Rows,
};

/// How often a single row is tried before it counts as refused for good.
const TRIES: u32 = 3;

/// Requests of several workers. Their rows are written together; where the store refuses them, in halves, until the rows at fault stand
/// alone.
#[derive(Debug)]
pub(crate) struct Group {
    /// By [`Method`](crate::method::Method): entities before the relations between them, which need them.
    requests: Vec<Pending>,
    /// Parts that are still to be written, but for single rows that were refused.
    parts: VecDeque<Range<usize>>,
    /// Such rows, each with the time of its next try, and how often it was refused.
    retries: BTreeMap<(Instant, usize), u32>,
}

/// A request.
#[derive(Debug)]
struct Pending {
    rows: Rows,
    /// Position of its first row in the group.
    start: usize,
    /// Rows that are neither stored nor refused.
    unsettled: usize,
    refused: Vec<Refusal>,
    /// None: it is answered.
    reply: Option<Reply<Vec<Refusal>>>,
}

impl Group {
    /// Requests in the order of their arrival.
    pub(crate) fn new(mut requests: Vec<WriteRequest>) -> Self {
        requests.sort_by_key(|request| request.rows.method());
        let mut end = 0;
        let pending = requests.into_iter().map(|WriteRequest { rows, reply }| {
            let (start, count) = (end, rows.len());
            end += count;
            Pending { rows, start, unsettled: count, refused: Vec::new(), reply: Some(reply) }
        });
        let requests: Vec<_> = pending.collect();
        let parts = VecDeque::from_iter((end > 0).then_some(0..end));
        let mut group = Self { requests, parts, retries: BTreeMap::new() };
        // A request without rows is stored.
        group.settle(&(0..0), None);
        group
    }

    /// The rows to be written next, one element for each method, conflicts resolved; None when there are no more.
    pub(crate) fn next_part(&self) -> Option<Vec<Rows>> {
        let range = &self.next_range()?;
        let mut merged: Vec<Rows> = Vec::new();
        for request in &self.requests {
            let Some(within) = request.overlap(range) else { continue };
            let whole = within.len() == request.rows.len();
            let rows = if whole { request.rows.clone() } else { request.rows.part(within) };
            let rows = rows.resolve();
            match merged.last_mut() {
                // The methods are the same, so there is nothing to be given back.
                Some(last) if last.method() == rows.method() => drop(last.absorb(rows)),
                _ => merged.push(rows),
            }
        }
        Some(merged)
    }

    /// Time before which the next part must not be written; None: it may be at once.
    pub(crate) fn not_before(&self) -> Option<Instant> {
        if !self.parts.is_empty() {
            return None;
        }
        self.retries.first_key_value().map(|((at, _), _)| *at)
    }

    /// Tells whether no part is left.
    pub(crate) fn is_settled(&self) -> bool {
        self.next_range().is_none()
    }

    /// The next part is stored.
    pub(crate) fn part_stored(&mut self) {
        if let Some((range, _)) = self.take_part() {
            self.settle(&range, None);
        }
    }

    /// The store refused the next part: it is halved, or, when it is one row, tried again after the others, no earlier than `retry_at` says
    /// of a row that was refused so often, and in the end given up.
    pub(crate) fn part_refused(&mut self, reason: String, retry_at: impl FnOnce(u32) -> Instant) {
        let Some((range, refusals)) = self.take_part() else { return };
        if range.len() > 1 {
            let middle = range.start + range.len() / 2;
            self.parts.push_front(middle..range.end);
            self.parts.push_front(range.start..middle);
        } else if refusals + 1 < TRIES {
            self.retries.insert((retry_at(refusals + 1), range.start), refusals + 1);
        } else {
            self.settle(&range, Some(reason));
        }
    }

    fn next_range(&self) -> Option<Range<usize>> {
        let retry = || self.retries.first_key_value().map(|(&(_, row), _)| row..row + 1);
        self.parts.front().cloned().or_else(retry)
    }

    /// The next part, and how often it was refused.
    fn take_part(&mut self) -> Option<(Range<usize>, u32)> {
        if let Some(range) = self.parts.pop_front() {
            return Some((range, 0));
        }
        self.retries.pop_first().map(|((_, row), refusals)| (row..row + 1, refusals))
    }

    /// Rows are stored, or refused for good; requests without any others are answered.
    fn settle(&mut self, range: &Range<usize>, refused: Option<String>) {
        for request in &mut self.requests {
            if let Some(within) = request.overlap(range) {
                request.unsettled -= within.len();
                if let Some(reason) = &refused {
                    let refusal = |index| Refusal { index: index as u32, reason: reason.clone() };
                    request.refused.extend(within.map(refusal));
                }
            }
            if request.unsettled == 0
                && let Some(reply) = request.reply.take()
            {
                let mut refused = std::mem::take(&mut request.refused);
                refused.sort_by_key(|refusal| refusal.index);
                // A worker that was restarted asks again.
                let _ = reply.send(refused);
            }
        }
    }
}

impl Pending {
    /// Its own rows among those at `range` of the group.
    fn overlap(&self, range: &Range<usize>) -> Option<Range<usize>> {
        let (first, last) = (range.start.max(self.start), range.end.min(self.start + self.rows.len()));
        (first < last).then(|| first - self.start..last - self.start)
    }
}

#[cfg(test)]
mod tests;
