//! Calls that await responses, and their messages still to be sent. Pure: the caller passes the
//! time.
//!
//! A response counts items without naming them. So a lost connection restarts a call: all its messages are
//! sent again under a new correlation id. Responses to the old one are ignored (CONTRACT PE10).

use std::{
    collections::{HashMap, VecDeque},
    time::Duration,
};

use orchestrator_text::sanitize;
use tokio::time::Instant;
use uuid::Uuid;

use super::call::{Call, Outgoing, ResponseTimeouts};
use crate::call::CallError;

/// Delay before an unroutable message of an interrupted call is sent again (CONTRACT PE09).
/// Transient queues end with the broker, and servers may declare them later than this client
/// connects.
const RESEND_DELAY: Duration = Duration::from_millis(200);

/// Open calls by their current correlation id.
#[derive(Debug)]
pub(super) struct PendingCalls {
    timeouts: ResponseTimeouts,
    open: HashMap<String, OpenCall>,
    to_send: VecDeque<(String, usize)>,
    /// Unroutable messages to send again, in order of time.
    resends: VecDeque<(Instant, String, usize)>,
    bytes: usize,
}

#[derive(Debug)]
struct OpenCall {
    call: Call,
    expected: u64,
    received: u64,
    deadline: Instant,
    bytes: usize,
    /// True if the connection was lost during the call.
    interrupted: bool,
}

impl PendingCalls {
    pub(super) fn new(timeouts: ResponseTimeouts) -> Self {
        Self { timeouts, open: HashMap::new(), to_send: VecDeque::new(), resends: VecDeque::new(), bytes: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    pub(super) fn calls(&self) -> usize {
        self.open.len()
    }

    /// Size of the bodies of all open calls.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds a call. A call without items ends at once.
    pub(super) fn add(&mut self, call: Call, now: Instant) {
        let expected = call.messages.iter().map(|message| u64::from(message.items)).sum();
        if expected == 0 {
            // The caller may have given up.
            let _ = call.reply.send(Ok(0));
            return;
        }
        let bytes = call.messages.iter().map(|message| message.body.len()).sum();
        self.bytes += bytes;
        let deadline = now + self.timeouts.wait(expected);
        self.enqueue(OpenCall { call, expected, received: 0, deadline, bytes, interrupted: false });
    }

    fn enqueue(&mut self, open: OpenCall) {
        // Version 4, as in the original.
        let id = Uuid::new_v4().to_string();
        self.to_send.extend((0..open.call.messages.len()).map(|index| (id.clone(), index)));
        self.open.insert(id, open);
    }

    /// Message with the correlation id of its call.
    pub(super) fn next_to_send(&mut self) -> Option<(String, Outgoing)> {
        while let Some((id, index)) = self.to_send.pop_front() {
            // Messages of ended or abandoned calls are skipped.
            if self.open.get(&id).is_some_and(|open| open.call.reply.is_closed()) {
                self.finish(&id, Err(CallError::Stopping));
            }
            if let Some(open) = self.open.get(&id) {
                return Some((id, open.call.messages[index].clone()));
            }
        }
        None
    }

    /// Counts a response about `stored` items of the call `id`. Responses to ended calls are
    /// ignored.
    pub(super) fn respond(&mut self, id: &str, stored: u64, now: Instant) {
        let Some(open) = self.open.get_mut(id) else { return };
        open.received = open.received.saturating_add(stored);
        open.deadline = now + self.timeouts.wait(open.expected);
        let (received, expected) = (open.received, open.expected);
        if received >= expected {
            let all = received == expected;
            self.finish(
                id,
                if all { Ok(received) } else { Err(CallError::TooManyAcks { received, expected }) },
            );
        }
    }

    /// Handles a returned message of the call `id`. A new call fails; an interrupted one sends the
    /// message again under the same id, since no server got it.
    pub(super) fn unroutable(&mut self, id: &str, routing_key: &str, body: &[u8], now: Instant) {
        let Some(open) = self.open.get(id) else { return };
        // Equal messages are interchangeable.
        let is_equal = |message: &Outgoing| message.routing_key == routing_key && message.body == body;
        match open.call.messages.iter().position(is_equal).filter(|_| open.interrupted) {
            Some(index) => self.resends.push_back((now + RESEND_DELAY, id.to_owned(), index)),
            None => self.finish(id, Err(CallError::Unroutable(sanitize(routing_key)))),
        }
    }

    /// Fails the call `id`, a message of which the broker refused.
    pub(super) fn refused(&mut self, id: &str) {
        self.finish(id, Err(CallError::Refused));
    }

    /// Drops the calls whose callers have gone.
    pub(super) fn forget_abandoned(&mut self) {
        let abandoned = self.open.iter().filter(|(_, open)| open.call.reply.is_closed());
        for id in abandoned.map(|(id, _)| id.clone()).collect::<Vec<_>>() {
            self.finish(&id, Err(CallError::Stopping));
        }
    }

    pub(super) fn fail_all(&mut self, error: &CallError) {
        let ids: Vec<String> = self.open.keys().cloned().collect();
        ids.iter().for_each(|id| self.finish(id, Err(error.clone())));
    }

    /// Time of the next time-out of a call, or of the next message to send again.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let resends = self.resends.front().map(|&(at, ..)| at);
        self.open.values().map(|open| open.deadline).chain(resends).min()
    }

    /// Fails the calls past their deadline and returns their number. Enqueues the messages that are
    /// due again.
    pub(super) fn expire(&mut self, now: Instant) -> usize {
        while let Some((_, id, index)) = self.resends.pop_front_if(|&mut (at, ..)| at <= now) {
            self.to_send.push_back((id, index));
        }
        let due = self.open.iter().filter(|(_, open)| open.deadline <= now);
        let due: Vec<_> = due.map(|(id, open)| (id.clone(), open.received, open.expected)).collect();
        for (id, received, expected) in &due {
            let (received, expected) = (*received, *expected);
            let waited = self.timeouts.wait(expected);
            self.finish(id, Err(CallError::TimedOut { received, expected, waited }));
        }
        due.len()
    }

    /// Restarts every open call under a new correlation id after a lost connection; returns the
    /// number of calls. Deadlines stay, so a call ends even if the connection is lost repeatedly.
    pub(super) fn restart_all(&mut self) -> usize {
        self.to_send.clear();
        self.resends.clear();
        let open: Vec<OpenCall> = self.open.drain().map(|(_, open)| open).collect();
        let count = open.len();
        for open in open {
            self.enqueue(OpenCall { received: 0, interrupted: true, ..open });
        }
        count
    }

    fn finish(&mut self, id: &str, outcome: Result<u64, CallError>) {
        if let Some(open) = self.open.remove(id) {
            self.bytes -= open.bytes;
            let _ = open.call.reply.send(outcome);
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use orchestrator_supervise::{Pending, reply};

    use super::*;
    use crate::method::Exchange;

    type CallReply = Pending<Result<u64, CallError>>;

    fn add(pending_calls: &mut PendingCalls, items: &[u32], now: Instant) -> CallReply {
        let (reply, outcome) = reply();
        let message = |&items: &u32| Outgoing {
            exchange: Exchange::Origin,
            routing_key: "origin_add.unknown.0".to_owned(),
            body: Bytes::from_static(b"12345"),
            items,
        };
        pending_calls.add(Call { messages: items.iter().map(message).collect(), reply }, now);
        outcome
    }

    fn sent(pending_calls: &mut PendingCalls) -> Vec<String> {
        std::iter::from_fn(|| pending_calls.next_to_send()).map(|(id, _)| id).collect()
    }

    #[test]
    fn a_call_ends_with_its_last_item_and_fails_on_too_many() {
        let (mut pending_calls, now) = (PendingCalls::new(ResponseTimeouts::default()), Instant::now());
        let (mut exact, mut over, mut empty) = (
            add(&mut pending_calls, &[3, 2], now),
            add(&mut pending_calls, &[1], now),
            add(&mut pending_calls, &[], now),
        );
        assert_eq!(empty.try_recv(), Ok(Some(Ok(0))));
        assert_eq!((pending_calls.calls(), pending_calls.bytes()), (2, 15));
        let ids = sent(&mut pending_calls);
        assert!(ids[0] == ids[1] && ids[1] != ids[2] && ids[0].len() == 36 && &ids[0][14..15] == "4");
        pending_calls.respond(&ids[0], 4, now);
        pending_calls.respond("another's", 4, now);
        assert_eq!(exact.try_recv(), Ok(None));
        pending_calls.respond(&ids[0], 1, now);
        pending_calls.respond(&ids[2], 2, now);
        assert_eq!(exact.try_recv(), Ok(Some(Ok(5))));
        assert_eq!(over.try_recv(), Ok(Some(Err(CallError::TooManyAcks { received: 2, expected: 1 }))));
        assert_eq!((pending_calls.calls(), pending_calls.bytes()), (0, 0));
    }

    #[test]
    fn after_a_connection_loss_only_new_responses_count() {
        let (mut pending_calls, now) = (PendingCalls::new(ResponseTimeouts::default()), Instant::now());
        let mut outcome = add(&mut pending_calls, &[3, 2], now);
        let old = sent(&mut pending_calls);
        pending_calls.respond(&old[0], 3, now);
        assert_eq!(pending_calls.restart_all(), 1);
        let new = sent(&mut pending_calls);
        assert!(new.len() == 2 && new[0] != old[0]);
        pending_calls.respond(&old[0], 2, now);
        pending_calls.respond(&new[0], 2, now);
        assert_eq!(outcome.try_recv(), Ok(None), "3 of before and 2 of now are not all");
        pending_calls.respond(&new[0], 3, now);
        assert_eq!(outcome.try_recv(), Ok(Some(Ok(5))));
    }

    #[test]
    fn an_unroutable_message_fails_a_new_call_and_is_resent_for_an_interrupted_one() {
        let (mut pending_calls, now) = (PendingCalls::new(ResponseTimeouts::default()), Instant::now());
        let key = "origin_add.unknown.0";
        let mut new = add(&mut pending_calls, &[1], now);
        let ids = sent(&mut pending_calls);
        pending_calls.unroutable(&ids[0], key, b"12345", now);
        assert_eq!(new.try_recv(), Ok(Some(Err(CallError::Unroutable(key.to_owned())))));
        let mut interrupted = add(&mut pending_calls, &[1], now);
        pending_calls.restart_all();
        let ids = sent(&mut pending_calls);
        pending_calls.unroutable(&ids[0], key, b"12345", now);
        assert_eq!(pending_calls.next_deadline(), Some(now + RESEND_DELAY));
        assert!(sent(&mut pending_calls).is_empty());
        assert_eq!(pending_calls.expire(now + RESEND_DELAY), 0);
        assert_eq!(sent(&mut pending_calls), ids);
        pending_calls.respond(&ids[0], 1, now);
        assert_eq!(interrupted.try_recv(), Ok(Some(Ok(1))));
    }

    #[test]
    fn an_abandoned_call_sends_nothing_more() {
        let (mut pending_calls, now) = (PendingCalls::new(ResponseTimeouts::default()), Instant::now());
        let mut held = add(&mut pending_calls, &[1], now);
        drop(add(&mut pending_calls, &[1, 1], now));
        let ids = sent(&mut pending_calls);
        assert_eq!((ids.len(), pending_calls.calls(), pending_calls.bytes()), (1, 1, 5));
        pending_calls.respond(&ids[0], 1, now);
        assert_eq!(held.try_recv(), Ok(Some(Ok(1))));
    }

    #[test]
    fn each_response_extends_the_deadline_and_a_connection_loss_does_not() {
        let (mut pending_calls, now) = (PendingCalls::new(ResponseTimeouts::default()), Instant::now());
        let after = |seconds| now + std::time::Duration::from_secs(seconds);
        let mut outcome = add(&mut pending_calls, &[2], now);
        let ids = sent(&mut pending_calls);
        assert_eq!(pending_calls.next_deadline(), Some(after(60)));
        pending_calls.respond(&ids[0], 1, after(50));
        assert_eq!((pending_calls.expire(after(109)), pending_calls.restart_all()), (0, 1));
        assert_eq!(pending_calls.expire(after(110)), 1);
        let waited = std::time::Duration::from_secs(60);
        assert_eq!(
            outcome.try_recv(),
            Ok(Some(Err(CallError::TimedOut { received: 0, expected: 2, waited })))
        );
        assert_eq!(pending_calls.next_deadline(), None);
        assert!(sent(&mut pending_calls).is_empty(), "a call that ended sends nothing more");
    }
}
