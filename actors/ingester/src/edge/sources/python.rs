//! Ingester classes of a site (CONTRACT IP30 to IP34): a Python process runs the class and sends
//! the items of each stream over a socket of that stream and run.

mod launch;
mod process;
mod redaction;
mod request;
mod run;
mod stderr;

use std::sync::Arc;

use orchestrator_supervise::{Factory, InboxSlot, Outbox, inbox};

pub(crate) use self::launch::Launch;
use self::{process::serve, redaction::Redaction, request::Request, run::PythonSource};
use crate::{messages::StreamsAssigned, source::Source};

/// Runs and ends of mappings that may wait for the process.
const REQUESTS_MAX: usize = 64;
/// Messages with assigned events that may wait for the process.
const EVENTS_MAX: usize = 4;

/// Handle of the process of one class.
#[derive(Debug, Clone)]
pub(crate) struct PythonProcess {
    requests: Outbox<Request>,
    redaction: Redaction,
    /// Receiver of the assigned events, which decide on the generators to advance.
    pub(crate) events: Outbox<StreamsAssigned>,
}

/// Receiving ends of a process.
pub(crate) struct PythonInboxes {
    requests: InboxSlot<Request>,
    events: InboxSlot<StreamsAssigned>,
}

impl PythonProcess {
    /// Creates the handle, and the inboxes for [`PythonInboxes::factory`]. Texts of the process are
    /// shown without the password in `redis_url`.
    pub(crate) fn new(redis_url: &str) -> (Self, PythonInboxes) {
        let (requests, requests_slot) = inbox(REQUESTS_MAX);
        let (events, events_slot) = inbox(EVENTS_MAX);
        let redaction = Redaction::of(redis_url);
        (Self { requests, redaction, events }, PythonInboxes { requests: requests_slot, events: events_slot })
    }

    /// Creates the source of one run.
    pub(crate) fn source(&self) -> Box<dyn Source> {
        Box::new(PythonSource::new(self.requests.clone(), self.redaction.clone()))
    }
}

impl PythonInboxes {
    /// Factory of the child that runs and restarts the process.
    pub(crate) fn factory(self, launch: Launch) -> Factory {
        let (requests, events, launch) = (self.requests.clone(), self.events.clone(), Arc::new(launch));
        let child = Factory::task(move |cx| serve(launch.clone(), requests.clone(), events.clone(), cx));
        child.with_inbox("requests", &self.requests).with_inbox("events", &self.events)
    }
}
