//! Messages between an ingester's children.

use std::sync::Arc;

use bytes::Bytes;
use orchestrator_edge::PeerError;
use orchestrator_supervise::{Message, Reply};
use uuid::Uuid;

use crate::{assignment::Assignment, roster::Roster, sender_state::SenderState, updates::ControllerUpdate};

/// Ping of a worker (CONTRACT IP02), from its connection to Accept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WorkerPinged {
    /// Name of the worker, the identity of its connection.
    pub worker: Arc<str>,
    /// UUID of the worker's process.
    pub service_uuid: [u8; 16],
}

impl Message for WorkerPinged {
    type Result = ();
}

/// List of connected workers, from Accept to Ingester.
#[derive(Debug)]
pub(crate) struct WorkersSeen {
    /// All connected workers.
    pub workers: Roster,
    /// A worker was added or removed: publish at once.
    pub changed: bool,
}

impl Message for WorkersSeen {
    type Result = ();
}

/// Entries of the `updates` stream, in order. The answer is true once all are handled; otherwise
/// they must be sent again.
#[derive(Debug)]
pub(crate) struct UpdatesArrived(pub Vec<ControllerUpdate>);

impl Message for UpdatesArrived {
    type Result = bool;
}

/// The scan has restarted and nothing of a former mapping is left, from Work to Ingester.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ScanStarted {
    /// Number of the scan's mapping.
    pub mapping: u64,
}

impl Message for ScanStarted {
    type Result = ();
}

/// A stream's source is connected and loses no further frame, from the stream's child to Ingester.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SourceReady {
    /// Number of the mapping.
    pub mapping: u64,
    /// Position of the stream.
    pub stream: usize,
}

impl Message for SourceReady {
    type Result = ();
}

/// The controller has finished a mapping, from Ingester to Work and to the streams' children. After
/// its answer Work sends no event of the mapping.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MappingFinished {
    /// Number of the mapping.
    pub mapping: u64,
}

impl Message for MappingFinished {
    type Result = ();
}

/// Question of an operator about the next event and perhaps another one, from Ingester to Work. It is
/// answered between two bursts; None if this incarnation sends nothing.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LocateEvent(pub Option<u64>);

impl Message for LocateEvent {
    type Result = Option<SenderState>;
}

/// Entries of a mapping's `assigned` stream, in order, from their reader to Assign. The answer
/// lists invalid entries and comes when Work has taken the events.
#[derive(Debug)]
pub(crate) struct EntriesRead(pub Vec<Vec<u8>>);

impl Message for EntriesRead {
    type Result = Vec<InvalidEntry>;
}

/// An assignment entry that could not be read.
#[derive(Debug)]
pub(crate) struct InvalidEntry {
    /// Position in the message.
    pub at: usize,
    /// Content of the entry.
    pub entry: Vec<u8>,
    /// Parse error.
    pub error: serde_json::Error,
}

/// Events and their workers, in order, from Assign to Work. The answer comes when there is room for
/// more.
#[derive(Debug)]
pub(crate) struct EventsAssigned(pub Vec<Assignment>);

impl Message for EventsAssigned {
    type Result = ();
}

/// Streams of assigned events, in order, from Assign to the process of an ingester class.
#[derive(Debug)]
pub(crate) struct StreamsAssigned {
    /// Number of the mapping.
    pub mapping: u64,
    /// Streams of the class in each event that has any: bit P stands for the stream at position P of
    /// the configuration.
    pub events: Vec<u64>,
}

/// A stream's backlog has items again, from the stream's child to Work.
///
/// The items travel in the backlog, which is bounded in bytes. This message is sent only when Work
/// found the backlog empty: at 100,000 events a second a message for each item would use the whole
/// 10 us.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ItemsIngested {
    /// Position of the stream.
    pub stream: usize,
}

impl Message for ItemsIngested {
    type Result = ();
}

/// A command to Redis.
#[derive(Debug)]
pub(crate) struct RedisCommand {
    /// The action.
    pub action: RedisAction,
    /// Receiver of the answer, or of the reason for the failure.
    pub reply: Reply<Result<Option<Bytes>, PeerError>>,
}

/// Actions on Redis. Keys are those of CONTRACT ID01 to ID09.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RedisAction {
    /// Publishes the configuration key for ten seconds; answers with the beginning of the former
    /// value.
    Publish(Vec<u8>),
    /// Reads a version of a parameter; answers None if it is missing.
    Parameter(String, Uuid),
    /// Reports that this ingester has finished a mapping.
    Finished(Uuid),
}

impl RedisAction {
    /// Name, as links show it.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Publish(_) => "configuration key",
            Self::Parameter(..) => "parameters",
            Self::Finished(_) => "finished entry",
        }
    }
}
