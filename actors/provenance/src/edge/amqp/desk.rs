//! The calls under way and what is left to send for them. Knows no broker; the time is handed in.
//!
//! A response says how many items are stored, not which. So when the connection is lost in mid-call all of the call's
//! messages are sent again, under a correlation id of their own, and only responses to that one count: storing a row again
//! changes nothing, and no item is counted twice.

use std::{
    collections::{HashMap, VecDeque},
    time::Duration,
};

use orchestrator_supervise::sanitize;
use tokio::time::Instant;
use uuid::Uuid;

use super::call::{Call, Outgoing, Patience};
use crate::call::CallError;

/// A message that found no queue is sent again after so long, if its call was under way when the connection was lost: the
/// queues died with the broker, and the servers may be a moment behind us.
const SEND_AGAIN: Duration = Duration::from_millis(200);

/// Calls by the correlation id under which their messages were sent last.
#[derive(Debug)]
pub(super) struct Desk {
    patience: Patience,
    open: HashMap<String, Open>,
    to_send: VecDeque<(String, usize)>,
    /// What is to be sent again, in order of time.
    later: VecDeque<(Instant, String, usize)>,
    bytes: usize,
}

#[derive(Debug)]
struct Open {
    call: Call,
    expected: u64,
    received: u64,
    deadline: Instant,
    bytes: usize,
    /// The connection was lost since it was taken on.
    shaken: bool,
}

impl Desk {
    pub(super) fn new(patience: Patience) -> Self {
        Self { patience, open: HashMap::new(), to_send: VecDeque::new(), later: VecDeque::new(), bytes: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    pub(super) fn calls(&self) -> usize {
        self.open.len()
    }

    /// How many bytes the bodies of all open calls have.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes a call on. One without items is done at once.
    pub(super) fn admit(&mut self, call: Call, now: Instant) {
        let expected = call.messages.iter().map(|message| u64::from(message.items)).sum();
        if expected == 0 {
            // Whoever does not wait any more need not be told.
            let _ = call.reply.send(Ok(0));
            return;
        }
        let bytes = call.messages.iter().map(|message| message.body.len()).sum();
        self.bytes += bytes;
        let deadline = now + self.patience.wait(expected);
        self.enlist(Open { call, expected, received: 0, deadline, bytes, shaken: false });
    }

    fn enlist(&mut self, open: Open) {
        // The original has ids of version 4, too.
        let id = Uuid::new_v4().to_string();
        self.to_send.extend((0..open.call.messages.len()).map(|index| (id.clone(), index)));
        self.open.insert(id, open);
    }

    /// The next message to send, and its call's correlation id.
    pub(super) fn next_to_send(&mut self) -> Option<(String, Outgoing)> {
        while let Some((id, index)) = self.to_send.pop_front() {
            // A call that has ended meanwhile, or that nobody waits for any more, sends nothing more.
            if self.open.get(&id).is_some_and(|open| open.call.reply.is_closed()) {
                self.end(&id, Err(CallError::Stopping));
            }
            if let Some(open) = self.open.get(&id) {
                return Some((id, open.call.messages[index].clone()));
            }
        }
        None
    }

    /// A response: `stored` items of the call `id`. Responses to calls that ended are passed over.
    pub(super) fn respond(&mut self, id: &str, stored: u64, now: Instant) {
        let Some(open) = self.open.get_mut(id) else { return };
        open.received = open.received.saturating_add(stored);
        open.deadline = now + self.patience.wait(open.expected);
        let (received, expected) = (open.received, open.expected);
        if received >= expected {
            let all = received == expected;
            self.end(id, if all { Ok(received) } else { Err(CallError::TooManyAcks { received, expected }) });
        }
    }

    /// The broker has no queue for the message of the call `id` with this routing key and body. A new call fails. For one
    /// that was under way when the connection was lost, the message is sent again: as it reached nobody, under the same
    /// correlation id.
    pub(super) fn unroutable(&mut self, id: &str, routing_key: &str, body: &[u8], now: Instant) {
        let Some(open) = self.open.get(id) else { return };
        // Messages that are alike stand for each other.
        let alike = |message: &Outgoing| message.routing_key == routing_key && message.body == body;
        match open.call.messages.iter().position(alike).filter(|_| open.shaken) {
            Some(index) => self.later.push_back((now + SEND_AGAIN, id.to_owned(), index)),
            None => self.end(id, Err(CallError::Unroutable(sanitize(routing_key)))),
        }
    }

    /// The broker does not take a message of the call `id`.
    pub(super) fn refused(&mut self, id: &str) {
        self.end(id, Err(CallError::Refused));
    }

    pub(super) fn fail_all(&mut self, error: &CallError) {
        let ids: Vec<String> = self.open.keys().cloned().collect();
        ids.iter().for_each(|id| self.end(id, Err(error.clone())));
    }

    /// When the next call is over-due, or a message is to be sent again.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let later = self.later.front().map(|&(at, ..)| at);
        self.open.values().map(|open| open.deadline).chain(later).min()
    }

    /// Fails the calls that are over-due, and gives their number; lines up what is to be sent again.
    pub(super) fn expire(&mut self, now: Instant) -> usize {
        while let Some((_, id, index)) = self.later.pop_front_if(|&mut (at, ..)| at <= now) {
            self.to_send.push_back((id, index));
        }
        let due = self.open.iter().filter(|(_, open)| open.deadline <= now);
        let due: Vec<_> = due.map(|(id, open)| (id.clone(), open.received, open.expected)).collect();
        for (id, received, expected) in &due {
            let (received, expected) = (*received, *expected);
            let waited = self.patience.wait(expected);
            self.end(id, Err(CallError::TimedOut { received, expected, waited }));
        }
        due.len()
    }

    /// The connection is lost: every open call starts again, with nothing received, under a new correlation id. Its deadline
    /// stays, or a broker that comes and goes would keep it open for ever. Gives the number of calls.
    pub(super) fn start_again(&mut self) -> usize {
        self.to_send.clear();
        self.later.clear();
        let open: Vec<Open> = self.open.drain().map(|(_, open)| open).collect();
        let count = open.len();
        for open in open {
            self.enlist(Open { received: 0, shaken: true, ..open });
        }
        count
    }

    fn end(&mut self, id: &str, end: Result<u64, CallError>) {
        if let Some(open) = self.open.remove(id) {
            self.bytes -= open.bytes;
            let _ = open.call.reply.send(end);
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use orchestrator_supervise::{Pending, reply};

    use super::*;
    use crate::method::Exchange;

    type Told = Pending<Result<u64, CallError>>;

    fn admit(desk: &mut Desk, items: &[u32], now: Instant) -> Told {
        let (reply, told) = reply();
        let message = |&items: &u32| Outgoing {
            exchange: Exchange::Origin,
            routing_key: "origin_add.unknown.0".to_owned(),
            body: Bytes::from_static(b"12345"),
            items,
        };
        desk.admit(Call { messages: items.iter().map(message).collect(), reply }, now);
        told
    }

    fn sent(desk: &mut Desk) -> Vec<String> {
        std::iter::from_fn(|| desk.next_to_send()).map(|(id, _)| id).collect()
    }

    #[test]
    fn a_call_ends_when_its_items_are_counted_and_is_told_of_too_many() {
        let (mut desk, now) = (Desk::new(Patience::default()), Instant::now());
        let (mut exact, mut over, mut empty) =
            (admit(&mut desk, &[3, 2], now), admit(&mut desk, &[1], now), admit(&mut desk, &[], now));
        assert_eq!(empty.try_recv(), Ok(Some(Ok(0))));
        assert_eq!((desk.calls(), desk.bytes()), (2, 15));
        let ids = sent(&mut desk);
        assert!(ids[0] == ids[1] && ids[1] != ids[2] && ids[0].len() == 36 && &ids[0][14..15] == "4");
        desk.respond(&ids[0], 4, now);
        desk.respond("another's", 4, now);
        assert_eq!(exact.try_recv(), Ok(None));
        desk.respond(&ids[0], 1, now);
        desk.respond(&ids[2], 2, now);
        assert_eq!(exact.try_recv(), Ok(Some(Ok(5))));
        assert_eq!(over.try_recv(), Ok(Some(Err(CallError::TooManyAcks { received: 2, expected: 1 }))));
        assert_eq!((desk.calls(), desk.bytes()), (0, 0));
    }

    #[test]
    fn after_a_loss_only_responses_to_what_was_sent_again_count() {
        let (mut desk, now) = (Desk::new(Patience::default()), Instant::now());
        let mut told = admit(&mut desk, &[3, 2], now);
        let old = sent(&mut desk);
        desk.respond(&old[0], 3, now);
        assert_eq!(desk.start_again(), 1);
        let new = sent(&mut desk);
        assert!(new.len() == 2 && new[0] != old[0]);
        desk.respond(&old[0], 2, now);
        desk.respond(&new[0], 2, now);
        assert_eq!(told.try_recv(), Ok(None), "3 of before and 2 of now are not all");
        desk.respond(&new[0], 3, now);
        assert_eq!(told.try_recv(), Ok(Some(Ok(5))));
    }

    #[test]
    fn a_message_without_a_queue_fails_a_new_call_and_is_sent_again_for_one_that_lost_its_connection() {
        let (mut desk, now) = (Desk::new(Patience::default()), Instant::now());
        let key = "origin_add.unknown.0";
        let mut new = admit(&mut desk, &[1], now);
        let ids = sent(&mut desk);
        desk.unroutable(&ids[0], key, b"12345", now);
        assert_eq!(new.try_recv(), Ok(Some(Err(CallError::Unroutable(key.to_owned())))));
        let mut shaken = admit(&mut desk, &[1], now);
        desk.start_again();
        let ids = sent(&mut desk);
        desk.unroutable(&ids[0], key, b"12345", now);
        assert_eq!(desk.next_deadline(), Some(now + SEND_AGAIN));
        assert!(sent(&mut desk).is_empty());
        assert_eq!(desk.expire(now + SEND_AGAIN), 0);
        assert_eq!(sent(&mut desk), ids);
        desk.respond(&ids[0], 1, now);
        assert_eq!(shaken.try_recv(), Ok(Some(Ok(1))));
    }

    #[test]
    fn a_call_that_nobody_waits_for_sends_nothing_more() {
        let (mut desk, now) = (Desk::new(Patience::default()), Instant::now());
        let mut held = admit(&mut desk, &[1], now);
        drop(admit(&mut desk, &[1, 1], now));
        let ids = sent(&mut desk);
        assert_eq!((ids.len(), desk.calls(), desk.bytes()), (1, 1, 5));
        desk.respond(&ids[0], 1, now);
        assert_eq!(held.try_recv(), Ok(Some(Ok(1))));
    }

    #[test]
    fn each_response_restarts_the_wait_and_a_loss_does_not() {
        let (mut desk, now) = (Desk::new(Patience::default()), Instant::now());
        let after = |seconds| now + std::time::Duration::from_secs(seconds);
        let mut told = admit(&mut desk, &[2], now);
        let ids = sent(&mut desk);
        assert_eq!(desk.next_deadline(), Some(after(60)));
        desk.respond(&ids[0], 1, after(50));
        assert_eq!((desk.expire(after(109)), desk.start_again()), (0, 1));
        assert_eq!(desk.expire(after(110)), 1);
        let waited = std::time::Duration::from_secs(60);
        assert_eq!(told.try_recv(), Ok(Some(Err(CallError::TimedOut { received: 0, expected: 2, waited }))));
        assert_eq!(desk.next_deadline(), None);
        assert!(sent(&mut desk).is_empty(), "a call that ended sends nothing more");
    }
}
