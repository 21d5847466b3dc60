//! Messages that are stored together, and what becomes of each of their rows. Pure but for the reply channels.

use std::{collections::VecDeque, ops::Range};

use tokio::sync::oneshot;

use crate::{
    messages::{Refusal, Request, Settled},
    row::Rows,
};

/// How often a single row is tried before it counts as refused for good.
const TRIES: u32 = 3;

/// Whole messages of one method. Their rows are written together; where the store refuses them, in halves, until the rows
/// at fault stand alone.
#[derive(Debug)]
pub(crate) struct Batch {
    rows: Rows,
    /// Where each message's rows end, and who waits for it.
    messages: Vec<(usize, oneshot::Sender<Settled>)>,
    /// Parts that are still to be written, the next one last.
    todo: Vec<Range<usize>>,
    refused: Vec<(usize, String)>,
    /// Refusals in a row of the part that is next.
    refusals: u32,
}

impl Batch {
    /// Takes messages from the front of `waiting` until there are `limit` rows, one message at least; None when nothing
    /// waits. All messages of a queue are of one method.
    pub(crate) fn gather(waiting: &mut VecDeque<Request>, limit: usize) -> Option<Self> {
        let first = waiting.pop_front()?;
        let mut rows = first.rows;
        let mut messages = vec![(rows.len(), first.reply)];
        while let Some(next) = waiting.front()
            && rows.len() + next.rows.len() <= limit
            && next.rows.method() == rows.method()
        {
            let Some(Request { rows: more, reply }) = waiting.pop_front() else { break };
            if rows.append(more).is_err() {
                break;
            }
            messages.push((rows.len(), reply));
        }
        let todo = Vec::from_iter((!rows.is_empty()).then_some(0..rows.len()));
        Some(Self { rows, messages, todo, refused: Vec::new(), refusals: 0 })
    }

    /// How many rows there are.
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// The rows to be written next, conflicts resolved; None when there are no more.
    pub(crate) fn next_part(&self) -> Option<Rows> {
        let range = self.todo.last()?;
        let rows =
            if range.len() == self.rows.len() { self.rows.clone() } else { self.rows.part(range.clone()) };
        Some(rows.resolve())
    }

    /// The next part is stored.
    pub(crate) fn part_stored(&mut self) {
        self.todo.pop();
        self.refusals = 0;
    }

    /// The store refused the next part: it is halved, or, when it is one row, tried again for a while and then given up.
    /// Says whether that same row is to be tried again.
    pub(crate) fn part_refused(&mut self, reason: String) -> bool {
        let Some(range) = self.todo.pop() else { return false };
        self.refusals += 1;
        if range.len() > 1 {
            self.refusals = 0;
            let middle = range.start + range.len() / 2;
            self.todo.push(middle..range.end);
            self.todo.push(range.start..middle);
            return false;
        }
        if self.refusals < TRIES {
            self.todo.push(range);
            return true;
        }
        self.refusals = 0;
        self.refused.push((range.start, reason));
        false
    }

    /// Why the last of the refused rows was.
    pub(crate) fn last_refusal(&self) -> Option<&str> {
        self.refused.last().map(|(_, reason)| reason.as_str())
    }

    /// Tells every message what became of it. Gives the number of rows stored and refused.
    pub(crate) fn settle(self) -> (usize, usize) {
        let counts = (self.rows.len() - self.refused.len(), self.refused.len());
        // Parts are done from front to back, so the refusals are in order.
        let mut refused = self.refused.into_iter().peekable();
        let mut start = 0;
        for (end, reply) in self.messages {
            let mut settled = Settled::default();
            while let Some((index, reason)) = refused.next_if(|(index, _)| *index < end) {
                settled.refused.push(Refusal { index: (index - start) as u32, reason });
            }
            settled.stored = (end - start - settled.refused.len()) as u32;
            start = end;
            // Whoever sent it may be gone: its broker delivers it again.
            let _ = reply.send(settled);
        }
        counts
    }
}

#[cfg(test)]
mod tests;
