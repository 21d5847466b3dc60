//! Messages that are stored together. Pure but for the reply channels.

use orchestrator_supervise::Reply;
use std::collections::VecDeque;

use crate::{
    messages::{Refusal, Request, Settled},
    row::Rows,
};

/// Whole messages of one method, whose rows are written together.
#[derive(Debug)]
pub(crate) struct Batch {
    rows: Rows,
    /// Where each message's rows end, and who waits for it.
    messages: Vec<(usize, Reply<Settled>)>,
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
        Some(Self { rows, messages })
    }

    /// Its rows, in the order of the messages.
    pub(crate) fn rows(&self) -> &Rows {
        &self.rows
    }

    /// Tells every message what became of it: all rows are stored but the `refused` ones, which are in order. Gives the number of rows
    /// stored and refused.
    pub(crate) fn settle(self, refused: Vec<Refusal>) -> (usize, usize) {
        let counts = (self.rows.len() - refused.len(), refused.len());
        let mut refused = refused.into_iter().peekable();
        let mut start = 0;
        for (end, reply) in self.messages {
            let mut settled = Settled::default();
            while let Some(Refusal { index, reason }) = refused.next_if(|row| (row.index as usize) < end) {
                settled.refused.push(Refusal { index: index - start as u32, reason });
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
pub(crate) mod tests;
