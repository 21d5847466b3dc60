//! Batches of messages. Pure, except for the reply channels.

use orchestrator_supervise::Reply;
use std::collections::VecDeque;

use crate::{
    messages::{Outcome, Refusal, Request},
    row::Rows,
};

/// Whole messages of one method, whose rows are written together (CONTRACT PO06).
#[derive(Debug)]
pub(crate) struct Batch {
    rows: Rows,
    /// End position of each message's rows, and its reply channel.
    messages: Vec<(usize, Reply<Outcome>)>,
}

impl Batch {
    /// Takes messages from the front of `waiting` up to `limit` rows, at least one message; None if
    /// `waiting` is empty. All messages of a queue have one method.
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

    /// Rows in the order of the messages.
    pub(crate) fn rows(&self) -> &Rows {
        &self.rows
    }

    /// Nobody waits for an answer any more.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.messages.iter().all(|(_, reply)| reply.is_closed())
    }

    /// Answers each message: all rows are stored except the `refused` ones, which are in order. The numbers
    /// are those of stored and refused rows.
    pub(crate) fn settle(self, refused: Vec<Refusal>) -> (usize, usize) {
        let counts = (self.rows.len() - refused.len(), refused.len());
        let mut refused = refused.into_iter().peekable();
        let mut start = 0;
        for (end, reply) in self.messages {
            let mut settled = Outcome::default();
            while let Some(Refusal { index, reason }) = refused.next_if(|row| (row.index as usize) < end) {
                settled.refused.push(Refusal { index: index - start as u32, reason });
            }
            settled.stored = (end - start - settled.refused.len()) as u64;
            start = end;
            // The sender may have ended; the broker then delivers the message again.
            let _ = reply.send(settled);
        }
        counts
    }
}

#[cfg(test)]
pub(crate) mod tests;
