//! Completed TCN that `on_complete` reports, as the configuration document keeps it until it is delivered
//! (CONTRACT SD13, SS07).

use orchestrator_supervise::{Outbox, Pending, Reply, reply};
use serde_json::{Value, json};
use uuid::Uuid;

/// Upper bound of the completions that wait for their delivery in memory. The configuration document keeps
/// the others.
pub(crate) const WAITING_MAX: usize = 64;
/// Number of undelivered completions at which the work on the next TCN waits for a delivery. It bounds the
/// configuration document.
pub(crate) const UNDELIVERED_MAX: usize = 1_000;

/// Identifier of a completion, the same in each delivery. 32 hexadecimal digits as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct CompletionId(Uuid);

impl CompletionId {
    pub(crate) fn random() -> Self {
        Self(Uuid::new_v4())
    }

    /// Parses the form that `Display` writes.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        Uuid::try_parse(text).ok().map(Self).filter(|id| id.to_string() == text)
    }
}

impl std::fmt::Display for CompletionId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.simple().fmt(f)
    }
}

/// A completed TCN. Times are milliseconds since 1970, by the database's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Completion {
    pub id: CompletionId,
    pub tcn: i64,
    pub stencils: u64,
    pub jobs: u64,
    /// Time at which a producer began with the TCN; `None` if that is unknown.
    pub started_ms: Option<i64>,
    /// Time at which the TCN was complete.
    pub completed_ms: i64,
}

impl Completion {
    /// Returns the JSON that the program or the webhook receives (CONTRACT SP12).
    pub(crate) fn to_json(self) -> Value {
        let Self { id, tcn, stencils, jobs, started_ms, completed_ms } = self;
        let duration_ms = started_ms.map(|started_ms| completed_ms.saturating_sub(started_ms).max(0));
        json!({
            "id": id.to_string(), "tcn": tcn, "stencils": stencils, "jobs": jobs, "started_ms": started_ms,
            "completed_ms": completed_ms, "duration_ms": duration_ms,
        })
    }
}

/// Time at which a producer began with a TCN, by the database's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TcnStart {
    pub tcn: i64,
    /// Milliseconds since 1970.
    pub ms: i64,
}

/// Completions in the configuration document.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct CompletionState {
    /// Begin of the latest TCN.
    pub started: Option<TcnStart>,
    /// Completions that are not delivered yet, in the order of completion.
    pub undelivered: Vec<Completion>,
}

/// Request to deliver a completion. The reply means that it is delivered; without the caller, it is given up.
#[derive(Debug)]
pub(crate) struct Delivery {
    pub completion: Completion,
    pub reply: Reply<()>,
}

/// Completions that the child `on_complete` is delivering.
#[derive(Debug)]
pub(crate) struct Deliveries {
    requests: Outbox<Delivery>,
    in_delivery: Vec<(CompletionId, Pending<()>)>,
}

impl Deliveries {
    pub(crate) fn new(requests: Outbox<Delivery>) -> Self {
        Self { requests, in_delivery: Vec::new() }
    }

    /// Requests the delivery of `completion` once. A full inbox takes it at a later call.
    pub(crate) fn submit(&mut self, completion: Completion) {
        let is_waiting = self.in_delivery.iter().any(|(id, _)| *id == completion.id);
        if is_waiting || self.in_delivery.len() >= WAITING_MAX {
            return;
        }
        let (reply, pending) = reply();
        if self.requests.tell(Delivery { completion, reply }).is_ok() {
            self.in_delivery.push((completion.id, pending));
        }
    }

    /// Removes and returns the completions that are delivered. Lost requests are removed, too, so that they
    /// can be submitted again.
    pub(crate) fn take_delivered(&mut self) -> Vec<CompletionId> {
        let mut delivered = Vec::new();
        self.in_delivery.retain_mut(|(id, pending)| match pending.try_recv() {
            Ok(None) => true,
            Ok(Some(())) => {
                delivered.push(*id);
                false
            }
            Err(_) => false,
        });
        delivered
    }

    /// Gives up all requests, because another producer delivers the completions.
    pub(crate) fn give_up(&mut self) {
        self.in_delivery.clear();
    }
}

#[cfg(test)]
mod tests {
    use orchestrator_supervise::inbox;

    use super::*;

    fn completion(tcn: i64) -> Completion {
        let id = CompletionId::random();
        Completion { id, tcn, stencils: 2, jobs: 7, started_ms: Some(1_000), completed_ms: 3_500 }
    }

    #[test]
    fn the_json_has_counts_and_duration() {
        let completion = completion(5);
        let id = completion.id.to_string();
        assert_eq!(CompletionId::parse(&id), Some(completion.id));
        let wanted = json!({
            "id": id, "tcn": 5, "stencils": 2, "jobs": 7, "started_ms": 1_000, "completed_ms": 3_500, "duration_ms": 2_500,
        });
        assert_eq!(completion.to_json(), wanted);
        let unknown = Completion { started_ms: None, ..completion };
        assert_eq!(unknown.to_json()["duration_ms"], Value::Null);
        let back = Completion { started_ms: Some(9_000), ..completion };
        assert_eq!(back.to_json()["duration_ms"], 0, "the clock went back");
    }

    #[test]
    fn a_completion_is_requested_once_until_its_request_is_lost() {
        let (requests, slot) = inbox(WAITING_MAX);
        let mut inbox = slot.open();
        let mut deliveries = Deliveries::new(requests);
        let first = completion(5);
        deliveries.submit(first);
        deliveries.submit(first);
        let request = inbox.try_recv().expect("a request");
        assert!(inbox.try_recv().is_none(), "one request");
        drop(request);
        assert_eq!(deliveries.take_delivered(), []);
        deliveries.submit(first);
        let request = inbox.try_recv().expect("a second request");
        assert_eq!(request.completion, first);
        request.reply.send(()).expect("the caller waits");
        assert_eq!(deliveries.take_delivered(), [first.id]);
        deliveries.submit(completion(6));
        deliveries.give_up();
        assert!(inbox.try_recv().expect("a request").reply.is_closed());
    }
}
