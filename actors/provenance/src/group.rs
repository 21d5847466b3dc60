//! Write requests that share a transaction, and the bisection of refused groups. Pure, except for
//! the reply channels.

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

/// Number of tries before a single row is permanently refused.
const TRIES: u32 = 3;

/// Write requests of several workers. Their rows are written together; a refused group is bisected
/// to isolate the bad rows (CONTRACT PE03).
#[derive(Debug)]
pub(crate) struct Group {
    /// Sorted by [`Method`](crate::method::Method): entities before the relations that refer to
    /// them.
    requests: Vec<Pending>,
    /// Parts still to be written, except for refused single rows.
    parts: VecDeque<Range<usize>>,
    /// Refused single rows by the time of the next try, with the number of refusals.
    retries: BTreeMap<(Instant, usize), u32>,
    /// True once the store has refused a part.
    is_refused: bool,
}

/// Request with unsettled rows.
#[derive(Debug)]
struct Pending {
    rows: Rows,
    /// Position of its first row in the group.
    start: usize,
    /// Number of rows that are neither stored nor refused.
    unsettled: usize,
    refused: Vec<Refusal>,
    /// None once it is answered.
    reply: Option<Reply<Vec<Refusal>>>,
}

impl Group {
    /// Takes requests in order of arrival.
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
        let mut group = Self { requests, parts, retries: BTreeMap::new(), is_refused: false };
        // Answers requests without rows at once.
        group.settle(&(0..0), None);
        group
    }

    /// One element for each method, conflicts resolved; None if all rows are settled.
    pub(crate) fn next_part(&self) -> Option<Vec<Rows>> {
        let range = &self.next_range()?;
        let mut merged: Vec<Rows> = Vec::new();
        for request in &self.requests {
            let Some(within) = request.overlap(range) else { continue };
            let whole = within.len() == request.rows.len();
            let rows = if whole { request.rows.clone() } else { request.rows.part(within) };
            let rows = rows.resolve();
            match merged.last_mut() {
                // Both have the same method, so this succeeds.
                Some(last) if last.method() == rows.method() => drop(last.merge(rows)),
                _ => merged.push(rows),
            }
        }
        Some(merged)
    }

    /// The next part must not be written earlier. None without a delay.
    pub(crate) fn not_before(&self) -> Option<Instant> {
        if !self.parts.is_empty() {
            return None;
        }
        self.retries.first_key_value().map(|((at, _), _)| *at)
    }

    /// Nobody waits for an answer any more.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.requests.iter().filter_map(|request| request.reply.as_ref()).all(Reply::is_closed)
    }

    pub(crate) fn is_settled(&self) -> bool {
        self.next_range().is_none()
    }

    /// The store has refused a part.
    pub(crate) fn is_refused(&self) -> bool {
        self.is_refused
    }

    /// Records that the next part is stored.
    pub(crate) fn part_stored(&mut self) {
        if let Some((range, _)) = self.take_part() {
            self.settle(&range, None);
        }
    }

    /// Records that the store refused the next part. A part of several rows is halved. A single row
    /// is tried again after the others, not before `retry_at(refusals)`, and finally refused.
    pub(crate) fn part_refused(&mut self, reason: String, retry_at: impl FnOnce(u32) -> Instant) {
        let Some((range, refusals)) = self.take_part() else { return };
        self.is_refused = true;
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

    /// Removes the next part, with its number of refusals.
    fn take_part(&mut self) -> Option<(Range<usize>, u32)> {
        if let Some(range) = self.parts.pop_front() {
            return Some((range, 0));
        }
        self.retries.pop_first().map(|((_, row), refusals)| (row..row + 1, refusals))
    }

    /// Marks rows as stored, or as permanently refused with a reason, and answers the requests that
    /// have no others.
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
                Refusal::sort(&mut refused);
                // A worker that was restarted sends its rows again.
                let _ = reply.send(refused);
            }
        }
    }
}

impl Pending {
    /// Its rows within `range` of the group, by their positions in the request.
    fn overlap(&self, range: &Range<usize>) -> Option<Range<usize>> {
        let (first, last) = (range.start.max(self.start), range.end.min(self.start + self.rows.len()));
        (first < last).then(|| first - self.start..last - self.start)
    }
}

#[cfg(test)]
mod tests;
